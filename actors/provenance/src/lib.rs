//! The provenance subsystem: stores where contents, directories and revisions were found first.
//!
//! It takes the place of the Python server of Software Heritage's provenance storage: the same ranges, rows and rules.
//! [`child_spec`] gives its tree; `CONTRACT.md` beside this crate has its rules by number.
//!
//! Pure rules: [`policy`] (who owns a row), [`wire`] (message bodies), [`conflicts`] (rows that meet), `batch` and `group`
//! (what is written together), [`json`], `verbs` (what operators ask). Actors: `range_worker`, [`rmq_client`]. Everything that talks to the outside is
//! under [`edge`].

#[cfg(not(any(feature = "mongodb", feature = "postgres", feature = "sqlite")))]
compile_error!(
    "provenance has no store: choose the feature provenance-sqlite, provenance-postgres or provenance-mongodb"
);

mod batch;
pub mod call;
mod client_side;
mod command;
mod config;
pub mod conflicts;
mod drop_in;
pub mod edge;
mod error;
mod flavor;
mod group;
pub mod json;
pub mod messages;
pub mod method;
pub mod policy;
mod range_worker;
mod refused_groups;
pub mod rmq_client;
pub mod row;
pub mod stopwatch;
pub mod store;
mod subsystem;
mod verbs;
pub mod wire;

use std::{path::Path, sync::Arc, time::Duration};

use orchestrator_supervise::{
    ChildSpec, Factory, Limits, Mailbox, MailboxSlot, Outbox, Placement, Recipient, Shutdown, Strategy,
    SupervisorSpec, inbox, mailbox,
};
use parking_lot::Mutex;

pub use config::{
    AmqpConfig, ClientConfig, ExchangeRanges, MongoConfig, PostgresConfig, ProvenanceConfig, SqliteConfig,
    Transport, WriterConfig, WriterKind,
};
pub use error::ProvenanceError;
pub use subsystem::Provenance;

use crate::{
    call::Workers,
    client_side::READS,
    edge::{
        amqp::{self, Consumption, Presence, Sink},
        stores,
    },
    messages::{ReadRequest, WriteRequest},
    policy::Worker,
    range_worker::RangeWorker,
    rmq_client::{AddRows, CONSOLE_LIMIT},
    store::StoreError,
};

/// Write requests that may wait: a worker has one at most.
const WRITES: usize = Worker::COUNT;
/// Messages that may wait for a worker beside those that it holds.
const REQUESTS: usize = 512;
/// Dead letters that may wait.
const LETTERS: usize = 64;
/// How long the workers together may take to store what they hold when the process stops.
const DRAIN: Duration = Duration::from_secs(20);
/// Threads that the workers are spread over.
const THREADS: usize = 2;

/// How other code of this process reaches the subsystem.
#[derive(Debug, Clone)]
pub struct Entrance {
    /// The client: rows to be stored.
    pub add: Recipient<AddRows>,
    /// The reader: questions.
    pub ask: Outbox<ReadRequest>,
}

/// The subsystem's tree, reached by its console only. As [`with_entrance`].
///
/// # Errors
/// The broker's url cannot be used, or a variable of statsd.
pub fn child_spec(config: &ProvenanceConfig) -> Result<ChildSpec, ProvenanceError> {
    with_entrance(config).map(|(tree, _)| tree)
}

