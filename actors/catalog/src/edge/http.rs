//! The catalog's server over HTTP: a child that owns the connections, and the way to it.
//!
//! Requests go out byte for byte as they are given. What a server asks of clients is kept here, once for all rules of a catalog: at
//! most four questions at once, one write at a time, transactions that met another one again at once, credentials read anew, and
//! nothing at all while it wants to be left alone. What became of a write is told with care, see [`Trouble`].

mod child;
mod connection;
mod desk;
mod figures;
mod identity;
mod place;
mod pool;
mod request;
mod verdict;

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
use self::{
    child::{Call, Slots},
    request::Ask,
};
use crate::{
    edge::credentials::Source,
    service::{Get, Put, Reply, Service, Trouble},
};

/// Calls of each kind that may wait; whoever finds no place waits for one.
const CALLS: usize = 256;

/// The way to a catalog. Clones share its connections.
#[derive(Debug, Clone)]
pub struct HttpCatalog {
    reads: Outbox<Call>,
    writes: Outbox<Call>,
}

/// The child that talks to the catalog at `place`, named `http`, and the way to it. List it before who calls it, so that it stops after
/// them. Stopped, it ends what is under way first.
pub fn child_spec(place: Place, source: Source) -> (HttpCatalog, ChildSpec) {
    let (reads, reads_slot) = inbox(CALLS);
    let (writes, writes_slot) = inbox(CALLS);
    let Patience { connect, read, .. } = place.patience;
    // A write that is given up is one that nobody knows the outcome of.
    let drain = Shutdown::After(connect + read + Duration::from_secs(1));
    let factory = child::factory(place, source, &Slots { reads: reads_slot, writes: writes_slot });
    (HttpCatalog { reads, writes }, ChildSpec::worker("http", factory).shutdown(drain))
}

impl Service for HttpCatalog {
    async fn get(&self, get: Get) -> Result<Reply, Trouble> {
        call(&self.reads, Ask::Get(get)).await
    }

    async fn put(&self, put: Put) -> Result<Reply, Trouble> {
        call(&self.writes, Ask::Put(put)).await
    }
}

/// Hands `ask` over and waits for its outcome. Dropped before its turn, nothing is sent; later, it is carried out all the same.
async fn call(calls: &Outbox<Call>, ask: Ask) -> Result<Reply, Trouble> {
    let (tell, outcome) = oneshot::channel();
    let begun = Arc::new(AtomicBool::new(false));
    let (what, is_get) = (ask.describe(), ask.is_get());
    let call = Call { ask, outcome: tell, begun: begun.clone() };
    if calls.send(call).await.is_err() {
        return Err(Trouble::Away(format!("{what} was not sent: the process ends")));
    }
    // The child that had it is gone, and what it knew.
    outcome.await.unwrap_or_else(|_gone| {
        if begun.load(Acquire) && !is_get {
            let reason = "the connection's child ended before the answer";
            return Err(Trouble::Unsettled(format!("whether {what} was carried out is not known: {reason}")));
        }
        Err(Trouble::Away(format!("{what}: the connection's child ended")))
    })
}
