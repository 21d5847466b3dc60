//! Arbiter threads with a heartbeat, which tells a blocked arbiter from an idle one.

use std::{
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use actix_rt::{Arbiter, ArbiterHandle};
use parking_lot::Mutex;

/// Interval of the heartbeat of an arbiter of children. A blocked arbiter shows at once, by the poll that
/// does not end; the heartbeat finds threads that are gone. It is slow because each beat wakes a thread of an
/// idle process.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Interval of the heartbeat of the root's arbiter. Other futures run there, too, for example signal
/// handlers, whose polls are not timed.
const ROOT_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Value of [`Heartbeat::poll_ms`] between two polls.
const IDLE: u64 = u64::MAX;

/// Time of an arbiter's last beat and of its current poll.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    name: String,
    epoch: Instant,
    interval: Duration,
    last_ms: AtomicU64,
    /// Start of the current poll, or [`IDLE`].
    poll_ms: AtomicU64,
}

impl Heartbeat {
    fn new(name: String, interval: Duration) -> Arc<Self> {
        let (epoch, last_ms, poll_ms) = (Instant::now(), AtomicU64::new(0), AtomicU64::new(IDLE));
        Arc::new(Self { name, epoch, interval, last_ms, poll_ms })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Duration of the current poll or delay of the heartbeat, whichever is longer.
    pub(crate) fn silence(&self) -> Duration {
        self.silence_at(self.epoch.elapsed())
    }

    fn silence_at(&self, now: Duration) -> Duration {
        let since = |ms| now.saturating_sub(Duration::from_millis(ms));
        let polled = match self.poll_ms.load(Relaxed) {
            IDLE => Duration::ZERO,
            began => since(began),
        };
        polled.max(since(self.last_ms.load(Relaxed)).saturating_sub(self.interval))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(IDLE - 1)
    }

    /// Beats until the arbiter's last handle is gone.
    async fn run(heartbeat: Weak<Self>) {
        while let Some(heartbeat) = heartbeat.upgrade() {
            heartbeat.last_ms.store(heartbeat.now_ms(), Relaxed);
            let interval = heartbeat.interval;
            drop(heartbeat);
            tokio::time::sleep(interval).await;
        }
    }
}

/// A future that records the start of each poll.
struct TimedPolls<F> {
    heartbeat: Weak<Heartbeat>,
    future: Pin<Box<F>>,
}

impl<F: Future<Output = ()>> Future for TimedPolls<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(heartbeat) = self.heartbeat.upgrade() else { return self.future.as_mut().poll(cx) };
        heartbeat.poll_ms.store(heartbeat.now_ms(), Relaxed);
        let polled = self.future.as_mut().poll(cx);
        heartbeat.poll_ms.store(IDLE, Relaxed);
        polled
    }
}

/// Handle on an arbiter thread and its heartbeat.
#[derive(Debug, Clone)]
pub(crate) struct MonitoredArbiter {
    handle: ArbiterHandle,
    pub(crate) heartbeat: Arc<Heartbeat>,
}

impl MonitoredArbiter {
    /// Calls `make` on the arbiter's thread and drives the future that it returns.
    pub(crate) fn spawn<F, Fut>(&self, make: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let heartbeat = Arc::downgrade(&self.heartbeat);
        #[expect(
            clippy::disallowed_methods,
            reason = "the kernel's one spawn: what it drives guards every poll"
        )]
        self.handle
            .spawn_fn(move || drop(actix_rt::spawn(TimedPolls { heartbeat, future: Box::pin(make()) })));
    }
}

/// Arbiter threads of a tree, which end with it.
#[derive(Debug, Default)]
pub(crate) struct Arbiters {
    threads: Mutex<Vec<Arbiter>>,
}

impl Arbiters {
    /// Monitors the arbiter of the calling thread.
    pub(crate) fn current(&self, name: &str) -> MonitoredArbiter {
        Self::monitor(Arbiter::current(), name, ROOT_HEARTBEAT_INTERVAL)
    }

    /// Starts an arbiter on a thread of its own.
    pub(crate) fn spawn(&self, name: &str) -> MonitoredArbiter {
        let thread = Arbiter::new();
        let arbiter = Self::monitor(thread.handle(), name, HEARTBEAT_INTERVAL);
        self.threads.lock().push(thread);
        arbiter
    }

    fn monitor(handle: ArbiterHandle, name: &str, interval: Duration) -> MonitoredArbiter {
        let arbiter = MonitoredArbiter { handle, heartbeat: Heartbeat::new(name.to_owned(), interval) };
        let heartbeat = Arc::downgrade(&arbiter.heartbeat);
        arbiter.spawn(move || Heartbeat::run(heartbeat));
        arbiter
    }
}

impl Drop for Arbiters {
    fn drop(&mut self) {
        let threads = self.threads.get_mut();
        for arbiter in threads {
            arbiter.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_poll_and_a_late_beat_are_silence() {
        let heartbeat = Heartbeat::new("test".to_owned(), HEARTBEAT_INTERVAL);
        let second = Duration::from_secs(1);
        let now = 10 * HEARTBEAT_INTERVAL;
        assert_eq!(
            heartbeat.silence_at(now),
            9 * HEARTBEAT_INTERVAL,
            "overdue since one interval after the first beat"
        );
        heartbeat.last_ms.store(45_000, Relaxed);
        assert_eq!(heartbeat.silence_at(now), Duration::ZERO, "a recent beat");
        heartbeat.poll_ms.store(47_000, Relaxed);
        assert_eq!(heartbeat.silence_at(now), 3 * second, "a long poll");
        heartbeat.poll_ms.store(IDLE, Relaxed);
        assert_eq!(heartbeat.silence_at(now), Duration::ZERO);
    }
}
