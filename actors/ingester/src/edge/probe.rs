//! `orchestrator ingester probe`: reads a source over ZeroMQ for a while and measures its messages.

use std::time::Duration;

use bytes::Bytes;
use orchestrator_ingester_zmtp::FrameLimits;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    edge::{
        sources::{Address, ZmqProtocol, open},
        zmtp_stream::{Connection, HandshakeOptions},
    },
    measurements::Measurements,
};

/// Time between two connections to a source.
const RETRY: Duration = Duration::from_millis(200);
/// Time-out of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of one read of small messages.
const BLOCK: usize = 64 << 10;
/// Limits of messages. A source that exceeds them is disconnected, and dialled again.
const LIMITS: FrameLimits = FrameLimits { frame_max: 256 << 20, message_max: 256 << 20, parts_max: 4096 };

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
                let mut source = match self.open().await {
                    Ok(source) => source,
                    Err(reason) => {
                        error = Some(reason);
                        sleep(RETRY).await;
                        continue;
                    }
                };
                error = None;
                loop {
                    match source.reader.next_message(&mut source.writer).await {
                        Ok(Some(message)) => {
                            let now = Instant::now();
                            found.record(&mut *recogniser, message, now - *first.get_or_insert(now));
                            // A source that always has more never lets the time-out be noticed.
                            if found.messages() >= self.messages || now >= deadline {
                                return;
                            }
                        }
                        Ok(None) => break,
                        Err(reason) => {
                            error = Some(reason.to_string());
                            break;
                        }
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

    async fn open(&self) -> Result<Connection, String> {
        let at = &self.address.0;
        let stream =
            TcpStream::connect((at.host.as_str(), at.port)).await.map_err(|error| error.to_string())?;
        let options = HandshakeOptions {
            socket_type: self.protocol.socket,
            identity: Bytes::new(),
            limits: LIMITS,
            block_bytes: BLOCK,
            deadline: HANDSHAKE_TIMEOUT,
        };
        open(stream, &options).await
    }
}
