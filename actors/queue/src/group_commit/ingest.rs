//! The ingest operation in progress, continued slice by slice.

use std::time::{Duration, Instant};

use orchestrator_queue_rules::storage::{RunState, Storage, StorageError, StorageErrorKind, Upsert};

use crate::messages::IngestOp;

/// An ingest operation in progress.
pub(super) struct Ingest {
    pub(super) op: IngestOp,
    /// Number of entries stored so far.
    pub(super) from: usize,
    /// True if its long lines were staged in the storage.
    pub(super) staged: bool,
}

/// Progress of the ingest operation in a turn.
#[derive(Default)]
pub(super) enum IngestProgress {
    #[default]
    Untouched,
    /// Rows of a deleted run must be removed first.
    Blocked,
    At(usize),
    Done,
    /// The run belongs to another instance, for this reason.
    Refused(String),
    Runs(Vec<RunState>),
}

impl Ingest {
    /// Continues the operation for about `slice`.
    pub(super) fn step(
        &self,
        store: &mut dyn Storage,
        slice: Duration,
        stored: &mut u64,
    ) -> Result<IngestProgress, StorageError> {
        match &self.op {
            IngestOp::UpsertRun { run, complete } => match store.upsert_run(run, *complete) {
                Ok(Upsert::Done) => Ok(IngestProgress::Done),
                Ok(Upsert::Pending) => Ok(IngestProgress::Blocked),
                Err(error) if error.kind == StorageErrorKind::OtherInstance => {
                    Ok(IngestProgress::Refused(error.to_string()))
                }
                Err(error) => Err(error),
            },
            IngestOp::Rows { run, rows, complete, .. } => {
                let deadline = Instant::now() + slice;
                let reached = match store.enqueue(run, rows, self.from, Some(deadline)) {
                    Ok(reached) => reached,
                    Err(error) if error.kind == StorageErrorKind::UnknownRun => {
                        tracing::warn!(%error, "dropped rows of a deleted run");
                        return Ok(IngestProgress::Done);
                    }
                    Err(error) => return Err(error),
                };
                *stored += (reached - self.from) as u64;
                if reached < rows.len() {
                    return Ok(IngestProgress::At(reached));
                }
                // `complete` is committed with the last rows, so that a file is read again after a
                // crash before it.
                if *complete && store.upsert_run(run, true)? == Upsert::Pending {
                    return Ok(IngestProgress::At(reached));
                }
                Ok(IngestProgress::Done)
            }
            IngestOp::DeleteRun { run } => {
                store.mark_deleted(run)?;
                Ok(IngestProgress::Done)
            }
            IngestOp::KnownRuns { .. } => Ok(IngestProgress::Runs(store.known_runs()?)),
            IngestOp::Reconciled => Ok(IngestProgress::Done),
        }
    }
}
