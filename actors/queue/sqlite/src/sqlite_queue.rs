//! The kind of store: a SQLite file that one instance uses.

use std::{path::PathBuf, sync::Arc, time::Duration};

use orchestrator_edge::{LinkState, RetryPolicy, sqlite as copies};
use orchestrator_observe::LinkFailure;
use orchestrator_queue_rules::{
    listing::Listing,
    storage::{Questions as _, StorageError, StorageErrorKind},
};
use orchestrator_queue_store::{
    Maintenance, OpenStore, Store, Wiring,
    migration::{Source, Target},
    unix_time,
};
use orchestrator_subsystem::{BackupKind, BackupSet};
use orchestrator_supervise::{Fault, PauseSpan, StartCx, StopToken};

use crate::{
    Inspector, OnCorrupt, Options, SqliteSource, SqliteStore, SqliteTarget, corrupt::set_aside,
    database_file::release_replaced, error::link_failure, maintenance::SqliteMaintenance,
    open_store::OpenSqlite, pause_file, wal_state::WalState,
};

/// A queue in the SQLite file `database`.
#[derive(Debug, Clone)]
pub struct SqliteQueue {
    pub(super) database: PathBuf,
    pub(super) on_corrupt: OnCorrupt,
    pub(super) options: Options,
    pub(super) wal_state: Arc<WalState>,
}

impl SqliteQueue {
    /// Opens nothing yet.
    #[must_use]
    pub fn new(database: PathBuf, on_corrupt: OnCorrupt, options: Options) -> Self {
        Self { database, on_corrupt, options, wal_state: Arc::default() }
    }

    /// Renames a damaged database, unless the configuration refuses that.
    pub(super) fn set_damaged_aside(&self, damage: &StorageError) -> Result<(), Fault> {
        if self.on_corrupt == OnCorrupt::Refuse {
            return Err(Fault::new(format!("{damage}; queue.on_corrupt is \"refuse\"")));
        }
        let kept = set_aside(&self.database, unix_time()).map_err(|error| Fault::from_error(&error))?;
        tracing::error!(%damage, ?kept, "set the damaged database aside: rebuilding it from the fetcher files");
        Ok(())
    }
}

impl Store for SqliteQueue {
    fn place(&self) -> String {
        self.database.display().to_string()
    }

    fn is_shared(&self) -> bool {
        false
    }

    /// Reports other instances, newer programs, migrations that are not complete, and damage that must not
    /// be repaired.
    fn preflight(&self) -> Result<(), StorageError> {
        use StorageErrorKind as Kind;
        match SqliteStore::open(&self.database, self.options.clone()) {
            Err(error) if matches!(error.kind, Kind::Locked | Kind::NewerSchema | Kind::Unfinished) => {
                Err(error)
            }
            Err(error) if error.kind == Kind::Corrupt && self.on_corrupt == OnCorrupt::Refuse => Err(error),
            // The store itself waits for temporary errors and rebuilds a damaged database.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn files_to_back_up(&self) -> BackupSet {
        BackupSet::default().database("database", &self.database, copies::copy, copies::check).with(
            "pause",
            &pause_file::path(&self.database),
            BackupKind::File,
        )
    }

    fn pause(&self) -> Option<PauseSpan> {
        pause_file::pause(&self.database)
    }

    fn link(&self, cx: &StartCx) -> LinkState {
        LinkState::new(cx, "sqlite", self.place(), RetryPolicy::LOCAL_LOCK).expecting_failures()
    }

    fn link_failure(&self, error: &StorageError) -> LinkFailure {
        link_failure(error)
    }

    fn before_open(&self) {
        self.wal_state.set_files(None);
        release_replaced(&self.database);
    }

    fn open(&self, cx: &StartCx, wiring: &Wiring) -> Result<Box<dyn OpenStore>, StorageError> {
        Ok(Box::new(OpenSqlite::new(self.clone(), cx, wiring)?))
    }

    fn repair(&self, error: &StorageError) -> Result<bool, Fault> {
        let is_damaged = error.kind == StorageErrorKind::Corrupt;
        if is_damaged {
            self.set_damaged_aside(error)?;
        }
        Ok(is_damaged)
    }

    fn maintenance(&self, timeout: Duration, _stop: &StopToken) -> Box<dyn Maintenance> {
        Box::new(SqliteMaintenance::new(self.clone(), timeout))
    }

    fn listing(&self, now: i64, timeout: Duration) -> Result<Listing, StorageError> {
        let listing = Inspector::open(&self.database, self.options.clone(), timeout)?.listing(now)?;
        Ok(Listing { paused: self.pause().is_some(), ..listing })
    }

    fn source(&self) -> Result<Box<dyn Source>, StorageError> {
        Ok(Box::new(SqliteSource::open(&self.database)?))
    }

    fn target(&self) -> Result<Box<dyn Target>, StorageError> {
        Ok(Box::new(SqliteTarget::open(&self.database)?))
    }
}
