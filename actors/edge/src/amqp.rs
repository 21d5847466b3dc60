//! The connection that every user of an AMQP broker starts from: with a name, a heartbeat and a time-out, without lapin's
//! own recovery (it replays channels in an order that fails when queues died with the broker), and without the password in
//! any text.

mod frames;
mod nesting;
mod socket;

use std::{fmt, path::Path, sync::Arc, time::Duration};

use futures_util::{StreamExt, future::BoxFuture};
use lapin::{Channel, Connection, ConnectionProperties, Event, uri::AMQPScheme, uri::AMQPUri};
use orchestrator_supervise::sanitize;
use tokio::{net::TcpStream, time::timeout};

use self::{frames::UnreadDeliveries, socket::CONNECT_TIMEOUT};
use crate::tls::{self, TlsClient};

/// Heartbeat that is proposed; the broker may ask for a shorter one. A dead peer is noticed after about twice as long.
const HEARTBEAT_S: u16 = 10;

/// Largest frame that is agreed to, bytes: RabbitMQ's default. Without a limit of ours, the broker's would decide about our buffers.
const FRAME: u32 = 131_072;

/// The smallest frame that all brokers agree to, bytes.
const SMALL_FRAME: u32 = 8_192;

/// The longest wait for the answer to a request (declare, consume, confirm ..) before its connection is given up.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// A broker that does not take a connection in so short a time does not listen, as far as [`Broker::is_listening`] is concerned.
const KNOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection that does not close in time is dropped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Where a broker is and who we are there.
#[derive(Clone)]
pub struct Broker {
    uri: AMQPUri,
    name: String,
    endpoint: String,
    tls: Option<TlsClient>,
    /// Most messages that may wait to be taken; 0 if that is not told.
    waiting_max: u64,
}

/// Why there is no connection, or why it was given up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmqpError {
    /// The url cannot be used: no try will help.
    #[error(
        "{0}: write amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps:// for TLS, for example amqp://guest:guest@localhost:5672/%2f"
    )]
    Url(String),
    /// The authorities that the broker's certificate is checked against cannot be had: no try will help.
    #[error("{0}")]
    Authorities(String),
    /// The broker does not let us in.
    #[error(
        "cannot connect to the broker at {endpoint}: {reason}: see that it runs, and that host, port, user, password and virtual host are right"
    )]
    Connect {
        /// Which broker.
        endpoint: String,
        /// What it, or the system, said.
        reason: String,
    },
    /// The broker refuses or does not answer a request.
    #[error("cannot {what}: {reason}")]
    Request {
        /// What was asked.
        what: String,
        /// What the broker said.
        reason: String,
    },
    /// The connection broke.
    #[error("the connection to the broker is lost: {0}")]
    Lost(String),
}

impl AmqpError {
    /// May another try succeed?
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Self::Url(_) | Self::Authorities(_))
    }
}

impl Broker {
    /// Reads `url`; `name` is what the broker's operators see of the connection. With `amqps` the broker's certificate is checked
    /// against the authorities of the public web.
    ///
    /// # Errors
    /// [`AmqpError::Url`].
    pub fn new(url: &str, name: impl Into<String>) -> Result<Self, AmqpError> {
        Self::with_authorities(url, name, None)
    }

