//! The queue subsystem: hands out the lines of fetcher files as jobs to workers on a unix socket.
//!
//! Replaces the `supervisor.py` of nixpkgs-update with the same file names, line format, database and
//! worker protocol. [`Queue`] registers it with the binary. Comments cite the rules of `CONTRACT.md`
//! by number.
//!
//! This crate is the application: socket, files, group commit, verbs, and the wiring of the children. The
//! rules, without I/O, are the crate `orchestrator-queue-rules`. A store is a crate, too; the traits of
//! `orchestrator-queue-store` are all that the application knows of it. Actors: `fetcher_watcher` and
//! `queue_console`. The queue store is a thread, because a commit blocks.

mod command;
mod config;
mod drop_in;
mod edge;
mod fetcher_watcher;
mod group_commit;
mod messages;
mod migration;
mod offers;
mod page;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(not(feature = "postgres"))]
#[path = "postgres/absent.rs"]
mod postgres;
mod queue_console;
mod refused_files;
mod store_metrics;
mod subsystem;
#[cfg(test)]
mod tests;
mod verbs;
mod warned_names;
mod workers_seen;

use std::{sync::Arc, time::Duration};

use orchestrator_exchange::Exchange;
use orchestrator_queue_rules::storage::StorageError;
use orchestrator_queue_store::{LastRequest, Wiring};
use orchestrator_supervise::{
    ChildSpec, Durable, InboxSlot, Limits, Outbox, Placement, Shutdown, Strategy, SupervisorSpec, inbox,
    mailbox,
};

pub use config::{ExpectedFetcher, QueueConfig, StoreKind};
pub use orchestrator_queue_sqlite::{OnCorrupt, Synchronous};
pub use postgres::PostgresConfig;
pub use subsystem::Queue;

use crate::{
    edge::{
        files::{self, RescanFlag},
        housekeeper::Housekeeper,
        inotify,
        queue_store::QueueStore,
        worker_socket,
    },
    fetcher_watcher::FetcherWatcher,
    messages::{IngestOp, MaintenanceRequest, ReadCommand},
    offers::Offers,
    queue_console::QueueConsole,
    refused_files::RefusedInDirectory,
    warned_names::WarnedNames,
    workers_seen::WorkersSeen,
};

/// Capacity of the store's request inbox. A connection sends one request and up to two notices at a
/// time.
const REQUEST_CAPACITY: usize = 16_384;
/// Capacity of the store's ingest inbox. A batch takes up to 8 MiB of memory and one long line.
const INGEST_CAPACITY: usize = 1;
/// Capacity of the reader's inbox. When it is full, one rescan replaces the commands that do not
/// fit.
const COMMAND_CAPACITY: usize = 1_024;
/// Capacity of the watcher's mailbox.
const NOTICE_CAPACITY: usize = 256;
/// Capacity of the console's mailbox and the housekeeper's inbox.
const OPERATOR_CAPACITY: usize = 16;
/// Time limit of the store's last commits when the process stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// Children start in order of the data flow, sinks first: the store, the worker socket, the readers of files.
/// Takes jobs of other subsystems if one offers them.
pub(crate) fn child_spec(config: &QueueConfig, exchange: &mut Exchange) -> ChildSpec {
    let config = config.for_offers(exchange.offers_jobs);
    let store = config.make_store();
    let (requests, requests_slot) = inbox(REQUEST_CAPACITY);
    let requests_slot = requests_slot.keep_on_purge();
    let (ingest, ingest_slot) = inbox(INGEST_CAPACITY);
    let (maintenance, maintenance_slot) = inbox(OPERATOR_CAPACITY);
    let (commands, commands_slot) = inbox(COMMAND_CAPACITY);
    let pause = Durable::new("paused", store.pause());
    let wiring = wiring(&maintenance, &commands);
    let (refused, workers) = (RefusedInDirectory::default(), WorkersSeen::default());

    let console = QueueConsole {
        requests: requests.clone(),
        maintenance: maintenance.clone(),
        pause: pause.clone(),
        is_shared: store.is_shared(),
        refused: refused.clone(),
        workers: workers.clone(),
        requeues: false,
        asks_for_pause: false,
    };
    let queue_store = QueueStore {
        config: config.clone(),
        store: store.clone(),
        wiring: wiring.clone(),
        requests: requests_slot,
        ingest: ingest_slot,
        commands: commands.clone(),
        pause: pause.view(),
    };
    let housekeeper = Housekeeper {
        config: config.clone(),
        requests: maintenance_slot,
        store: store.clone(),
        workers: workers.clone(),
    };
    let access = config.socket_access().unwrap_or_default();
    let last_answer = store.last_answer().unwrap_or(DRAIN_TIMEOUT);
    let seen = (wiring.last_request.clone(), workers);
    let socket = worker_socket::factory(config.socket.clone(), access, requests.clone(), seen, last_answer);

    let mut children = vec![console.child(OPERATOR_CAPACITY).reference(&exchange.queue_console)];
    children.extend(store.first_children(&wiring).into_iter().map(|child| child.sends_to(&commands)));
    children.extend([
        queue_store.child().shutdown(Shutdown::After(DRAIN_TIMEOUT)).sends_to(&maintenance),
        housekeeper.child(),
        ChildSpec::worker("worker_socket", socket).pausable().waits_for(&requests),
    ]);
    if exchange.offers_jobs {
        let (child, jobs) = Offers::child(requests);
        exchange.jobs = Some(jobs);
        children.push(child);
    }
    children.extend(input_children(
        &config,
        commands,
        &commands_slot,
        refused,
        ingest,
        !exchange.offers_jobs,
        store.is_shared(),
    ));
    children.extend(store.last_children(&wiring));
    let tree = SupervisorSpec::new(Strategy::RestForOne).limits(Limits::LEAF);
    let tree = children.into_iter().fold(tree, SupervisorSpec::child);
    ChildSpec::supervisor("queue", tree).placement(Placement::Dedicated)
}

