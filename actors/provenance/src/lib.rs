//! Provenance subsystem: stores where contents, directories and revisions were first found.
//!
//! It replaces the Python server of Software Heritage's provenance storage, with the same ranges,
//! rows and rules. [`Provenance`] registers it with the binary. `CONTRACT.md` beside this crate lists
//! its rules by number.
//!
//! Pure rules: `policy` (ranges and routing), `wire` (message bodies), `conflicts` (rows with the
//! same key), `batch` and `group` (rows written together), `json`, `verbs` (console arguments),
//! `listing` (rows that are read in pages). Actors: `range_worker`, `rmq_client`. All input and output
//! is under `edge`.

// What is public inside is what `bench` exports.
#![cfg_attr(not(feature = "postgres"), allow(unreachable_pub))]

#[cfg(not(any(feature = "mongodb", feature = "postgres", feature = "sqlite")))]
compile_error!(
    "provenance has no store: choose the feature provenance-sqlite, provenance-postgres or provenance-mongodb"
);

mod batch;
mod call;
mod call_timers;
mod client_side;
mod command;
mod config;
mod conflicts;
mod drop_in;
mod edge;
mod error;
mod export;
mod flavor;
mod group;
mod json;
mod listing;
mod messages;
mod method;
mod pending_calls;
mod policy;
mod range_worker;
mod refused_groups;
mod rmq_client;
mod row;
mod store;
mod subsystem;
#[cfg(test)]
mod tests;
mod verbs;
mod wire;

use std::{path::Path, sync::Arc, time::Duration};

use orchestrator_supervise::{
    ChildRef, ChildSpec, Factory, Limits, Mailbox, MailboxSlot, Outbox, Placement, Recipient, Shutdown,
    Strategy, SupervisorSpec, inbox, mailbox,
};
use parking_lot::Mutex;

pub use config::{
    AmqpConfig, ClientConfig, ExchangeRanges, MongoConfig, PostgresConfig, ProvenanceConfig, SqliteConfig,
    Transport, WriterConfig, WriterKind,
};
pub use error::ProvenanceError;
pub use subsystem::Provenance;

/// Parts that the benches use.
#[cfg(feature = "postgres")]
pub mod bench {
    pub use crate::{
        edge::{
            amqp::{Call, Outgoing, PublisherOptions, client},
            postgres::{Flavor, PostgresStore, init},
        },
        method::Relation,
        policy::{Routing, binding_key, exchange, split},
        row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
        store::{Query, QueryResult, Store, StoreReader},
        wire::encode,
    };
}

use crate::{
    call::Workers,
    client_side::QUERY_CAPACITY,
    edge::{
        amqp::{self, ConsumerOptions, ConsumerReadiness, Sink},
        stores,
    },
    messages::{ReadRequest, WriteRequest},
    policy::Worker,
    range_worker::RangeWorker,
    rmq_client::{AddRows, CONSOLE_LIMIT},
    store::StoreError,
};

/// Capacity of the writer's inbox. Each worker has one request at most.
const WRITE_CAPACITY: usize = Worker::COUNT;
/// Capacity of a worker's mailbox, in messages; those already taken by the worker do not count.
const MAILBOX_CAPACITY: usize = 512;
/// Capacity of the dead letter child's inbox, in requests.
const LETTER_CAPACITY: usize = 64;
/// Time for which a stop waits until accepted rows are stored. The broker delivers the rest again.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// Shutdown time-out of the stores. They stop last, when nobody waits for their answers any more.
const STORE_STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// Threads shared by the workers.
const THREADS: usize = 2;

/// Handle for other code of this process.
#[derive(Debug, Clone)]
pub(crate) struct ProvenanceHandle {
    /// Client actor; stores rows.
    #[cfg_attr(not(test), expect(dead_code, reason = "no other subsystem adds rows yet"))]
    pub add: Recipient<AddRows>,
    /// Reader; answers queries.
    pub ask: Outbox<ReadRequest>,
}

