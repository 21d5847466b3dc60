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

use orchestrator_edge::amqp::Broker;
use orchestrator_supervise::{
    ChildSpec, Factory, Limits, Mailbox, Outbox, Placement, Recipient, Shutdown, Slot, Strategy,
    SupervisorSpec, inbox, mailbox,
};

pub use config::{
    AmqpConfig, ClientConfig, PostgresConfig, ProvenanceConfig, SqliteConfig, Transport, WriterConfig,
    WriterKind,
};

use crate::{
    call::{Route, Workers},
    edge::{
        amqp::{self, Consumption, Patience, Presence, Publication, Sink},
        sqlite::SqliteStore,
        stores,
    },
    messages::ReadRequest,
    policy::{Ranges, Worker},
    range_worker::RangeWorker,
    rmq_client::{AddRows, RmqClient},
    store::StoreError,
};

/// Write requests that may wait: a worker has one at most.
const WRITES: usize = Worker::COUNT;
/// Questions that may wait.
const READS: usize = 64;
/// Messages that may wait for a worker beside those that it holds.
const REQUESTS: usize = 512;
/// Calls that may wait for the client, and for the publisher.
const CALLS: usize = 1_024;
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
/// The broker's url cannot be used.
pub fn child_spec(config: &ProvenanceConfig) -> Result<ChildSpec, String> {
    with_entrance(config).map(|(tree, _)| tree)
}

/// The subsystem's tree and the way into it. Sinks first: the store, then the workers, then who gives them work.
///
/// # Errors
/// The broker's url cannot be used.
pub fn with_entrance(config: &ProvenanceConfig) -> Result<(ChildSpec, Entrance), String> {
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
    let label = |index| Worker::at(index).map_or_else(String::new, |worker| worker.to_string());
    let writer = stores::writer(config, &writes_slot);
    let mut tree = SupervisorSpec::new(Strategy::RestForOne)
        .limits(Limits::LEAF)
        .child(ChildSpec::worker("writer", writer).shutdown(Shutdown::After(DRAIN)))
        .child(ChildSpec::worker("reader", stores::reader(config, &reads_slot)))
        .child(
            ChildSpec::pool("worker", Worker::COUNT, worker)
                .worker_labels(label)
                .placement(Placement::Spread(THREADS))
                .shutdown(Shutdown::After(DRAIN)),
        );
    let transport = match config.transport {
        Transport::Embedded => call::Transport::Embedded(Workers::new(mailboxes)),
        Transport::Amqp => {
            let url = config.amqp.target()?;
            let broker = |name| Broker::new(&url, name).map_err(|error| error.to_string());
            let consumer =
                amqp::factory(broker("orchestrator provenance server")?, consumption(config, mailboxes));
            let (calls, calls_slot) = inbox(CALLS);
            let publisher =
                amqp::client(broker("orchestrator provenance client")?, publication(config), &calls_slot);
            tree = tree
                .child(ChildSpec::worker("amqp", consumer).pausable().shutdown(Shutdown::After(DRAIN)))
                .child(ChildSpec::worker("publisher", publisher));
            call::Transport::Amqp(calls)
        }
    };
    let route = Arc::new(Route { routing: config.routing, batch: config.client.batch as usize, transport });
    let entrance = Entrance { add: client_mailbox.recipient(), ask: reads.clone() };
    let client = Factory::actor(client_slot, move |cx| Ok(RmqClient::new(route.clone(), reads.clone(), cx)));
    tree = tree.child(ChildSpec::worker("client", client).console(client_mailbox.recipient()));
    Ok((ChildSpec::supervisor("provenance", tree).placement(Placement::Dedicated), entrance))
}

fn consumption(config: &ProvenanceConfig, mailboxes: Vec<Mailbox<RangeWorker>>) -> Consumption {
    let workers: Vec<_> = Ranges::new(config.ranges).workers().collect();
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

fn publication(config: &ProvenanceConfig) -> Publication {
    let client = &config.client;
    let patience = Patience {
        batch_size: client.batch,
        wait_per_batch: Duration::from_secs(client.wait_per_batch_secs.into()),
        wait_min: Duration::from_secs(client.wait_min_secs.into()),
    };
    Publication { topology: config.amqp.topology, patience, ..Publication::default() }
}

/// Makes the directory that is missing, and finds what keeps the store from opening.
///
/// # Errors
/// Another instance has the file, a newer or another program wrote it, or it cannot be made. A server that is away is none:
/// it is waited for.
pub fn preflight(config: &ProvenanceConfig) -> Result<(), StoreError> {
    if config.writer.kind != WriterKind::Sqlite {
        return Ok(());
    }
    let path = &config.sqlite.path;
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(|error| {
            let parent = parent.display();
            StoreError::Away(format!(
                "cannot create directory {parent}: {error}: create it, or set provenance.sqlite.path"
            ))
        })?;
    }
    SqliteStore::open(path).map(drop)
}
