//! AMQP connection with name, heartbeat and time-outs.
//!
//! The recovery of lapin is off: it replays channels in an order that fails when queues were lost with the
//! broker. No text contains the password.

mod address;
mod alarm;
mod broker_error;
mod deliveries;
mod frames;
mod nesting;
mod requests;
mod socket;

use std::{fmt, path::Path, sync::Arc, time::Duration};

use futures_util::{StreamExt, future::BoxFuture};
use lapin::{Channel, Connection, ConnectionProperties, Event, uri::AMQPScheme, uri::AMQPUri};
use orchestrator_observe::{GaugeGuard, LinkReporter, LinkRequest, Metric};
use orchestrator_text::sanitize;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::{
    alarm::Alarm,
    broker_error::{connection_advice, peer_error},
    frames::{UNREAD_BYTES_MAX, UnreadDeliveries},
    socket::{CONNECT_TIMEOUT, Established},
};
pub use self::{
    deliveries::Deliveries,
    requests::{REPLY_TIMEOUT, connection_lost, refused, unless_different, with_timeout},
};
use crate::{
    HostPort, LinkState, PeerError, PeerErrorKind, Sent, SettingError, catch_panic,
    tls::{self, TlsClient},
};

/// Proposed heartbeat; the broker may require a shorter one. A dead peer is noticed after about twice this
/// time.
const HEARTBEAT_S: u16 = 5;

/// Largest frame, in bytes: RabbitMQ's default. It limits our buffers, whatever the broker proposes.
const FRAME: u32 = 131_072;

/// Largest frame for small messages, in bytes; all brokers accept it.
const SMALL_FRAME: u32 = 8_192;

/// Time in which lapin reports why it dropped the socket.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time that closing a connection may take; then it is dropped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Address of a broker, with credentials and connection name.
#[derive(Clone)]
pub struct Broker {
    uri: AMQPUri,
    name: String,
    endpoint: String,
    tls: Option<TlsClient>,
    /// Most messages that may wait to be read; 0 if unlimited.
    unread_max: u64,
    /// Gauge of the received messages, in bytes.
    held: Option<Metric>,
    link: Option<LinkReporter>,
}

impl Broker {
    /// Parses `url`; `name` is the connection name that the broker shows. With `amqps` the broker's
    /// certificate is checked against the authorities of the public web.
    ///
    /// # Errors
    /// It is invalid; the text does not contain it.
    pub fn new(url: &str, name: impl Into<String>) -> Result<Self, SettingError> {
        Self::with_authorities(url, name, None)
    }

    /// Parses `url` like [`Broker::new`], with the authorities in the file `ca_file` (PEM) in place of the
    /// public ones.
    ///
    /// # Errors
    /// As of [`Broker::new`], or the file cannot be used.
    pub fn with_authorities(
        url: &str,
        name: impl Into<String>,
        ca_file: Option<&Path>,
    ) -> Result<Self, SettingError> {
        let mut uri = address::parse(url)?;
        let tls = match uri.scheme {
            AMQPScheme::AMQP => None,
            AMQPScheme::AMQPS => {
                let connector = tls::connector(ca_file)?;
                let client = TlsClient::new(connector, &uri.authority.host);
                let no_name = "the address of the broker has a host that is not valid in a certificate";
                Some(client.ok_or(no_name)?)
            }
        };
        uri.query.heartbeat.get_or_insert(HEARTBEAT_S);
        let server = HostPort { host: uri.authority.host.clone(), port: uri.authority.port };
        let endpoint = format!("{server}/{}", uri.vhost);
        // Also a size in the URL is limited: lapin keeps buffers for 64 frames.
        uri.query.frame_max = uri.query.frame_max.filter(|max| (SMALL_FRAME..=FRAME).contains(max));
        Ok(Self { uri, name: name.into(), endpoint, tls, unread_max: 0, held: None, link: None })
    }

    /// Fails the connection when more than `max` messages, or 1 GiB of them, wait to be read. `max` is the
    /// prefetch count of `basic.qos`; each message read must be recorded in [`Session::delivery_tracker`].
    #[must_use]
    pub fn enforce_prefetch(mut self, max: usize) -> Self {
        self.unread_max = max as u64;
        self
    }

