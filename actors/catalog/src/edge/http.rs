//! The catalog's server over HTTP: a child that owns the connections, and the way to it.
//!
//! Requests go out byte for byte as they are given. What a server asks of clients is kept here, once for all rules of a catalog: at
//! most four questions at once, one write at a time, transactions that met another one again at once, credentials read anew, and
//! nothing at all while it wants to be left alone. What became of a write is told with care, see [`Trouble`].

mod child;
mod client;
mod figures;
mod identity;
mod meaning;
mod place;
mod request;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Acquire},
    },
    time::Duration,
};

use orchestrator_supervise::{ChildSpec, Outbox, Shutdown, inbox};
use tokio::sync::oneshot;

pub use self::place::{Patience, Place};
use self::{child::Call, request::Ask};
use crate::{
    edge::credentials::Source,
    lane::{Lane, Purpose, Turn},
    service::{Get, Put, Reply, Service, Trouble},
};

/// Questions under way at the most.
const READS: usize = 4;
/// Writes that run side by side abort each other's transactions.
const WRITES: usize = 1;

/// The way to a catalog. Clones share its connections.
#[derive(Debug, Clone)]
pub struct HttpCatalog {
    calls: Outbox<Call>,
    reads: Lane,
    writes: Lane,
}

/// The child that talks to the catalog at `place`, named `http`, and the way to it. List it before who calls it, so that it stops after
/// them. Stopped, it ends what is under way first.
pub fn child_spec(place: Place, source: Source) -> (HttpCatalog, ChildSpec) {
    let (calls, slot) = inbox(READS + WRITES);
    let Patience { connect, read, .. } = place.patience;
    // A write that is given up is one that nobody knows the outcome of.
    let drain = Shutdown::After(connect + read + Duration::from_secs(1));
    let factory = child::factory(place, source, &slot);
    let catalog = HttpCatalog { calls, reads: Lane::new(READS), writes: Lane::new(WRITES) };
    (catalog, ChildSpec::worker("http", factory).shutdown(drain))
}

impl Service for HttpCatalog {
    async fn get(&self, get: Get) -> Result<Reply, Trouble> {
        // One after the other, whoever asks.
        self.call(Ask::Get(get), &self.reads, Turn { purpose: Purpose::Claim, priority: 0 }).await
    }

    async fn put(&self, put: Put, turn: Turn) -> Result<Reply, Trouble> {
        self.call(Ask::Put(put), &self.writes, turn).await
    }
}

impl HttpCatalog {
    /// Hands `ask` over when it is its turn, and waits for its outcome. Dropped before its turn, nothing is sent; later, it is carried out
    /// all the same.
    async fn call(&self, ask: Ask, lane: &Lane, turn: Turn) -> Result<Reply, Trouble> {
        let pass = lane.enter(turn).await;
        let (tell, outcome) = oneshot::channel();
        let begun = Arc::new(AtomicBool::new(false));
        let (what, is_get) = (ask.describe(), ask.is_get());
        let call = Call { ask, outcome: tell, begun: begun.clone(), _pass: pass };
        if self.calls.send(call).await.is_err() {
            return Err(Trouble::Away(format!("{what} was not sent: the process ends")));
        }
        // The child that had it is gone, and what it knew.
        outcome.await.unwrap_or_else(|_gone| {
            if begun.load(Acquire) && !is_get {
                let reason = "the connection's child ended before the answer";
                return Err(Trouble::Unsettled(format!(
                    "whether {what} was carried out is not known: {reason}"
                )));
            }
            Err(Trouble::Away(format!("{what}: the connection's child ended")))
        })
    }
}
