//! Errors of the server as those of a storage.

use orchestrator_edge::postgres::{PostgresError, SqlState};
use orchestrator_observe::{FailureKind, LinkFailure};
use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};
use orchestrator_supervise::Fault;

/// SQLSTATE of a transaction of a process whose instance another one has taken.
const INSTANCE_TAKEN: &str = "OQ001";
/// SQLSTATE of the refusal to take the instance of a process that lives.
const INSTANCE_IN_USE: &str = "OQ002";
/// Conflicts with another transaction: a deadlock, or a partition of attempts that the other one made
/// meanwhile (a check violation; the tables have no other checks).
const CONFLICTS: [SqlState; 3] =
    [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE, SqlState::CHECK_VIOLATION];

/// Converts an error of the server, or of the connection to it.
pub(super) fn storage_error(error: PostgresError) -> StorageError {
    let kind = match &error.state {
        Some(state) if *state == SqlState::DISK_FULL => StorageErrorKind::Full,
        Some(state) if CONFLICTS.contains(state) => StorageErrorKind::Conflict,
        Some(state) if state.code() == INSTANCE_TAKEN => StorageErrorKind::InstanceTaken,
        _ => StorageErrorKind::Backend,
    };
    let text = format!("{error}: check the PostgreSQL server and its log");
    StorageError::new(kind, text).caused_by(error)
}

/// The child was asked to stop before the server has answered.
pub(super) fn unanswered() -> StorageError {
    storage_error(PostgresError::unanswered("the program stops before the database has answered"))
}

/// A setting, or a file that it names, cannot be used.
pub(super) fn unusable(reason: impl Into<String>) -> StorageError {
    StorageError::new(StorageErrorKind::Unusable, reason)
}

/// A value in the database is not of the type that this program's tables have.
pub(super) fn altered(reason: impl std::fmt::Display) -> StorageError {
    unusable(format!(
        "the tables of the queue in PostgreSQL were altered ({reason}): restore them, or name another schema"
    ))
}

/// The runs of `fetcher` belong to `instance`, and `own` has files of it, too.
pub(super) fn other_instance(fetcher: &str, instance: &str, own: &str) -> StorageError {
    let text = format!(
        "fetcher {fetcher} belongs to the instance {instance}, so its files at the instance {own} are not read: remove them from one of the two directories, or run orchestrator queue adopt {fetcher} at {own}"
    );
    StorageError::new(StorageErrorKind::OtherInstance, text)
}

/// Reason and help for the link to the database.
pub(crate) fn link_failure(error: &StorageError) -> LinkFailure {
    if let Some(server) = error.source_as::<PostgresError>() {
        let failure = LinkFailure::from(server);
        return match server.state.as_ref().map(SqlState::code) {
            Some(INSTANCE_IN_USE) => failure.with_help(
                "stop the other process, or give this one another name in queue.postgres.instance",
            ),
            _ => failure,
        };
    }
    let reason = Fault::from_error(error).to_string();
    match &error.kind {
        StorageErrorKind::Denied { grant } => LinkFailure::refused(reason, grant),
        _ => LinkFailure::new(FailureKind::Unusable, reason),
    }
}

/// Error that ends a connection.
pub(crate) struct Lost(StorageError);

impl From<StorageError> for Lost {
    fn from(error: StorageError) -> Self {
        Self(error)
    }
}

impl From<&Lost> for LinkFailure {
    fn from(Lost(error): &Lost) -> Self {
        link_failure(error)
    }
}
