//! Connections that we make: tried for ever, with what is wrong told to the link.

use std::time::Duration;

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{Backoff, LinkReporter};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    edge::sources::address::Address,
    source::{SourceCounts, SourceCx},
};

/// Longest look-up and connecting, and longest greeting.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Short: frames of a source that cannot be slowed are lost meanwhile.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(1) };
/// A peer that vanished without a word is noticed a minute or two later: an idle source says nothing either.
const SILENCE: Duration = Duration::from_secs(60);
const PROBES: (Duration, u32) = (Duration::from_secs(15), 4);

/// Dials one address for one run.
#[derive(Debug)]
pub(super) struct Dialler {
    address: Address,
    link: LinkReporter,
    reconnect: Reconnect,
    counts: SourceCounts,
    was_up: bool,
    /// A message of this connection was processed.
    progressed: bool,
}

impl Dialler {
    pub(super) fn new(address: Address, cx: &SourceCx) -> Self {
        // What the link says is of the run before.
        cx.link.connecting(0);
        let reconnect = Reconnect::new(cx.link.clone(), BACKOFF);
        let (link, counts) = (cx.link.clone(), cx.counts.clone());
        Self { address, link, reconnect, counts, was_up: false, progressed: false }
    }

    /// Tries until there is a connection that `open` is content with. Its error says what to do.
    pub(super) async fn dial<C>(&mut self, open: impl AsyncFn(TcpStream) -> Result<C, String>) -> C {
        loop {
            match self.try_once(&open).await {
                Ok(connection) => {
                    self.reconnect.connected();
                    self.progressed = false;
                    if std::mem::replace(&mut self.was_up, true) {
                        self.counts.reconnects.add(1);
                    }
                    return connection;
                }
                Err(reason) => self.wait(&reason).await,
            }
        }
    }

    /// Begins the delays anew: a message of the source was processed. Cheap, for every message.
    pub(super) fn progressed(&mut self) {
        if !std::mem::replace(&mut self.progressed, true) {
            self.reconnect.succeeded();
        }
    }

    /// The connection is gone: waits for a moment before the next try.
    pub(super) async fn lost(&mut self, reason: &str) {
        self.wait(&format!("{reason}: see that the source runs")).await;
    }

    async fn wait(&mut self, reason: &str) {
        let delay = self.reconnect.failed(format!("{}: {reason}", self.address));
        sleep(delay).await;
    }

    async fn try_once<C>(&self, open: &impl AsyncFn(TcpStream) -> Result<C, String>) -> Result<C, String> {
        let advice = "start the source there, or correct upstream_url";
        let connecting = TcpStream::connect((&*self.address.0.host, self.address.0.port));
        let stream = match timeout(PATIENCE, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(format!("{error}: {advice}")),
            Err(_elapsed) => return Err(format!("no answer within {} s: {advice}", PATIENCE.as_secs())),
        };
        keep_alive(&stream).map_err(|error| format!("keep-alive cannot be set: {error}"))?;
        open(stream).await
    }
}

/// The connection goes with the run, and so does what the link says of it.
impl Drop for Dialler {
    fn drop(&mut self) {
        self.link.connecting(0);
    }
}

fn keep_alive(stream: &TcpStream) -> rustix::io::Result<()> {
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, SILENCE)?;
    set_tcp_keepintvl(stream, PROBES.0)?;
    set_tcp_keepcnt(stream, PROBES.1)
}
