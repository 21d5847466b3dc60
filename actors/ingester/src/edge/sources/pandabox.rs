//! PandABox over TCP (CONTRACT IP24), with one connection for each run. After a lost connection the
//! source reconnects; the rest of an arm in progress is lost.

use std::collections::VecDeque;

use bytes::BytesMut;
use futures_util::stream::{StreamExt, unfold};
use orchestrator_ingester_protocols::pandabox::{HELLO, PandaBox};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    edge::sources::{
        address::Address,
        dial::{CONNECT_TIMEOUT, Dialler},
        outcome_counter::OutcomeCounter,
    },
    item::Item,
    source::{Items, Source, SourceCx},
};

/// Bytes of one read.
const BLOCK: usize = 64 << 10;

/// A PandABox.
#[derive(Debug)]
pub(crate) struct PandaBoxSource {
    address: Address,
}

impl PandaBoxSource {
    /// Dials the data port at `address`.
    pub(crate) fn new(address: Address) -> Self {
        Self { address }
    }
}

impl Source for PandaBoxSource {
    fn run(&mut self, cx: SourceCx) -> Items {
        let run = PandaBoxRun {
            dialler: Dialler::new(self.address.clone(), &cx),
            wire: None,
            items: VecDeque::new(),
            outcome_counter: OutcomeCounter::new(cx),
        };
        unfold(run, |mut run| async move { Some((Ok(run.next().await), run)) }).boxed_local()
    }
}

struct PandaBoxRun {
    dialler: Dialler,
    wire: Option<Wire>,
    items: VecDeque<Item>,
    outcome_counter: OutcomeCounter,
}

/// A connection and its protocol state.
struct Wire {
    stream: TcpStream,
    panda: PandaBox,
    block: BytesMut,
}

impl PandaBoxRun {
    async fn next(&mut self) -> Item {
        loop {
            if let Some(item) = self.items.pop_front() {
                return item;
            }
            let Some(wire) = &mut self.wire else {
                let (mut wire, items) = self.dialler.dial(open).await;
                self.outcome_counter.outside(wire.panda.take_outside());
                (self.wire, self.items) = (Some(wire), items);
                continue;
            };
            let read = wire.read(&mut self.items).await;
            let outside = wire.panda.take_outside();
            self.outcome_counter.outside(outside);
            if outside > 0 || !self.items.is_empty() {
                self.dialler.progressed();
            }
            let Err(reason) = read else { continue };
            if wire.panda.is_armed() {
                self.outcome_counter.invalid(&format!(
                    "the connection was lost within an arm; the rest of the arm is lost: {reason}"
                ));
            }
            self.wire = None;
            self.dialler.connection_lost(&reason).await;
        }
    }
}

impl Wire {
    async fn read(&mut self, items: &mut VecDeque<Item>) -> Result<(), String> {
        self.block.clear();
        self.block.reserve(BLOCK);
        match self.stream.read_buf(&mut self.block).await {
            Ok(0) => Err("the PandABox closed the connection".to_owned()),
            Ok(_) => self.panda.feed(&self.block, items),
            Err(error) => Err(format!("the connection failed: {error}")),
        }
    }
}

async fn open(mut stream: TcpStream) -> Result<(Wire, VecDeque<Item>), String> {
    stream
        .write_all(HELLO)
        .await
        .map_err(|error| format!("it does not read: {error}: check that it is a PandABox"))?;
    let mut wire = Wire { stream, panda: PandaBox::default(), block: BytesMut::new() };
    let mut items = VecDeque::new();
    let greeting = async {
        while !wire.panda.is_welcome() {
            wire.read(&mut items).await?;
        }
        Ok(())
    };
    match timeout(CONNECT_TIMEOUT, greeting).await {
        Ok(greeted) => greeted.map(|()| (wire, items)),
        Err(_elapsed) => Err(format!(
            "no greeting within {} s: check that this is a PandABox's data port (8889)",
            CONNECT_TIMEOUT.as_secs()
        )),
    }
}
