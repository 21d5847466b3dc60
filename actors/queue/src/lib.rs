//! The queue subsystem: hands out the lines of fetcher files as jobs, one at a time, over a unix socket.
//!
//! It takes the place of nixpkgs-update's supervisor.py: the same file names and lines, the same database, the same
//! worker protocol. [`child_spec`] gives its tree; `CONTRACT.md` beside this crate has its rules by
//! the numbers that comments cite.
//!
//! Pure rules: [`file_name`], [`lines`], [`tracking`], [`protocol`], [`jitter`], [`storage`]. Actors: [`fetcher_watcher`] and
//! `queue_console`; the queue store is a thread, since a commit blocks. Everything that talks to the outside is under [`edge`].

mod command;
mod config;
mod drop_in;
pub mod edge;
pub mod fetcher_watcher;
pub mod file_name;
mod group_commit;
pub mod jitter;
pub mod lines;
pub mod messages;
pub mod protocol;
mod queue_console;
pub mod storage;
mod store_metrics;
mod subsystem;
pub mod tracking;

use std::{sync::Arc, time::Duration};

use orchestrator_supervise::{
    ChildSpec, Durable, Factory, Limits, OnRestart, Placement, Shutdown, Strategy, SupervisorSpec, inbox,
    mailbox,
};

pub use config::{OnCorrupt, QueueConfig, Synchronous};
pub use subsystem::Queue;

use crate::{
    edge::{
        files::{self, RescanFlag},
        housekeeper::{Housekeeper, LogCare},
        inotify,
        queue_store::QueueStore,
        sqlite::SqliteStore,
        worker_socket::{self, Service},
    },
    fetcher_watcher::FetcherWatcher,
    file_name::WarnedNames,
    queue_console::QueueConsole,
    storage::StorageError,
};

/// Requests that may wait for the store; a connection has at most one, and a notice or two.
const REQUESTS: usize = 16_384;
/// Batches that may wait for the store beside the one it has and the one being read: each is up to 4 MiB of text, twice
/// that in memory, or one long line.
const INGEST: usize = 1;
/// Commands that may wait for the reader; what does not fit becomes one rescan.
const COMMANDS: usize = 1_024;
/// Notices that may wait for the watcher.
const NOTICES: usize = 256;
/// Operators' requests and chores that may wait.
const CHORES: usize = 16;
/// How long the store may take to commit what waits when the process stops.
const DRAIN: Duration = Duration::from_secs(20);

/// The subsystem's tree. Sinks first: the store, then who talks to workers, then who reads files.
pub fn child_spec(config: &QueueConfig) -> ChildSpec {
    let (requests, requests_slot) = inbox(REQUESTS);
    let requests_slot = requests_slot.keep_on_purge();
    let (ingest, ingest_slot) = inbox(INGEST);
    let (chores, chores_slot) = inbox(CHORES);
    let (commands, commands_slot) = inbox(COMMANDS);
    let (console, console_slot) = mailbox::<QueueConsole>(CHORES);
    let (watcher_mailbox, watcher_slot) = mailbox::<FetcherWatcher>(NOTICES);
    let (paused, log) = (Durable::new("paused", false), Arc::new(LogCare::default()));
    let (rescan, warned) = (RescanFlag::default(), WarnedNames::default());

    let queue_console = {
        let (requests, chores, paused) = (requests.clone(), chores.clone(), paused.clone());
        Factory::actor(console_slot, move |_| {
            Ok(QueueConsole { requests: requests.clone(), chores: chores.clone(), paused: paused.clone() })
        })
    };
    let store = QueueStore {
        config: config.clone(),
        requests: requests_slot.clone(),
        ingest: ingest_slot.clone(),
        chores,
        log: log.clone(),
        paused: paused.view(),
    };
    let queue_store = Factory::thread(move |cx| store.run(&cx))
        .with_inbox("requests", &requests_slot)
        .with_inbox("ingest", &ingest_slot);
    let housekeeper = Housekeeper { config: config.clone(), chores: chores_slot.clone(), log };
    let housekeeper = Factory::thread(move |cx| housekeeper.run(&cx)).with_inbox("chores", &chores_slot);
    let socket = worker_socket::factory(config.socket.clone(), Service::default(), requests);
    let reader =
        files::factory(config.input_dir.clone(), &commands_slot, rescan.clone(), warned.clone(), ingest);
    let watcher = FetcherWatcher::factory(watcher_slot, commands, rescan, warned.clone());
    let inotify = inotify::factory(config.input_dir.clone(), watcher_mailbox);

    let tree = SupervisorSpec::new(Strategy::RestForOne)
        .limits(Limits::LEAF)
        .child(
            ChildSpec::worker("queue_console", queue_console).console(console.recipient()).durable(&paused),
        )
        // What a former reader sent belongs to its view of the directory; its successor sends everything again.
        .child(
            ChildSpec::worker("queue_store", queue_store)
                .shutdown(Shutdown::After(DRAIN))
                .on_restart(OnRestart::Purge),
        )
        .child(ChildSpec::worker("housekeeper", housekeeper))
        .child(ChildSpec::worker("worker_socket", socket).pausable())
        .child(ChildSpec::worker("reader", reader))
        .child(warned.declare(ChildSpec::worker("fetcher_watcher", watcher)))
        .child(ChildSpec::worker("inotify", inotify).pausable());
    ChildSpec::supervisor("queue", tree).placement(Placement::Dedicated)
}

/// Makes the directories that are missing, and finds what no restart would heal.
///
/// # Errors
/// Another instance has the database or the socket, a newer program wrote the database, it is damaged and `on_corrupt` is
/// `refuse`, something that is no socket is in the socket's place, or a directory cannot be made.
pub fn preflight(config: &QueueConfig) -> Result<(), QueueError> {
    for file in [&config.database, &config.socket] {
        if let Some(parent) = file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent)
                .map_err(|source| QueueError::Directory { path: parent.to_owned(), source })?;
        }
    }
    inotify::create_input_dir(&config.input_dir)?;
    match SqliteStore::open(&config.database, config.store_options()) {
        Err(error @ (StorageError::Locked { .. } | StorageError::NewerSchema { .. })) => Err(error.into()),
        Err(error @ StorageError::Corrupt { .. }) if config.on_corrupt == OnCorrupt::Refuse => {
            Err(error.into())
        }
        // What passes by itself, the store waits for; what can be rebuilt, it rebuilds.
        Ok(_) | Err(_) => Ok(worker_socket::check(&config.socket)?),
    }
}

/// Why the queue cannot run here.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The database is not ours to use.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The input directory cannot be made, or the socket is not ours to take.
    #[error(transparent)]
    Edge(#[from] edge::error::EdgeError),
    /// A directory for database or socket cannot be made.
    #[error("cannot create directory {path}: create it, or configure another place", path = .path.display())]
    Directory {
        /// Which.
        path: std::path::PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
}