    /// Shows in `held`, a gauge of bytes, the messages that wait to be read, and those whose share from
    /// [`DeliveryTracker::record_read`] is not dropped.
    #[must_use]
    pub fn showing(mut self, held: &Metric) -> Self {
        held.set_bound(UNREAD_BYTES_MAX);
        self.held = Some(held.clone());
        self
    }

    /// Proposes frames of 8 KiB, for small messages. lapin keeps buffers for 64 frames: 8 MiB with the
    /// default of 128 KiB.
    #[must_use]
    pub fn small_frames(mut self) -> Self {
        self.uri.query.frame_max.get_or_insert(SMALL_FRAME);
        self
    }

    /// Reports to `link` a broker that sends nothing for longer than the heartbeat.
    #[must_use]
    pub fn reporting_to(mut self, link: &LinkState) -> Self {
        self.link = Some(link.reporter());
        self
    }

    /// Host, port and virtual host, without credentials.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Virtual host.
    pub fn vhost(&self) -> &str {
        &self.uri.vhost
    }

    /// Connects. The future is boxed, so that lapin's connection is compiled only in this crate.
    ///
    /// # Errors
    /// [`PeerError`] with [`Sent::No`].
    pub fn connect(&self) -> BoxFuture<'_, Result<Session, PeerError>> {
        Box::pin(self.open())
    }

    async fn open(&self) -> Result<Session, PeerError> {
        let failed = |error: PeerError| {
            let kind = if error.kind == PeerErrorKind::Lost { PeerErrorKind::Connect } else { error.kind };
            let error = PeerError { kind, sent: Sent::No, ..error };
            error.map_text(|reason| {
                format!("{}: connecting to the broker at {}", self.redact(reason), self.endpoint)
            })
        };
        let properties = ConnectionProperties::default().with_connection_name(self.name.as_str().into());
        let mut uri = self.uri.clone();
        let frame_max = *uri.query.frame_max.get_or_insert(FRAME);
        let unread = UnreadDeliveries::new(self.unread_max, self.held.clone());
        let socket_closed = CancellationToken::new();
        let established = Arc::<Established>::default();
        let connect = socket::connect(
            uri,
            self.tls.clone(),
            properties,
            frame_max,
            unread.clone(),
            established.clone(),
            socket_closed.clone(),
        );
        // Now and then lapin does not report an error that comes early in the handshake.
        let silent = dropped(&socket_closed);
        let connect = catch_panic(timeout(CONNECT_TIMEOUT, connect));
        let connected = tokio::select! {
            biased;
            connected = connect => connected,
            () = silent => return Err(failed(PeerError::lost("the connection ended during the handshake"))),
        };
        let connection = match connected.map_err(failed)? {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                let refusal = peer_error(&error);
                let advice = connection_advice(&error, &self.uri.authority.userinfo.username, self.vhost());
                return Err(failed(if advice.is_some() { refusal.with_advice(advice) } else { refusal }));
            }
            Err(_) => {
                let text = format!("no answer within {CONNECT_TIMEOUT:?}");
                return Err(failed(PeerError::new(PeerErrorKind::Timeout, Sent::No, text)));
            }
        };
        // RabbitMQ sends a heartbeat, or other data, at least once per interval; allow 10 % more.
        let silence = Duration::from_secs(connection.configuration().heartbeat().into()).mul_f64(1.1);
        let link = self.link.as_ref().filter(|_| !silence.is_zero());
        let silence = link.map(|link| Arc::new(link.watch_within(silence)));
        let _ = established.set(silence.as_ref().map(Arc::downgrade).unwrap_or_default());
        let alarm = Alarm(self.link.clone());
        Ok(Session { connection, unread, socket_closed, alarm, _silence: silence })
    }

    fn redact(&self, text: &str) -> String {
        let password = self.uri.authority.userinfo.password.as_str();
        // An empty or default password is no secret, and would mask ordinary words.
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

/// AMQP connection. Dropping it closes it; unacknowledged messages are delivered again.
pub struct Session {
    connection: Connection,
    unread: Arc<UnreadDeliveries>,
    /// Cancelled when lapin's thread drops the socket.
    socket_closed: CancellationToken,
    alarm: Alarm,
    /// Wait for the broker's next bytes.
    _silence: Option<Arc<LinkRequest>>,
}

/// Counter of messages read from a connection, see [`Broker::enforce_prefetch`].
#[derive(Debug, Clone)]
pub struct DeliveryTracker(Arc<UnreadDeliveries>);

impl DeliveryTracker {
    /// Records that a message with a body of `body` bytes was read. Returns its share in the gauge of
    /// [`Broker::showing`], if there is one.
    pub fn record_read(&self, body: usize) -> Option<GaugeGuard> {
        self.0.read(body)
    }
}

impl Session {
    /// Returns the counter of messages read.
    pub fn delivery_tracker(&self) -> DeliveryTracker {
        DeliveryTracker(self.unread.clone())
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// As of [`with_timeout`].
    pub fn channel(&self) -> BoxFuture<'_, Result<Channel, PeerError>> {
        Box::pin(with_timeout("open a channel", self.connection.create_channel()))
    }

    /// Waits until the connection is lost, and returns the reason. Reports alarms of the broker meanwhile.
    /// Dropping the future loses nothing.
    pub async fn lost(&self) -> PeerError {
        let mut events = self.connection.events_listener();
        let mut reason = "the connection is closed".to_owned();
        // After a panic, lapin's thread drops the socket and reports nothing.
        let silent = dropped(&self.socket_closed);
        tokio::pin!(silent);
        // The status shows also events from before the listener was created; an error event may be about one
        // channel only.
        while self.connection.status().connected() {
            tokio::select! {
                biased;
                event = events.next() => match event {
                    Some(Event::Error(error)) => reason = sanitize(error.to_string()),
                    Some(Event::ConnectionBlocked(alarm)) => self.alarm.begin(&alarm),
                    Some(Event::ConnectionUnblocked) => self.alarm.end(),
                    Some(_) => {}
                    None => break,
                },
                () = &mut silent => {
                    reason = "the client library dropped it without a reason, probably after a panic".to_owned();
                    break;
                }
            }
        }
        connection_lost(reason)
    }

    /// Waits for `request`, but not longer than the connection lasts: a reply that was awaited when it ended
    /// may never come.
    ///
    /// # Errors
    /// Those of `request`, or the connection is lost.
    pub async fn while_connected<T>(
        &self,
        request: impl Future<Output = Result<T, PeerError>>,
    ) -> Result<T, PeerError> {
        tokio::select! {
            biased;
            done = request => done,
            error = self.lost() => Err(error),
        }
    }

    /// Closes the connection, at most for 1 s.
    pub async fn close(self) {
        // After the time-out, dropping the connection ends it.
        let _ = catch_panic(timeout(CLOSE_TIMEOUT, self.connection.close(200, "stopped".into()))).await;
    }
}

/// Waits until lapin has dropped the socket and had [`REPORT_TIMEOUT`] to report why.
async fn dropped(socket_closed: &CancellationToken) {
    socket_closed.cancelled().await;
    sleep(REPORT_TIMEOUT).await;
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("connection", self.connection.status()).finish_non_exhaustive()
    }
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
    fn a_tls_broker_needs_a_readable_file_of_authorities() {
        let broker = Broker::new("amqps://ada:secret@h/%2f", "test").expect("the public authorities");
        assert_eq!(broker.endpoint(), "h:5671//");
        let none = Path::new("/none");
        let error = Broker::with_authorities("amqps://ada:secret@h/", "test", Some(none));
        let error = error.expect_err("no file").to_string();
        assert!(
            error.starts_with("ca_file = /none: cannot be read") && !error.contains("amqp://"),
            "{error}"
        );
        assert!(Broker::with_authorities("amqp://h/", "test", Some(none)).is_ok(), "not needed");
    }
}
