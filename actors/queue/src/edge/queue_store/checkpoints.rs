//! Checkpoints of the write-ahead log: when the housekeeper starts one, and its last part between two turns.

use std::sync::atomic::Ordering::Relaxed;

use super::{CHECKPOINT_PAGES, Incarnation};
use crate::messages::Chore;

/// Pages written before the next checkpoint if the log could not be reused because of a reader or
/// an error.
const RETRY_PAGES: u64 = 1_024;

impl Incarnation<'_> {
    /// Starts a checkpoint when the write-ahead log has [`CHECKPOINT_PAGES`], and again after each
    /// [`RETRY_PAGES`]. The housekeeper moves most pages while the store continues, and the store moves
    /// the rest between two turns. Idle time, a stop and a full disk also start one.
    pub(super) fn schedule_checkpoint(&mut self) {
        let pages = self.wal_pages.load(Relaxed);
        self.metrics.wal.set(pages);
        let before = self.spec.wal_state.pages.swap(pages, Relaxed);
        if pages < before {
            self.checkpoint_at = CHECKPOINT_PAGES;
        }
        let wal_state = &self.spec.wal_state;
        if pages < self.checkpoint_at
            || wal_state.final_pass_due.load(Relaxed)
            || wal_state.checkpoint_running.swap(true, Relaxed)
        {
            return;
        }
        self.checkpoint_at = pages + RETRY_PAGES;
        if self.spec.chores.tell(Chore::Checkpoint).is_err() {
            // The inbox is full of operators' questions.
            wal_state.checkpoint_running.store(false, Relaxed);
        }
    }

    /// Moves the last pages of the log in place of a background turn, so that workers do not wait
    /// for both.
    pub(super) fn final_checkpoint(&mut self) {
        self.spec.wal_state.final_pass_due.store(false, Relaxed);
        if let Err(error) = self.store.checkpoint_final() {
            tracing::warn!(%error, "checkpoint failed: the write-ahead log is kept until the next one");
        }
        self.checkpoint_at = self.wal_pages.load(Relaxed) + RETRY_PAGES;
        self.group.end_background_turn();
    }
}
