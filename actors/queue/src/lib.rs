//! The queue subsystem: hands out the lines of fetcher files as jobs to workers on a unix socket.
//!
//! Replaces the `supervisor.py` of nixpkgs-update with the same file names, line format, database and
//! worker protocol. [`Queue`] registers it with the binary. Comments cite the rules of `CONTRACT.md`
//! by number.
//!
//! The rules, without I/O, are the crate `orchestrator-queue-rules`. Actors: `fetcher_watcher` and
//! `queue_console`. The queue store is a thread, because a commit blocks. Files, sockets and databases are
//! only used under `edge`.

mod command;
mod config;
mod drop_in;
mod edge;
mod fetcher_watcher;
mod group_commit;
mod last_request;
mod log_file;
mod messages;
#[cfg(feature = "postgres")]
mod migration;
mod offers;
mod page;
mod queue_console;
mod refused_files;
mod store_metrics;
mod subsystem;
#[cfg(test)]
mod tests;
mod verbs;
mod warned_names;

use std::{sync::Arc, time::Duration};

use orchestrator_edge::sqlite as copies;
use orchestrator_exchange::Exchange;
use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};
use orchestrator_subsystem::{BackupKind, BackupSet};
use orchestrator_supervise::{
    ChildSpec, Durable, Factory, Limits, OnRestart, Placement, Shutdown, Strategy, SupervisorSpec, inbox,
    mailbox,
};

#[cfg(feature = "postgres")]
pub use config::PostgresConfig;
pub use config::{ExpectedFetcher, OnCorrupt, QueueConfig, StoreKind, Synchronous};
pub use subsystem::Queue;