    /// As [`Broker::new`], with the authorities in the file `ca_file` (PEM) in place of the public ones.
    ///
    /// # Errors
    /// [`AmqpError::Url`]; [`AmqpError::Authorities`] if the file cannot be used.
    pub fn with_authorities(
        url: &str,
        name: impl Into<String>,
        ca_file: Option<&Path>,
    ) -> Result<Self, AmqpError> {
        let unread = || AmqpError::Url("the broker's url cannot be read".to_owned());
        // A password with a bare / or ? ends before its @: what stands before would be taken for the host.
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        if rest.split_once(['/', '?', '#']).is_some_and(|(_, behind)| behind.contains('@')) {
            return Err(unread());
        }
        // The parser's own text may quote what was typed, the password included.
        let mut uri: AMQPUri = url.parse().map_err(|_: String| unread())?;
        let tls = match uri.scheme {
            AMQPScheme::AMQP => None,
            AMQPScheme::AMQPS => {
                let connector = tls::connector(ca_file).map_err(AmqpError::Authorities)?;
                let client = TlsClient::new(connector, &uri.authority.host);
                let no_name = "the broker's host is no name that a certificate can have";
                Some(client.ok_or_else(|| AmqpError::Url(no_name.to_owned()))?)
            }
        };
        uri.query.heartbeat.get_or_insert(HEARTBEAT_S);
        let endpoint = format!("{}:{}/{}", uri.authority.host, uri.authority.port, uri.vhost);
        // Also one that the url asks for: 64 of them are kept.
        uri.query.frame_max = uri.query.frame_max.filter(|max| (SMALL_FRAME..=FRAME).contains(max));
        Ok(Self { uri, name: name.into(), endpoint, tls, waiting_max: 0 })
    }

    /// Limits the messages that wait to be taken to `max`, which is what the broker was told by `basic.qos`, and their bytes to 1 GiB. Each
    /// one is to be noted in [`Session::delivery_tracker`].
    #[must_use]
    pub fn enforce_prefetch(mut self, max: usize) -> Self {
        self.waiting_max = max as u64;
        self
    }

    /// For messages of a few bytes: buffers for 64 frames are kept, which are 8 MiB with the usual frames of 128 KiB.
    #[must_use]
    pub fn small_frames(mut self) -> Self {
        self.uri.query.frame_max.get_or_insert(SMALL_FRAME);
        self
    }

