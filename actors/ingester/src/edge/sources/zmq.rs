//! Sources over ZeroMQ: a PULL or SUB socket that connects (CONTRACT IP10). A PULL is slowed by not being read; what a SUB's peer
//! drops, it drops.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::stream::{StreamExt, iter, unfold};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    edge::{
        sources::{
            address::Address,
            dial::{Dialler, PATIENCE},
            long::{LongReader, Messages},
            recognisers::MakeRecogniser,
            tally::Tally,
        },
        zmtp_stream::{Connection, Local, handshake},
    },
    item::Item,
    protocol::{Recognise, Verdict},
    source::{Items, Source, SourceCx},
    zmtp::{FrameLimits, SocketType, subscription},
};

/// What is read at once where messages are small, bytes.
const BLOCK: usize = 256 << 10;
/// Items of one batch, but for a message that makes many.
const BATCH: usize = 256;
/// What a message may have at the most, unless [`ZmqSource::limits`] says otherwise.
const LIMITS: FrameLimits = FrameLimits { frame_max: 1 << 30, message_max: 1 << 30, parts_max: 4096 };

/// A source that pushes or publishes.
#[derive(Debug)]
pub struct ZmqSource {
    address: Address,
    socket: SocketType,
    recogniser: MakeRecogniser,
    limits: FrameLimits,
    /// Who reads long messages, if it is not the source itself.
    long: Option<LongReader>,
}

impl ZmqSource {
    /// Connects a `socket`, PULL or SUB, to `address`. Frames and messages may have 1 GiB.
    pub fn new(address: Address, socket: SocketType, recogniser: MakeRecogniser) -> Self {
        Self { address, socket, recogniser, limits: LIMITS, long: None }
    }

    /// Other limits. A peer that announces more is cut off, and dialled again.
    #[must_use]
    pub fn limits(self, limits: FrameLimits) -> Self {
        Self { limits, ..self }
    }

    /// Long messages are read by `reader`.
    pub(super) fn with_reader(self, reader: LongReader) -> Self {
        Self { long: Some(reader), ..self }
    }
}

impl Source for ZmqSource {
    fn run(&mut self, cx: SourceCx) -> Items {
        let run = Run {
            dialler: Dialler::new(self.address.clone(), &cx),
            local: Local {
                socket_type: self.socket,
                identity: Bytes::new(),
                limits: self.limits,
                block_bytes: BLOCK,
                deadline: PATIENCE,
            },
            messages: None,
            long: self.long.clone(),
            recogniser: (self.recogniser)(),
            tally: Tally::new(cx),
        };
        // In batches, and boxed: otherwise all of the run and what it waits with is moved for each item.
        let batches = unfold(Box::new(run), |mut run| async move { Some((run.batch().await, run)) });
        batches.flat_map(|items| iter(items).map(Ok)).boxed_local()
    }

    fn can_wait(&self) -> bool {
        self.socket != SocketType::Sub
    }
}

/// One run. Its recogniser outlives connections: a series goes on where the connection broke.
struct Run {
    dialler: Dialler,
    local: Local,
    /// Those of the connection that there is.
    messages: Option<Messages>,
    long: Option<LongReader>,
    recogniser: Box<dyn Recognise>,
    tally: Tally,
}

impl Run {
    /// The next item, and those that have come with it.
    async fn batch(&mut self) -> VecDeque<Item> {
        let mut items = VecDeque::new();
        while items.is_empty() {
            let Some(messages) = &mut self.messages else {
                let local = &self.local;
                let connection = self.dialler.dial(async |stream| open(stream, local).await).await;
                self.messages = Some(Messages::new(connection, self.long.clone()));
                continue;
            };
            let reason = match messages.next().await {
                Ok(Some(message)) => {
                    let mut next = Some(message);
                    while let Some(message) = next {
                        let verdict = self.recogniser.feed(message, &mut items);
                        if !matches!(verdict, Verdict::Invalid(_)) {
                            self.dialler.progressed();
                        }
                        self.tally.count(verdict);
                        next = if items.len() < BATCH { messages.buffered() } else { None };
                    }
                    continue;
                }
                Ok(None) => "the source closed the connection".to_owned(),
                Err(error) => error.to_string(),
            };
            self.messages = None;
            self.dialler.lost(&reason).await;
        }
        items
    }
}

/// Greets the source, and subscribes to everything.
async fn open(stream: TcpStream, local: &Local) -> Result<Connection, String> {
    let mut connection = handshake(stream, local).await.map_err(|error| error.to_string())?;
    if local.socket_type == SocketType::Sub {
        let subscribed = connection.writer.write_all(&subscription(b"")).await;
        subscribed.map_err(|error| {
            format!("it does not take the subscription: {error}: see that the source runs")
        })?;
    }
    Ok(connection)
}