#[cfg(feature = "postgres")]
use crate::edge::postgres::{
    AddedKeys, Lease, Listener, OwnIncarnation, ServerWatch, WaitingJobs, instance_file,
};
use crate::{
    edge::{
        files::{self, RescanFlag},
        housekeeper::{Housekeeper, WalState},
        inotify, pause_file,
        queue_store::QueueStore,
        sqlite::SqliteStore,
        worker_socket,
    },
    fetcher_watcher::FetcherWatcher,
    last_request::LastRequest,
    offers::Offers,
    queue_console::QueueConsole,
    refused_files::{RefusedFiles, RefusedInDirectory},
    warned_names::WarnedNames,
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
/// Time that answers to workers may take when the process stops, if a server has the database: it may be
/// away.
#[cfg(feature = "postgres")]
const LAST_SERVER_ANSWER: Duration = Duration::from_secs(1);

/// Children start in order of the data flow, sinks first: the store, the worker socket, the readers of files.
/// Takes jobs of other subsystems if one offers them.
pub(crate) fn child_spec(config: &QueueConfig, exchange: &mut Exchange) -> ChildSpec {
    let config = &config.for_offers(exchange.offers_jobs);
    let (requests, requests_slot) = inbox(REQUEST_CAPACITY);
    let requests_slot = requests_slot.keep_on_purge();
    let (ingest, ingest_slot) = inbox(INGEST_CAPACITY);
    let (chores, chores_slot) = inbox(OPERATOR_CAPACITY);
    let (commands, commands_slot) = inbox(COMMAND_CAPACITY);
    let (console, console_slot) = mailbox::<QueueConsole>(OPERATOR_CAPACITY);
    let (watcher_mailbox, watcher_slot) = mailbox::<FetcherWatcher>(NOTICE_CAPACITY);
    let paused = match config.store {
        StoreKind::Sqlite => pause_file::pause(&config.database),
        // The database has it.
        #[cfg(feature = "postgres")]
        StoreKind::Postgres => None,
    };
    let pause = Durable::new("paused", paused);
    #[cfg(feature = "postgres")]
    let (incarnation, added, waiting) =
        (OwnIncarnation::default(), AddedKeys::default(), WaitingJobs::default());
    let wal_state = Arc::new(WalState::default());
    let (rescan, warned) = (RescanFlag::default(), WarnedNames::default());
    let last_request = LastRequest::default();
    let refused_links = RefusedFiles::new("refused_links");
    let refused_fetchers = RefusedFiles::new("refused_fetchers");

    let queue_console = {
        let console = QueueConsole {
            requests: requests.clone(),
            chores: chores.clone(),
            pause: pause.clone(),
            #[cfg(feature = "postgres")]
            is_shared: config.store != StoreKind::Sqlite,
            refused_links: refused_links.clone(),
            refused_fetchers: refused_fetchers.clone(),
            requeues: false,
            #[cfg(feature = "postgres")]
            asks_for_pause: false,
        };
        Factory::actor(console_slot, move |_| Ok(console.clone()))
    };
    let store = QueueStore {
        config: config.clone(),
        requests: requests_slot.clone(),
        ingest: ingest_slot.clone(),
        chores,
        commands: commands.clone(),
        wal_state: wal_state.clone(),
        #[cfg(feature = "postgres")]
        incarnation: incarnation.clone(),
        #[cfg(feature = "postgres")]
        added: added.clone(),
        #[cfg(feature = "postgres")]
        waiting: waiting.clone(),
        last_request: last_request.clone(),
        pause: pause.view(),
    };
    let queue_store = Factory::thread(move |cx| store.run(&cx))
        .with_inbox("requests", &requests_slot)
        .with_inbox("ingest", &ingest_slot);
    let housekeeper = Housekeeper { config: config.clone(), chores: chores_slot.clone(), wal_state };
    let housekeeper = Factory::thread(move |cx| housekeeper.run(&cx)).with_inbox("chores", &chores_slot);
    let offer_requests = requests.clone();
    let last_answer = match config.store {
        StoreKind::Sqlite => DRAIN_TIMEOUT,
        #[cfg(feature = "postgres")]
        StoreKind::Postgres => LAST_SERVER_ANSWER,
    };
    let access = config.socket_access().unwrap_or_default();
    let socket =
        worker_socket::factory(config.socket.clone(), access, requests, last_request.clone(), last_answer);
    let reader = files::factory(
        config.input_dir.clone(),
        &commands_slot,
        rescan.clone(),
        warned.clone(),
        RefusedInDirectory { links: refused_links.clone(), fetchers: refused_fetchers.clone() },
        ingest,
        !exchange.offers_jobs,
    );
    let reader = refused_links.declare(ChildSpec::worker("reader", reader));
    let reader = match config.store {
        StoreKind::Sqlite => reader,
        #[cfg(feature = "postgres")]
        StoreKind::Postgres => refused_fetchers.declare(reader),
    };
    #[cfg(feature = "postgres")]
    let lease_commands = commands.clone();
    let watcher = FetcherWatcher::factory(watcher_slot, commands, rescan, warned.clone());
    let inotify = inotify::factory(config.input_dir.clone(), watcher_mailbox);

    let offers = exchange.offers_jobs.then(|| {
        let (child, jobs) = Offers::child(offer_requests);
        exchange.jobs = Some(jobs);
        child
    });
    let tree = SupervisorSpec::new(Strategy::RestForOne).limits(Limits::LEAF).child(
        ChildSpec::worker("queue_console", queue_console)
            .console(queue_console::verbs().console(&console))
            .durable(&pause),
    );
    #[cfg(feature = "postgres")]
    let tree = match config.store {
        StoreKind::Sqlite => tree,
        StoreKind::Postgres => {
            let lease =
                Lease { config: config.clone(), incarnation, added: added.clone(), commands: lease_commands };
            tree.child(ChildSpec::worker("lease", Factory::thread(move |cx| lease.run(&cx))))
        }
    };
    let tree = tree
        // A restarted reader sends every operation again, so operations of its predecessor are
        // dropped.
        .child(
            ChildSpec::worker("queue_store", queue_store)
                .shutdown(Shutdown::After(DRAIN_TIMEOUT))
                .on_restart(OnRestart::Purge),
        )
        .child(ChildSpec::worker("housekeeper", housekeeper))
        .child(ChildSpec::worker("worker_socket", socket).pausable());
    let tree = offers.into_iter().fold(tree, SupervisorSpec::child);
    let tree = tree
        .child(reader)
        .child(warned.declare(ChildSpec::worker("fetcher_watcher", watcher)))
        .child(ChildSpec::worker("inotify", inotify).pausable());
    #[cfg(feature = "postgres")]
    let tree = match config.store {
        StoreKind::Sqlite => tree,
        StoreKind::Postgres => {
            let listener = Listener { config: config.clone(), added };
            let watch = ServerWatch { config: config.clone(), waiting, last_request };
            tree.child(ChildSpec::worker("listener", Factory::thread(move |cx| listener.run(&cx))))
                .child(ChildSpec::worker("server_watch", Factory::thread(move |cx| watch.run(&cx))))
        }
    };
    ChildSpec::supervisor("queue", tree).placement(Placement::Dedicated)
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
    #[cfg(feature = "postgres")]
    if config.store == StoreKind::Postgres {
        // The store waits for its server.
        return Ok(worker_socket::check(&config.socket)?);
    }
    match SqliteStore::open(&config.database, config.into()) {
        Err(
            error @ StorageError {
                kind: StorageErrorKind::Locked | StorageErrorKind::NewerSchema | StorageErrorKind::Unfinished,
                ..
            },
        ) => Err(error.into()),
        Err(error) if error.kind == StorageErrorKind::Corrupt && config.on_corrupt == OnCorrupt::Refuse => {
            Err(error.into())
        }
        // The store itself waits for temporary errors and rebuilds a damaged database.
        Ok(_) | Err(_) => Ok(worker_socket::check(&config.socket)?),
    }
}

/// Without the fetcher files, which belong to the fetchers.
pub(crate) fn files_to_back_up(config: &QueueConfig) -> BackupSet {
    #[cfg(feature = "postgres")]
    if config.store == StoreKind::Postgres {
        // The database is the server's to back up.
        return BackupSet::default()
            .with("instance", &instance_file(&config.input_dir), BackupKind::File)
            .elsewhere(format!(
                "the database at {}: back it up with the server",
                config.postgres.endpoint()
            ));
    }
    BackupSet::default().database("database", &config.database, copies::copy, copies::check).with(
        "pause",
        &pause_file::path(&config.database),
        BackupKind::File,
    )
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
