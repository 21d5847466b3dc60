//! Sources over ZeroMQ: a PULL or SUB socket that connects (CONTRACT IP10). An unread PULL slows
//! its sender; a publisher drops messages for a slow SUB.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::stream::{StreamExt, iter, unfold};
use orchestrator_ingester_protocols::{Outcome, Recognise};
use orchestrator_ingester_zmtp::{FrameLimits, SocketType, subscription};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    edge::{
        sources::{
            address::Address,
            dial::{CONNECT_TIMEOUT, Dialler},
            large_message_reader::{LargeMessageReader, Messages},
            outcome_counter::OutcomeCounter,
            recognisers::MakeRecogniser,
        },
        zmtp_stream::{Connection, HandshakeOptions, handshake},
    },
    item::Item,
    source::{Items, Source, SourceCx},
};

/// Bytes of one read of small messages.
const BLOCK: usize = 256 << 10;
/// Most items of one batch, unless one message makes more.
const BATCH: usize = 256;
/// Limits of messages.
const LIMITS: FrameLimits = FrameLimits { frame_max: 1 << 30, message_max: 1 << 30, parts_max: 4096 };

/// A source that pushes or publishes.
#[derive(Debug)]
pub(crate) struct ZmqSource {
    address: Address,
    socket: SocketType,
    recogniser: MakeRecogniser,
    limits: FrameLimits,
    /// Reader of large messages, if it is not the source itself.
    large_reader: Option<LargeMessageReader>,
    numbers_events: bool,
}

impl ZmqSource {
    /// Connects a `socket`, PULL or SUB, to `address`. Messages may have 1 GiB.
    pub(crate) fn new(address: Address, socket: SocketType, recogniser: MakeRecogniser) -> Self {
        Self { address, socket, recogniser, limits: LIMITS, large_reader: None, numbers_events: false }
    }

    /// Sets the limits of messages. A peer that exceeds them is disconnected and dialled again.
    #[cfg(test)]
    pub(crate) fn limits(self, limits: FrameLimits) -> Self {
        Self { limits, ..self }
    }

    /// Takes the numbers of items for those of their events.
    #[must_use]
    pub(crate) fn numbering_events(self) -> Self {
        Self { numbers_events: true, ..self }
    }

    /// Lets `reader` read large messages.
    pub(super) fn with_reader(self, reader: LargeMessageReader) -> Self {
        Self { large_reader: Some(reader), ..self }
    }
}

impl Source for ZmqSource {
    fn run(&mut self, cx: SourceCx) -> Items {
        let run = ZmqRun {
            dialler: Dialler::new(self.address.clone(), &cx),
            handshake: HandshakeOptions {
                socket_type: self.socket,
                identity: Bytes::new(),
                limits: self.limits,
                block_bytes: BLOCK,
                deadline: CONNECT_TIMEOUT,
            },
            messages: None,
            large_reader: self.large_reader.clone(),
            recogniser: (self.recogniser)(),
            outcome_counter: OutcomeCounter::new(cx)
                .numbering_events(self.numbers_events)
                .publishing(self.socket == SocketType::Sub),
        };
        // Batches, and a boxed run, avoid moving the whole state for each item.
        let batches = unfold(Box::new(run), |mut run| async move { Some((run.batch().await, run)) });
        batches.flat_map(|items| iter(items).map(Ok)).boxed_local()
    }

    fn has_backpressure(&self) -> bool {
        self.socket != SocketType::Sub
    }

    fn numbers_events(&self) -> bool {
        self.numbers_events
    }
}

/// One run. Its recogniser outlives connections, so a series continues after a reconnect.
struct ZmqRun {
    dialler: Dialler,
    handshake: HandshakeOptions,
    /// Messages of the current connection.
    messages: Option<Messages>,
    large_reader: Option<LargeMessageReader>,
    recogniser: Box<dyn Recognise>,
    outcome_counter: OutcomeCounter,
}

impl ZmqRun {
    /// Next item, with those that arrived with it.
    async fn batch(&mut self) -> VecDeque<Item> {
        let mut items = VecDeque::new();
        while items.is_empty() {
            let Some(messages) = &mut self.messages else {
                let options = &self.handshake;
                let connection = self.dialler.dial(async |stream| open(stream, options).await).await;
                self.messages = Some(Messages::new(connection, self.large_reader.clone()));
                continue;
            };
            let reason = match messages.next().await {
                Ok(Some(message)) => {
                    let mut next = Some(message);
                    while let Some(message) = next {
                        let outcome = self.recogniser.feed(message, &mut items);
                        if !matches!(outcome, Outcome::Invalid(_)) {
                            self.dialler.progressed();
                        }
                        self.outcome_counter.count(outcome);
                        next = if items.len() < BATCH { messages.buffered() } else { None };
                    }
                    continue;
                }
                Ok(None) => "the source closed the connection".to_owned(),
                Err(error) => error.to_string(),
            };
            self.messages = None;
            self.dialler.connection_lost(&reason).await;
        }
        items
    }
}

/// Completes the handshake and, for a SUB, subscribes to everything.
pub(crate) async fn open(stream: TcpStream, options: &HandshakeOptions) -> Result<Connection, String> {
    let mut connection = handshake(stream, options).await.map_err(|error| error.to_string())?;
    if options.socket_type == SocketType::Sub {
        let subscribed = connection.writer.write_all(&subscription(b"")).await;
        subscribed.map_err(|error| {
            format!("it does not read the subscription: {error}: check that the source runs")
        })?;
    }
    Ok(connection)
}
