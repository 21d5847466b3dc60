//! Outgoing connections: retried without limit, with the error reported to the link.

use std::{io::ErrorKind, time::Duration};

use orchestrator_edge::{LinkState, RetryPolicy};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use tokio::{net::TcpStream, time::timeout};

use crate::{
    edge::sources::address::Address,
    source::{SourceCounts, SourceCx},
};

/// Time-out for name lookup and connecting, and for a greeting.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Delays before a source is dialled, or its server started, again (CONTRACT IE06), unless its port is
/// closed. Shorter than those of other servers: a source without backpressure loses frames meanwhile.
pub(super) const RETRY: RetryPolicy =
    RetryPolicy::exception(Duration::from_millis(50), Duration::from_secs(1));
/// Delay before a closed port is dialled again, as libzmq's. It does not grow: the source may bind at any
/// time, and what it publishes before the next attempt is lost. A refused attempt costs two packets, unlike
/// one without an answer or with a name to look up.
const REFUSED_DELAY: Duration = Duration::from_millis(100);
/// Idle time before keep-alive probes. An idle source sends nothing, so a vanished peer is detected
/// after about two minutes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_PROBES: (Duration, u32) = (Duration::from_secs(15), 4);

/// Connections to one address over one run.
#[derive(Debug)]
pub(super) struct Dialler {
    address: Address,
    link: LinkState,
    counts: SourceCounts,
    was_up: bool,
    /// A message of this connection was processed.
    progressed: bool,
}

impl Dialler {
    pub(super) fn new(address: Address, cx: &SourceCx) -> Self {
        let link = LinkState::of_link(cx.link.clone(), RETRY);
        // Clears the former run's state of the link.
        link.clear();
        Self { address, link, counts: cx.counts.clone(), was_up: false, progressed: false }
    }

    /// Retries until `open` accepts a connection. Its error says what to do.
    pub(super) async fn dial<C>(&mut self, open: impl AsyncFn(TcpStream) -> Result<C, String>) -> C {
        loop {
            let attempt = self.link.request();
            let opened = self.try_once(&open).await;
            drop(attempt);
            match opened {
                Ok(connection) => {
                    self.link.connected();
                    self.progressed = false;
                    if std::mem::replace(&mut self.was_up, true) {
                        self.counts.reconnects.add(1);
                    }
                    return connection;
                }
                Err(DialError { is_refused, reason }) => {
                    let reason = format!("{}: {reason}", self.address);
                    if is_refused {
                        self.link.not_ready(reason, REFUSED_DELAY);
                        self.link.wait(REFUSED_DELAY).await;
                    } else {
                        self.link.retry(reason).await;
                    }
                }
            }
        }
    }

    /// Resets the delays after a message was processed. Cheap enough for every message.
    pub(super) fn progressed(&mut self) {
        if !std::mem::replace(&mut self.progressed, true) {
            self.link.succeeded();
        }
    }

    /// Reports a lost connection and waits before the next attempt.
    pub(super) async fn connection_lost(&mut self, reason: &str) {
        self.link.retry(format!("{}: {reason}: check that the source runs", self.address)).await;
    }

    async fn try_once<C>(&self, open: &impl AsyncFn(TcpStream) -> Result<C, String>) -> Result<C, DialError> {
        let advice = "start the source there, or correct upstream_url";
        let connecting = TcpStream::connect((&*self.address.0.host, self.address.0.port));
        let stream = match timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let is_refused = error.kind() == ErrorKind::ConnectionRefused;
                return Err(DialError { is_refused, reason: format!("{error}: {advice}") });
            }
            Err(_elapsed) => {
                return Err(format!("no answer within {} s: {advice}", CONNECT_TIMEOUT.as_secs()).into());
            }
        };
        keep_alive(&stream).map_err(|error| format!("keep-alive cannot be set: {error}"))?;
        Ok(open(stream).await?)
    }
}

/// Failed attempt.
struct DialError {
    /// The port is closed.
    is_refused: bool,
    /// Reason, with what to do.
    reason: String,
}

impl From<String> for DialError {
    fn from(reason: String) -> Self {
        Self { is_refused: false, reason }
    }
}

/// Clears the link's state with the end of the run.
impl Drop for Dialler {
    fn drop(&mut self) {
        self.link.clear();
    }
}

fn keep_alive(stream: &TcpStream) -> rustix::io::Result<()> {
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    set_tcp_keepintvl(stream, KEEPALIVE_PROBES.0)?;
    set_tcp_keepcnt(stream, KEEPALIVE_PROBES.1)
}