/// The subsystem's tree and the way into it. Sinks first: the store, then the workers, then who gives them work.
///
/// # Errors
/// The broker's url cannot be used, or a variable of statsd.
pub fn with_entrance(config: &ProvenanceConfig) -> Result<(ChildSpec, Entrance), ProvenanceError> {
    let (writes, writes_slot) = inbox(WRITES);
    let (reads, reads_slot) = inbox(READS);
    let (mailboxes, workers) = range_workers(config.batch as usize, &writes);
    let writer = stores::writer(config, &writes_slot)?;
    let mut tree = SupervisorSpec::new(Strategy::RestForOne)
        .limits(Limits::LEAF)
        .child(ChildSpec::worker("writer", writer).shutdown(Shutdown::After(DRAIN)))
        .child(ChildSpec::worker("reader", stores::reader(config, &reads_slot)?))
        .child(workers);
    let workers = match config.transport {
        Transport::Embedded => {
            let (letters, slot) = inbox(LETTERS);
            tree = tree.child(ChildSpec::worker("dead_letters", stores::dead_letters(config, &slot)?));
            Some(Workers::new(mailboxes, letters))
        }
        Transport::Amqp => {
            let broker = client_side::broker(config, "orchestrator provenance server")?;
            let consumer = amqp::factory(broker, consumption(config, mailboxes));
            tree =
                tree.child(ChildSpec::worker("amqp", consumer).pausable().shutdown(Shutdown::After(DRAIN)));
            None
        }
    };
    let (client, tree) = client_side::attach(tree, config, workers, reads.clone(), CONSOLE_LIMIT)?;
    let entrance = Entrance { add: client.recipient(), ask: reads };
    Ok((ChildSpec::supervisor("provenance", tree).placement(Placement::Dedicated), entrance))
}

/// The pool of eighty, each with its mailbox.
fn range_workers(batch: usize, writes: &Outbox<WriteRequest>) -> (Vec<Mailbox<RangeWorker>>, ChildSpec) {
    let (mailboxes, slots): (Vec<Mailbox<RangeWorker>>, Vec<MailboxSlot<RangeWorker>>) =
        (0..Worker::COUNT).map(|_| mailbox(REQUESTS)).unzip();
    let slots = Mutex::new(slots.into_iter().map(Some).collect::<Vec<_>>());
    let writes = writes.clone();
    let worker = move |index: usize| {
        let slot = slots.lock()[index].take();
        let writes = writes.clone();
        let slot = slot.expect("the kernel makes each worker of a pool once");
        Factory::actor(slot, move |cx| Ok(RangeWorker::new(writes.clone(), batch, cx)))
    };
    let label = |index| Worker::at(index).map_or_else(String::new, |worker| worker.to_string());
    let pool = ChildSpec::pool("range_worker", Worker::COUNT, worker)
        .worker_labels(label)
        .placement(Placement::Spread(THREADS))
        .shutdown(Shutdown::After(DRAIN));
    (mailboxes, pool)
}

fn consumption(config: &ProvenanceConfig, mailboxes: Vec<Mailbox<RangeWorker>>) -> Consumption {
    let workers: Vec<_> = config.workers().collect();
    let sink: Sink = Arc::new(move |worker: Worker, request| {
        mailboxes[worker.index()].tell(request).map_err(|refused| refused.message)
    });
    Consumption {
        presence: Arc::new(Presence::new(workers.iter().copied())),
        workers,
        topology: config.amqp.topology,
        prefetch: config.prefetch,
        // A little less than the child has, so that it closes by itself.
        drain: DRAIN - Duration::from_secs(1),
        sink,
    }
}

/// Makes the directory that is missing, and finds what keeps the store from opening.
///
/// # Errors
/// Another instance has the file, a newer or another program wrote it, or it cannot be made. A server that is away is none:
/// it is waited for.
pub fn preflight(config: &ProvenanceConfig) -> Result<(), ProvenanceError> {
    if config.transport == Transport::Embedded {
        create_parent(&config.dead_letters, "provenance.dead_letters")?;
    }
    #[cfg(feature = "sqlite")]
    if config.writer.kind == WriterKind::Sqlite {
        create_parent(&config.sqlite.path, "provenance.sqlite.path")?;
        edge::sqlite::SqliteStore::open(&config.sqlite.path)?;
    }
    Ok(())
}

fn create_parent(path: &Path, key: &str) -> Result<(), StoreError> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
    std::fs::create_dir_all(parent).map_err(|error| {
        let parent = parent.display();
        StoreError::Away(format!("cannot create directory {parent}: {error}: create it, or set {key}"))
    })
}