    /// Host, port and virtual host, for people to read: no user, no password.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Connects. The future is boxed so that the driver's connection is compiled in this crate once, not in each crate that awaits it.
    ///
    /// # Errors
    /// [`AmqpError::Connect`].
    pub fn connect(&self) -> BoxFuture<'_, Result<Session, AmqpError>> {
        Box::pin(self.open())
    }

    async fn open(&self) -> Result<Session, AmqpError> {
        let failed = |reason| AmqpError::Connect { endpoint: self.endpoint.clone(), reason };
        let properties = ConnectionProperties::default().with_connection_name(self.name.as_str().into());
        let mut uri = self.uri.clone();
        let frame_max = *uri.query.frame_max.get_or_insert(FRAME);
        let unread = UnreadDeliveries::new(self.waiting_max);
        let connect = socket::connect(uri, self.tls.clone(), properties, frame_max, unread.clone());
        let connection = match timeout(CONNECT_TIMEOUT, connect).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(failed(self.redact(&sanitize(error.to_string())))),
            Err(_) => return Err(failed(format!("no answer within {CONNECT_TIMEOUT:?}"))),
        };
        Ok(Session { connection, unread })
    }

    /// Does anybody listen there? Costs the broker less than a try to connect.
    pub async fn is_listening(&self) -> bool {
        let authority = &self.uri.authority;
        let knock = TcpStream::connect((authority.host.as_str(), authority.port));
        matches!(timeout(KNOCK_TIMEOUT, knock).await, Ok(Ok(_)))
    }

    /// `text` without the password, should anybody have put it there.
    fn redact(&self, text: &str) -> String {
        let password = self.uri.authority.userinfo.password.as_str();
        // One that is a word of the protocol, or nothing, hides nothing.
        if password.is_empty() || password == "guest" {
            text.to_owned()
        } else {
            text.replace(password, "***")
        }
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker")
            .field("endpoint", &self.endpoint)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// One connection. Dropped, it closes; what was not acknowledged on it is delivered again.
pub struct Session {
    connection: Connection,
    unread: Arc<UnreadDeliveries>,
}

/// Notes which messages of a connection were taken, see [`Broker::enforce_prefetch`].
#[derive(Debug, Clone)]
pub struct DeliveryTracker(Arc<UnreadDeliveries>);

impl DeliveryTracker {
    /// Notes that a message with a body of `body` bytes was taken.
    pub fn note(&self, body: usize) {
        self.0.taken(body);
    }
}

impl Session {
    /// Where messages that were taken are noted.
    pub fn delivery_tracker(&self) -> DeliveryTracker {
        DeliveryTracker(self.unread.clone())
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// [`AmqpError::Request`].
    pub fn channel(&self) -> BoxFuture<'_, Result<Channel, AmqpError>> {
        Box::pin(with_timeout("open a channel", self.connection.create_channel()))
    }

    /// Waits until the connection is lost, and tells why. May be dropped and called again.
    pub async fn lost(&self) -> AmqpError {
        let mut events = self.connection.events_listener();
        let mut reason = "it is closed".to_owned();
        // An event from before the listener was there is missed, the status is not; and an error may be one channel's.
        while self.connection.status().connected() {
            match events.next().await {
                Some(Event::Error(error)) => reason = sanitize(error.to_string()),
                Some(_) => {}
                None => break,
            }
        }
        AmqpError::Lost(reason)
    }

    /// Takes leave of the broker.
    pub async fn close(self) {
        // Whether it says goodbye or not: the connection ends with this value.
        let _ = timeout(CLOSE_TIMEOUT, self.connection.close(200, "stopped".into())).await;
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("connection", self.connection.status()).finish_non_exhaustive()
    }
}

/// Waits for the broker's answer to a request, but not for ever: a broker that died says nothing.
///
/// # Errors
/// [`AmqpError::Request`]; `what` completes "cannot ..".
pub async fn with_timeout<T>(
    what: &str,
    request: impl Future<Output = lapin::Result<T>>,
) -> Result<T, AmqpError> {
    let reason = match timeout(REPLY_TIMEOUT, request).await {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => sanitize(error.to_string()),
        Err(_) => format!("no answer from the broker within {REPLY_TIMEOUT:?}"),
    };
    Err(AmqpError::Request { what: what.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_shows_neither_user_nor_password() {
        let broker = Broker::new("amqp://ada:se%2Fcret@h:1234/%2f", "test").expect("a url");
        assert_eq!(broker.endpoint(), "h:1234//");
        assert!(!format!("{broker:?}").contains("cret"));
        assert_eq!(broker.redact("no se/cret here"), "no *** here");
    }

    #[test]
    fn a_secured_broker_needs_authorities_that_can_be_read() {
        let broker = Broker::new("amqps://ada:secret@h/%2f", "test").expect("the public ones are there");
        assert_eq!(broker.endpoint(), "h:5671//");
        let none = Path::new("/none");
        let error =
            Broker::with_authorities("amqps://ada:secret@h/", "test", Some(none)).expect_err("no file");
        let text = error.to_string();
        assert!(text.starts_with("ca_file = /none: cannot be read") && !text.contains("amqp://"), "{text}");
        assert!(!error.is_retryable());
        assert!(Broker::with_authorities("amqp://h/", "test", Some(none)).is_ok(), "not needed");
    }

    #[test]
    fn a_url_that_cannot_be_used_says_what_to_write_and_not_what_was_written() {
        for url in [
            "http://ada:secret@h/",
            "ada:secret",
            "amqp://ada:secret?x@h",
            "amqp://ada:1234?secret@h",
            "amqp://ada:1234/secret@h",
            "amqp://ada:secret",
            "amqp://h/?frame_max=secret",
        ] {
            let error = Broker::new(url, "test").expect_err("not a url of ours");
            let text = error.to_string();
            assert!(text.contains("cannot be read") && text.contains("amqp://USER"), "{text}");
            assert!(!text.contains("secret") && !text.contains("1234"), "{text}");
            assert!(!error.is_retryable());
        }
    }
}