/// Returns the subsystem's tree and a handle to it. Children start in this order: the store, the
/// workers, the transport, the client.
///
/// # Errors
/// The broker's url or a statsd variable is invalid.
pub(crate) fn child_spec(
    config: &ProvenanceConfig,
) -> Result<(ChildSpec, ProvenanceHandle), ProvenanceError> {
    let (writes, writes_slot) = inbox(WRITE_CAPACITY);
    let (reads, reads_slot) = inbox(QUERY_CAPACITY);
    let (mailboxes, workers) = range_workers(config.batch as usize, &writes);
    let (writer, pool) = (ChildRef::default(), ChildRef::default());
    let store = stores::writer(config, &writes_slot)?;
    let store = ChildSpec::worker("writer", store).shutdown(Shutdown::After(STORE_STOP_TIMEOUT));
    let mut tree = SupervisorSpec::new(Strategy::RestForOne)
        .limits(Limits::LEAF)
        .child(store.reference(&writer))
        .child(
            ChildSpec::worker("reader", stores::reader(config, &reads_slot)?)
                .shutdown(Shutdown::After(STORE_STOP_TIMEOUT)),
        )
        .child(workers.reference(&pool));
    let workers = match config.transport {
        Transport::Embedded => {
            let (letters, slot) = inbox(LETTER_CAPACITY);
            tree = tree.child(ChildSpec::worker("dead_letters", stores::dead_letters(config, &slot)?));
            Some(Workers::new(mailboxes, pool, letters))
        }
        Transport::Amqp => {
            let broker = client_side::broker(config, "orchestrator provenance server")?;
            let consumer = amqp::factory(broker, consumer_options(config, mailboxes, writer));
            // Longer than the drain, so that the child ends by itself.
            let limit = Shutdown::After(DRAIN_TIMEOUT + Duration::from_secs(1));
            let consumer = ChildSpec::worker("amqp", consumer).pausable().shutdown(limit);
            tree = tree.child(consumer.sends_to(&pool));
            None
        }
    };
    let (client, tree) =
        client_side::attach(tree, config, workers, reads.clone(), CONSOLE_LIMIT, command::verbs())?;
    let handle = ProvenanceHandle { add: client.recipient(), ask: reads };
    let exports = export::exports(handle.ask.clone());
    let tree = ChildSpec::supervisor("provenance", tree).attach(exports);
    Ok((tree.placement(Placement::Dedicated), handle))
}

/// Mailboxes of the 80 workers, and the spec of their pool.
fn range_workers(batch: usize, writes: &Outbox<WriteRequest>) -> (Vec<Mailbox<RangeWorker>>, ChildSpec) {
    let (mailboxes, slots): (Vec<Mailbox<RangeWorker>>, Vec<MailboxSlot<RangeWorker>>) =
        (0..Worker::COUNT).map(|_| mailbox(MAILBOX_CAPACITY)).unzip();
    let slots = Mutex::new(slots.into_iter().map(Some).collect::<Vec<_>>());
    let outbox = writes.clone();
    let worker = move |index: usize| {
        let slot = slots.lock()[index].take();
        let writes = outbox.clone();
        let slot = slot.expect("the kernel makes each worker of a pool once");
        Factory::actor(slot, move |cx| Ok(RangeWorker::new(writes.clone(), batch, cx)))
    };
    let label = |index| Worker::at(index).map_or_else(String::new, |worker| worker.to_string());
    let pool = ChildSpec::pool("range_worker", Worker::COUNT, worker)
        .worker_labels(label)
        .placement(Placement::Spread(THREADS))
        .shutdown(Shutdown::After(DRAIN_TIMEOUT))
        .sends_to(writes);
    (mailboxes, pool)
}

fn consumer_options(
    config: &ProvenanceConfig,
    mailboxes: Vec<Mailbox<RangeWorker>>,
    writer: ChildRef,
) -> ConsumerOptions {
    let workers: Vec<_> = config.workers().collect();
    let sink: Sink = Arc::new(move |worker: Worker, request| {
        mailboxes[worker.index()].tell(request).map_err(|refused| refused.message)
    });
    ConsumerOptions {
        readiness: Arc::new(ConsumerReadiness::new(workers.iter().copied())),
        workers,
        topology: config.amqp.topology,
        prefetch: config.prefetch,
        drain: DRAIN_TIMEOUT,
        sink,
        writer,
    }
}

/// Creates missing directories and opens the store once, so that errors show before the start.
///
/// # Errors
/// Another instance has the file open, a newer version or another program wrote it, or it cannot be
/// created. An unreachable server is not an error: the subsystem waits for it.
pub(crate) fn preflight(config: &ProvenanceConfig) -> Result<(), ProvenanceError> {
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
        StoreError::unavailable(format!("cannot create directory {parent}: {error}: create it, or set {key}"))
    })
}