fn wiring(maintenance: &Outbox<MaintenanceRequest>, commands: &Outbox<ReadCommand>) -> Wiring {
    let (maintenance, commands) = (maintenance.clone(), commands.clone());
    Wiring {
        last_request: LastRequest::default(),
        upkeep: Arc::new(move |upkeep| maintenance.tell(MaintenanceRequest::Upkeep(upkeep)).is_ok()),
        fetchers_moved: Arc::new(move || commands.tell(ReadCommand::Moved).is_ok()),
    }
}

/// The children that read fetcher files.
fn input_children(
    config: &QueueConfig,
    commands: Outbox<ReadCommand>,
    commands_slot: &InboxSlot<ReadCommand>,
    refused: RefusedInDirectory,
    ingest: Outbox<IngestOp>,
    files_are_needed: bool,
    is_shared: bool,
) -> [ChildSpec; 3] {
    let (watcher_mailbox, watcher_slot) = mailbox::<FetcherWatcher>(NOTICE_CAPACITY);
    let (rescan, warned) = (RescanFlag::default(), WarnedNames::default());
    let RefusedInDirectory { links, fetchers } = refused.clone();
    let reader = files::factory(
        config.input_dir.clone(),
        commands_slot,
        rescan.clone(),
        warned.clone(),
        refused,
        ingest.clone(),
        files_are_needed,
    );
    let watcher = FetcherWatcher::factory(watcher_slot, commands.clone(), rescan, warned.clone());
    let inotify = inotify::factory(config.input_dir.clone(), watcher_mailbox.clone());
    let reader = links.declare(ChildSpec::worker("reader", reader)).waits_for(&ingest);
    [
        if is_shared { fetchers.declare(reader) } else { reader },
        warned.declare(ChildSpec::worker("fetcher_watcher", watcher)).sends_to(&commands),
        ChildSpec::worker("inotify", inotify).pausable().waits_for(&watcher_mailbox),
    ]
}

/// Creates missing directories and reports errors that no restart can fix.
///
/// # Errors
/// Fails if another instance uses the database or the socket, or a newer program wrote the
/// database. Also fails if the database is damaged and `on_corrupt` is `refuse`, if the socket path
/// is another kind of file, or if a directory cannot be created.
pub(crate) fn preflight(config: &QueueConfig) -> Result<(), QueueError> {
    for file in [&config.database, &config.socket] {
        if let Some(parent) = file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent)
                .map_err(|reason| QueueError::Directory { path: parent.to_owned(), reason })?;
        }
    }
    inotify::create_input_dir(&config.input_dir)?;
    config.make_store().preflight()?;
    Ok(worker_socket::check(&config.socket)?)
}

/// Errors that keep the queue from starting.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The database cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The input directory cannot be created, or the socket path is in use.
    #[error(transparent)]
    Edge(#[from] edge::error::EdgeError),
    /// The parent directory of the database or the socket cannot be created.
    #[error("cannot create directory {}: {reason}: create it for this user, or configure another path", .path.display())]
    Directory {
        /// Path of the directory.
        path: std::path::PathBuf,
        /// Error of the operating system.
        reason: std::io::Error,
    },
}
