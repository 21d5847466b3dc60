//! The provenance subsystem: stores where contents, directories and revisions were found first.
//!
//! It takes the place of the Python server of Software Heritage's provenance storage: the same ranges, rows and rules.
//! [`child_spec`] gives its tree; `README.md` beside this crate is its contract in short.
//!
//! Pure rules: [`policy`] (who owns a row), [`wire`] (message bodies), [`conflicts`] (rows that meet), `batch` and `group`
//! (what is written together), [`json`]. Actors: `range_worker`, [`rmq_client`]. Everything that talks to the outside is
//! under [`edge`].

mod batch;
pub mod call;
mod config;
pub mod conflicts;
pub mod edge;
mod group;
pub mod json;
pub mod messages;
pub mod method;
pub mod policy;
mod range_worker;
pub mod rmq_client;
pub mod row;
pub mod store;
pub mod wire;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{
    ChildSpec, Factory, Fault, Limits, Mailbox, Placement, Shutdown, Slot, Strategy, SupervisorSpec, inbox,
    mailbox,
};

pub use config::{ProvenanceConfig, SqliteConfig, WriterConfig, WriterKind};

use crate::{
    call::Workers,
    edge::sqlite::{SqliteReader, SqliteStore},
    policy::Worker,
    range_worker::RangeWorker,
    rmq_client::RmqClient,
    store::StoreError,
};

/// Write requests that may wait: a worker has one at most.
const WRITES: usize = Worker::COUNT;
/// Questions that may wait.
const READS: usize = 64;
/// Messages that may wait for a worker beside those that it holds.
const REQUESTS: usize = 512;
/// Calls that may wait for the client.
const CALLS: usize = 1_024;
/// How long the workers together may take to store what they hold when the process stops.
const DRAIN: Duration = Duration::from_secs(20);
/// Threads that the workers are spread over.
const THREADS: usize = 2;

/// The subsystem's tree. Sinks first: the store, then the workers, then who gives them work.
pub fn child_spec(config: &ProvenanceConfig) -> ChildSpec {
    let (writes, writes_slot) = inbox(WRITES);
    let (reads, reads_slot) = inbox(READS);
    let (mailboxes, slots): (Vec<Mailbox<RangeWorker>>, Vec<Slot<RangeWorker>>) =
        (0..Worker::COUNT).map(|_| mailbox(REQUESTS)).unzip();
    let (client_mailbox, client_slot) = mailbox::<RmqClient>(CALLS);

    let batch = config.batch as usize;
    let slots = Mutex::new(slots.into_iter().map(Some).collect::<Vec<_>>());
    let worker = move |index: usize| {
        let slot = slots.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[index].take();
        let writes = writes.clone();
        let slot = slot.expect("the kernel makes each worker of a pool once");
        Factory::actor(slot, move |cx| Ok(RangeWorker::new(writes.clone(), batch, cx)))
    };
    let workers = Arc::new(Workers::new(mailboxes, config.routing, batch));
    let client =
        Factory::actor(client_slot, move |cx| Ok(RmqClient::new(workers.clone(), reads.clone(), cx)));

    let path = config.sqlite.path.clone();
    let writer = Factory::thread({
        let (path, slot) = (path.clone(), writes_slot.clone());
        move |cx| {
            let link = cx.vitals.link("sqlite", path.display().to_string());
            let tries = Reconnect::new(link, edge::RETRY);
            timed(edge::write(&cx, &slot, tries, 1, async || SqliteStore::open(&path)))
        }
    })
    .with_inbox("writes", &writes_slot);
    let reader = Factory::thread({
        let slot = reads_slot.clone();
        move |cx| {
            let link = cx.vitals.link("sqlite", path.display().to_string());
            let tries = Reconnect::new(link, edge::RETRY);
            timed(edge::read(&cx, &slot, tries, async || SqliteReader::open(&path)))
        }
    })
    .with_inbox("questions", &reads_slot);

    let label = |index| Worker::at(index).map_or_else(String::new, |worker| worker.to_string());
    let tree = SupervisorSpec::new(Strategy::RestForOne)
        .limits(Limits::LEAF)
        .child(ChildSpec::worker("writer", writer).shutdown(Shutdown::After(DRAIN)))
        .child(ChildSpec::worker("reader", reader))
        .child(
            ChildSpec::pool("worker", Worker::COUNT, worker)
                .worker_labels(label)
                .placement(Placement::Spread(THREADS))
                .shutdown(Shutdown::After(DRAIN)),
        )
        .child(ChildSpec::worker("client", client).console(client_mailbox.recipient()));
    ChildSpec::supervisor("provenance", tree).placement(Placement::Dedicated)
}

/// Runs a future on this thread, with timers.
fn timed(future: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime
        .map_err(|error| Fault::new(format!("cannot start the thread's timers: {error}")))?
        .block_on(future)
}

/// Makes the directory that is missing, and finds what keeps the store from opening.
///
/// # Errors
/// Another instance has the file, a newer or another program wrote it, or it cannot be made.
pub fn preflight(config: &ProvenanceConfig) -> Result<(), StoreError> {
    let path = &config.sqlite.path;
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(|error| {
            let text = format!(
                "cannot create directory {}: {error}: create it, or set provenance.sqlite.path",
                parent.display()
            );
            StoreError::Away(text)
        })?;
    }
    SqliteStore::open(path).map(drop)
}
