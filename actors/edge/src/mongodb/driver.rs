//! Thread and runtime of the MongoDB driver.
//!
//! The driver computes on the thread that polls it, as long as a server wants: a login with 2^32 iterations
//! takes an hour. On an arbiter this would block other children. The thread is no child of its own, since a
//! blocked thread cannot be stopped: it belongs to the child that opened the client, ends with the client,
//! and nobody waits for its end.

use std::{
    any::Any,
    fs, io,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicU8, AtomicUsize,
            Ordering::{AcqRel, Acquire},
        },
    },
    thread,
    time::Duration,
};

use futures_util::future::BoxFuture;
use orchestrator_supervise::ForeignPanics;
use orchestrator_text::sanitize;
use rustix::process::{Pid, setpriority_process};
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use crate::library_call::library_panic;

/// Interval at which a pending call checks that the thread still runs tasks.
const CHECK_AFTER: Duration = Duration::from_secs(1);
/// Longest time in which the thread must run a task. Longer computations are abandoned.
const BUSY_MAX: Duration = Duration::from_secs(1);
/// Most abandoned threads of the process that still compute.
const ABANDONED_MAX: usize = 8;
/// Scheduling priority of an abandoned thread: the lowest.
const LOWEST_PRIORITY: i32 = 19;

/// Number of abandoned threads that still compute.
static ABANDONED: AtomicUsize = AtomicUsize::new(0);

const RUNNING: u8 = 0;
const IS_ABANDONED: u8 = 1;
const ENDED: u8 = 2;

type Answer = Box<dyn Any + Send>;
type Call = BoxFuture<'static, Answer>;

/// The running thread. It ends when this is dropped, or as soon as the driver returns.
#[derive(Debug)]
pub(super) struct Driver {
    runtime: Handle,
    panics: ForeignPanics,
    thread: Arc<ThreadState>,
    /// Ends the thread when dropped.
    _stop: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
struct ThreadState {
    id: OnceLock<Pid>,
    phase: AtomicU8,
}

impl Driver {
    /// Starts a thread.
    ///
    /// # Errors
    /// No thread can be started, or too many abandoned ones still compute.
    pub(super) async fn start() -> Result<Self, String> {
        let abandoned = ABANDONED.load(Acquire);
        if abandoned >= ABANDONED_MAX {
            return Err(format!(
                "{abandoned} threads of the MongoDB driver still compute for logins that were given up: check that the server is the \
                 intended one; it is tried again once a thread has ended, or after a restart of the process"
            ));
        }
        let failed = |error: io::Error| format!("cannot start the thread of the MongoDB driver: {error}");
        let (panics, thread) = (ForeignPanics::default(), Arc::<ThreadState>::default());
        let (started, runtime) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let (observed, state) = (panics.clone(), thread.clone());
        let run = move || {
            observed.observe_thread();
            state.started();
            match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => {
                    let _ = started.send(Ok(runtime.handle().clone()));
                    // An error: the sender was dropped, which is the stop.
                    let _ = runtime.block_on(stopped);
                    runtime.shutdown_background();
                }
                Err(error) => drop(started.send(Err(error))),
            }
            state.ended();
        };
        thread::Builder::new().name("mongodb".to_owned()).spawn(run).map_err(failed)?;
        let ended = |_| failed(io::Error::other("it ended at once"));
        let runtime = runtime.await.map_err(ended)?.map_err(failed)?;
        Ok(Self { runtime, panics, thread, _stop: stop })
    }

    /// Runs `call` on the thread, at most for `span`. `action` describes the call.
    ///
    /// # Errors
    /// No answer. After a panic or a long computation of the driver, all calls fail.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        action: &str,
        span: Duration,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, String> {
        let call: Call = Box::pin(async move { Box::new(call.await) as Answer });
        let answer = self.run(action, span, call).await?;
        Ok(*answer.downcast().expect("the answer of this call"))
    }

    fn run<'a>(
        &'a self,
        action: &'a str,
        span: Duration,
        call: Call,
    ) -> BoxFuture<'a, Result<Answer, String>> {
        Box::pin(async move {
            let task = AbortOnDropHandle::new(self.runtime.spawn(call));
            tokio::select! {
                biased;
                panic = self.panics.wait() => Err(format!("{action}: {}", library_panic(&panic))),
                answer = task => {
                    answer.map_err(|error| format!("the MongoDB driver ended while {action}: {}", sanitize(error.to_string())))
                }
                () = self.until_busy() => Err(format!(
                    "the MongoDB driver computes for more than {} s while {action}, so the connection is given up: check that the server is \
                     the intended one, and the iteration count of the user's credentials (15,000 by default)",
                    BUSY_MAX.as_secs()
                )),
                () = sleep(span) => {
                    Err(format!("the database did not answer within {} s while {action}", span.as_secs()))
                }
            }
        })
    }

    /// Waits until the thread runs no tasks for too long.
    async fn until_busy(&self) {
        while !self.thread.is_abandoned() {
            sleep(CHECK_AFTER).await;
            let task = AbortOnDropHandle::new(self.runtime.spawn(async {}));
            if timeout(BUSY_MAX, task).await.is_err() {
                self.thread.abandon();
            }
        }
    }
}

impl ThreadState {
    /// Records the id of the current thread.
    fn started(&self) {
        let link = fs::read_link("/proc/thread-self").unwrap_or_default();
        let id = link.file_name().and_then(|id| id.to_str()?.parse().ok()).and_then(Pid::from_raw);
        if let Some(id) = id {
            let _ = self.id.set(id);
        }
    }

    fn is_abandoned(&self) -> bool {
        self.phase.load(Acquire) == IS_ABANDONED
    }

    /// Marks the thread as abandoned, and leaves the processors to others.
    fn abandon(&self) {
        if self.phase.compare_exchange(RUNNING, IS_ABANDONED, AcqRel, Acquire).is_ok() {
            ABANDONED.fetch_add(1, AcqRel);
            if let Some(id) = self.id.get() {
                // After an error the thread only slows down others.
                let _ = setpriority_process(Some(*id), LOWEST_PRIORITY);
            }
        }
    }

    fn ended(&self) {
        if self.phase.swap(ENDED, AcqRel) == IS_ABANDONED {
            ABANDONED.fetch_sub(1, AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_panic_of_a_background_task_fails_all_calls() {
        let driver = Driver::start().await.expect("a thread");
        assert_eq!(driver.call("testing", SPAN, async { 5 }).await, Ok(5));
        let never = driver.call("testing", SPAN, async {
            drop(Handle::current().spawn(async { panic!("a reply that is wrong") }));
            std::future::pending::<()>().await;
        });
        let lost = never.await.expect_err("a panic");
        assert!(lost.contains("testing: the client library panicked: a reply that is wrong at "), "{lost}");
        assert_eq!(driver.call("testing", SPAN, async { 5 }).await, Err(lost));
    }

    #[tokio::test]
    async fn a_computation_is_given_up_and_its_thread_ends_afterwards() {
        let driver = Driver::start().await.expect("a thread");
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let lost = driver.call("testing", SPAN, async move { blocked.recv() }).await;
        assert!(lost.as_ref().is_err_and(|reason| reason.contains("computes for more than 1 s")), "{lost:?}");
        let thread = driver.thread.clone();
        drop(driver);
        assert!(thread.is_abandoned(), "nobody waits for it");
        drop(release);
        let ended = async {
            while thread.phase.load(Acquire) != ENDED {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(SPAN, ended).await.expect("its end");
    }
}
