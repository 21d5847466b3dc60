//! Messages that subsystems of one process exchange, and facts that they report to hooks. No I/O.
//!
//! A subsystem offers a job to the queue and gets the end of the job as its answer. It may offer the same job
//! again at any time, for example after a restart: the queue knows a job by its [`JobId`] and has it once.
//! The binary connects the subsystems (`src/subsystems.rs`): it passes one [`Exchange`] to all of them, the
//! queue first.

mod hook_event;
mod job;
mod job_queue;

use orchestrator_supervise::ChildRef;

pub use crate::{
    hook_event::{HookEvent, HookEvents},
    job::{
        JobEnd, JobFinished, JobId, JobOffered, JobTakenBack, JobWithdrawn, PAYLOAD_BYTES_MAX, payload_text,
    },
    job_queue::{JobQueue, Stopped},
};

/// Connections between the subsystems of one process.
#[derive(Debug, Clone, Default)]
pub struct Exchange {
    /// True if a configured subsystem offers jobs.
    pub offers_jobs: bool,
    /// The queue, once its branch was built with [`Exchange::offers_jobs`].
    pub jobs: Option<JobQueue>,
    /// The child of the queue whose console tells the failed jobs. It names no child without a queue.
    pub queue_console: ChildRef,
    /// Facts for the hooks.
    pub hook_events: HookEvents,
}
