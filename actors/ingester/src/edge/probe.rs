//! `orchestrator ingester probe`: reads a source over ZeroMQ for a while and measures its messages.
//!
//! A separate process with the crate `zeromq`, so that a hostile source ends this command only.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::{Instant, sleep, timeout_at};
use zeromq::{PullSocket, Socket, SocketEvent, SocketRecv, SubSocket, ZmqError, ZmqMessage};

use crate::{
    edge::sources::{Address, ZmqProtocol},
    measurements::Measurements,
    zmtp::SocketType,
};

/// Time between two connections to a source.
const RETRY: Duration = Duration::from_millis(200);

/// Source to probe and limits.
pub(crate) struct Probe {
    pub(crate) protocol: ZmqProtocol,
    pub(crate) address: Address,
    pub(crate) duration: Duration,
    /// Number of messages after which the probe ends.
    pub(crate) messages: u64,
}

impl Probe {
    /// Measures messages until a limit is reached.
    ///
    /// # Errors
    /// The source cannot be reached; the text says what to do.
    pub(crate) async fn run(&self) -> Result<Measurements, String> {
        let deadline = Instant::now() + self.duration;
        let shared = self.protocol.numbers_events;
        let mut found = if shared { Measurements::of_share() } else { Measurements::default() };
        let mut error = Some(format!("no connection within {} s", self.duration.as_secs()));
        let measuring = async {
            let (mut recogniser, mut first) = ((self.protocol.recogniser)(), None);
            loop {
                let mut source = match Connection::open(&self.address, self.protocol.socket).await {
                    Ok(source) => source,
                    Err(reason) => {
                        error = Some(reason.to_string());
                        sleep(RETRY).await;
                        continue;
                    }
                };
                error = None;
                while let Some(message) = source.next().await {
                    let since = *first.get_or_insert_with(Instant::now);
                    let parts = message.into_vec().into_iter().collect();
                    found.record(&mut *recogniser, parts, since.elapsed());
                    if found.messages() >= self.messages {
                        return;
                    }
                }
                found.reconnected();
                sleep(RETRY).await;
            }
        };
        // The end of the time is the usual end.
        let _ = timeout_at(deadline, measuring).await;
        match error.filter(|_| found.messages() == 0) {
            None => Ok(found),
            Some(reason) => Err(format!(
                "{} cannot be reached: {reason}: start the source there, or correct the address",
                self.address
            )),
        }
    }
}

/// Socket and its events.
enum Connection {
    Sub(SubSocket),
    Pull(PullSocket, futures_util::stream::BoxStream<'static, SocketEvent>),
}

impl Connection {
    async fn open(address: &Address, socket: SocketType) -> Result<Self, ZmqError> {
        if socket == SocketType::Pull {
            let mut socket = PullSocket::new();
            let events = socket.monitor().boxed();
            socket.connect(&address.to_string()).await?;
            return Ok(Self::Pull(socket, events));
        }
        let mut socket = SubSocket::new();
        socket.connect(&address.to_string()).await?;
        socket.subscribe("").await?;
        Ok(Self::Sub(socket))
    }

    /// Next message; None if the connection is lost. A SUB connects again by itself.
    async fn next(&mut self) -> Option<ZmqMessage> {
        match self {
            Self::Sub(socket) => socket.recv().await.ok(),
            Self::Pull(socket, events) => {
                let lost = async {
                    // A PULL that is no longer connected waits for ever.
                    while !matches!(events.next().await, Some(SocketEvent::Disconnected(_)) | None) {}
                };
                tokio::select! {
                    biased;
                    message = socket.recv() => message.ok(),
                    () = lost => None,
                }
            }
        }
    }
}
