//! Arbiter threads with a heartbeat, so that one that is blocked can be told from one that is idle.

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

/// How often an arbiter of children shows that it runs. What blocks one is seen by the poll that does not end, and at once: this is for
/// a thread that is gone. Each beat of each arbiter wakes a thread of a process that has nothing to do.
const BEAT: Duration = Duration::from_secs(5);

/// How often the arbiter does that the root was started on: what runs there beside children, signals for instance, is not watched.
const ROOT_BEAT: Duration = Duration::from_secs(1);

/// Not in a poll.
const IDLE: u64 = u64::MAX;

/// When an arbiter last ran its heartbeat, and what it does now.
#[derive(Debug)]
pub(crate) struct Pulse {
    name: String,
    epoch: Instant,
    every: Duration,
    last_ms: AtomicU64,
    /// When the poll under way began.
    poll_ms: AtomicU64,
}

impl Pulse {
    fn new(name: String, every: Duration) -> Arc<Self> {
        let (epoch, last_ms, poll_ms) = (Instant::now(), AtomicU64::new(0), AtomicU64::new(IDLE));
        Arc::new(Self { name, epoch, every, last_ms, poll_ms })
    }

    /// Name of the arbiter.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How long it has been in one poll, or how long its heartbeat is overdue: whichever is longer.
    pub(crate) fn silence(&self) -> Duration {
        self.silence_at(self.epoch.elapsed())
    }

    fn silence_at(&self, now: Duration) -> Duration {
        let since = |ms| now.saturating_sub(Duration::from_millis(ms));
        let polled = match self.poll_ms.load(Relaxed) {
            IDLE => Duration::ZERO,
            began => since(began),
        };
        polled.max(since(self.last_ms.load(Relaxed)).saturating_sub(self.every))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(IDLE - 1)
    }

    /// Beats as long as somebody may look.
    async fn beat(pulse: Weak<Self>) {
        while let Some(pulse) = pulse.upgrade() {
            pulse.last_ms.store(pulse.now_ms(), Relaxed);
            let every = pulse.every;
            drop(pulse);
            tokio::time::sleep(every).await;
        }
    }
}

/// A future whose polls can be seen to last.
struct Watched<F> {
    pulse: Weak<Pulse>,
    future: Pin<Box<F>>,
}

impl<F: Future<Output = ()>> Future for Watched<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(pulse) = self.pulse.upgrade() else { return self.future.as_mut().poll(cx) };
        pulse.poll_ms.store(pulse.now_ms(), Relaxed);
        let polled = self.future.as_mut().poll(cx);
        pulse.poll_ms.store(IDLE, Relaxed);
        polled
    }
}

/// A place where children run.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    handle: ArbiterHandle,
    pub(crate) pulse: Arc<Pulse>,
}

impl Place {
    /// Runs `make` on the arbiter's thread and drives the future that it gives.
    pub(crate) fn spawn<F, Fut>(&self, make: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let pulse = Arc::downgrade(&self.pulse);
        #[expect(
            clippy::disallowed_methods,
            reason = "the kernel's one spawn: what it drives guards every poll"
        )]
        self.handle.spawn_fn(move || drop(actix_rt::spawn(Watched { pulse, future: Box::pin(make()) })));
    }
}

/// All arbiters of a tree; they end with it.
#[derive(Debug, Default)]
pub(crate) struct Arbiters {
    threads: Mutex<Vec<Arbiter>>,
}

impl Arbiters {
    /// The arbiter that this call runs on.
    pub(crate) fn current(&self, name: &str) -> Place {
        Self::place(Arbiter::current(), name, ROOT_BEAT)
    }

    /// A thread of its own.
    pub(crate) fn spawn(&self, name: &str) -> Place {
        let arbiter = Arbiter::new();
        let place = Self::place(arbiter.handle(), name, BEAT);
        self.threads.lock().push(arbiter);
        place
    }

    fn place(handle: ArbiterHandle, name: &str, beat: Duration) -> Place {
        let place = Place { handle, pulse: Pulse::new(name.to_owned(), beat) };
        let pulse = Arc::downgrade(&place.pulse);
        place.spawn(move || Pulse::beat(pulse));
        place
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
    fn a_poll_that_lasts_is_silence_and_so_is_a_beat_that_does_not_come() {
        let pulse = Pulse::new("test".to_owned(), BEAT);
        let second = Duration::from_secs(1);
        let now = 10 * BEAT;
        assert_eq!(pulse.silence_at(now), 9 * BEAT, "no beat since the first one, but the one that was due");
        pulse.last_ms.store(45_000, Relaxed);
        assert_eq!(pulse.silence_at(now), Duration::ZERO, "it has beaten");
        pulse.poll_ms.store(47_000, Relaxed);
        assert_eq!(pulse.silence_at(now), 3 * second, "one poll takes that long");
        pulse.poll_ms.store(IDLE, Relaxed);
        assert_eq!(pulse.silence_at(now), Duration::ZERO);
    }
}
