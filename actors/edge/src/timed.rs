//! Timers for the code of a thread.

use orchestrator_supervise::Fault;

/// Runs `future` on this thread, with timers.
///
/// # Errors
/// Of the future, or the timers cannot be started.
pub fn timed(future: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime
        .map_err(|error| Fault::new(format!("cannot start the thread's timers: {error}")))?
        .block_on(future)
}
