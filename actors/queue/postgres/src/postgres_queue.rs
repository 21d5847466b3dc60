//! The kind of store: a PostgreSQL database that several instances share.

use std::{panic::resume_unwind, thread, time::Duration};

use orchestrator_edge::{LinkState, RetryPolicy};
use orchestrator_observe::LinkFailure;
use orchestrator_queue_rules::{
    listing::Listing,
    storage::{Questions as _, StorageError},
};
use orchestrator_queue_store::{
    Maintenance, OpenStore, Store, Wiring,
    migration::{Source, Target},
};
use orchestrator_subsystem::{BackupKind, BackupSet};
use orchestrator_supervise::{ChildSpec, Factory, PauseSpan, StartCx, StopToken};

use crate::{
    InstanceConfig, OwnIncarnation, PostgresInspector, PostgresSource, PostgresTarget,
    error::link_failure,
    lease::Lease,
    listener::Listener,
    open_store::OpenPostgres,
    scan_start::AddedKeys,
    settings::{Settings, instance_file},
    watch::{ServerWatch, WaitingJobs},
};

/// Time that answers to workers may take at a stop: the server may be away.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// A queue in a PostgreSQL schema.
#[derive(Debug)]
pub struct PostgresQueue {
    pub(super) config: InstanceConfig,
    pub(super) incarnation: OwnIncarnation,
    pub(super) added: AddedKeys,
    pub(super) waiting: WaitingJobs,
}

impl PostgresQueue {
    /// Connects to nothing yet.
    #[must_use]
    pub fn new(config: InstanceConfig) -> Self {
        let (incarnation, added, waiting) = Default::default();
        Self { config, incarnation, added, waiting }
    }
}

impl Store for PostgresQueue {
    fn place(&self) -> String {
        self.config.postgres.endpoint()
    }

    fn is_shared(&self) -> bool {
        true
    }

    /// The database is the server's to back up.
    fn files_to_back_up(&self) -> BackupSet {
        let elsewhere = format!("the database at {}: back it up with the server", self.place());
        BackupSet::default()
            .with("instance", &instance_file(&self.config.input_dir), BackupKind::File)
            .elsewhere(elsewhere)
    }

    /// The database has it.
    fn pause(&self) -> Option<PauseSpan> {
        None
    }

    fn last_answer(&self) -> Option<Duration> {
        Some(LAST_ANSWER)
    }

    fn first_children(&self, wiring: &Wiring) -> Vec<ChildSpec> {
        let lease = Lease {
            config: self.config.clone(),
            incarnation: self.incarnation.clone(),
            added: self.added.clone(),
            fetchers_moved: wiring.fetchers_moved.clone(),
        };
        vec![ChildSpec::worker("lease", Factory::thread(move |cx| lease.run(&cx)))]
    }

    fn last_children(&self, wiring: &Wiring) -> Vec<ChildSpec> {
        let listener = Listener { config: self.config.clone(), added: self.added.clone() };
        let watch = ServerWatch {
            config: self.config.clone(),
            waiting: self.waiting.clone(),
            last_request: wiring.last_request.clone(),
        };
        vec![
            ChildSpec::worker("listener", Factory::thread(move |cx| listener.run(&cx))),
            ChildSpec::worker("server_watch", Factory::thread(move |cx| watch.run(&cx))),
        ]
    }

    fn link(&self, cx: &StartCx) -> LinkState {
        LinkState::new(cx, "postgres", self.place(), RetryPolicy::REMOTE)
    }

    fn link_failure(&self, error: &StorageError) -> LinkFailure {
        link_failure(error)
    }

    fn open(&self, cx: &StartCx, _wiring: &Wiring) -> Result<Box<dyn OpenStore>, StorageError> {
        Ok(Box::new(OpenPostgres::new(self, cx)?))
    }

    fn maintenance(&self, timeout: Duration, stop: &StopToken) -> Box<dyn Maintenance> {
        Box::new(PostgresInspector::new(&self.config, timeout, stop.clone()))
    }

    fn listing(&self, now: i64, timeout: Duration) -> Result<Listing, StorageError> {
        // A session blocks, which a runtime of the caller does not permit on its own thread.
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut inspector = PostgresInspector::new(&self.config, timeout, StopToken::new());
                Ok(Listing { paused: inspector.shared_pause()?.is_some(), ..inspector.listing(now)? })
            });
            reader.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    fn source(&self) -> Result<Box<dyn Source>, StorageError> {
        let Settings { address, schema, .. } = Settings::read(&self.config)?;
        Ok(Box::new(PostgresSource::open(&address, &schema)?))
    }

    fn target(&self) -> Result<Box<dyn Target>, StorageError> {
        let Settings { address, schema, instance, handouts, .. } = Settings::read(&self.config)?;
        Ok(Box::new(PostgresTarget::open(&address, &schema, instance, handouts)?))
    }
}
