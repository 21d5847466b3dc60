//! Arbiter threads with a heartbeat, so that one that is blocked can be told from one that is idle.

use std::{
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use actix_rt::{Arbiter, ArbiterHandle};

/// How often an arbiter shows that it runs.
const BEAT: Duration = Duration::from_millis(250);

/// When an arbiter last ran its heartbeat.
#[derive(Debug)]
pub(crate) struct Pulse {
    name: String,
    epoch: Instant,
    last_ms: AtomicU64,
}

impl Pulse {
    fn new(name: String) -> Arc<Self> {
        Arc::new(Self { name, epoch: Instant::now(), last_ms: AtomicU64::new(0) })
    }

    /// Name of the arbiter.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Time since the last beat, beyond the beat itself.
    pub(crate) fn silence(&self) -> Duration {
        let last = Duration::from_millis(self.last_ms.load(Relaxed));
        self.epoch.elapsed().saturating_sub(last).saturating_sub(BEAT)
    }

    /// Beats as long as somebody may look.
    async fn beat(pulse: Weak<Self>) {
        while let Some(pulse) = pulse.upgrade() {
            let now = u64::try_from(pulse.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
            pulse.last_ms.store(now, Relaxed);
            drop(pulse);
            tokio::time::sleep(BEAT).await;
        }
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
        #[expect(
            clippy::disallowed_methods,
            reason = "the kernel's one spawn: what it drives guards every poll"
        )]
        self.handle.spawn_fn(move || drop(actix_rt::spawn(make())));
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
        self.place(Arbiter::current(), name)
    }

    /// A thread of its own.
    pub(crate) fn spawn(&self, name: &str) -> Place {
        let arbiter = Arbiter::new();
        let place = self.place(arbiter.handle(), name);
        self.threads.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(arbiter);
        place
    }

    fn place(&self, handle: ArbiterHandle, name: &str) -> Place {
        let place = Place { handle, pulse: Pulse::new(name.to_owned()) };
        let pulse = Arc::downgrade(&place.pulse);
        place.spawn(move || Pulse::beat(pulse));
        place
    }
}

impl Drop for Arbiters {
    fn drop(&mut self) {
        let threads = self.threads.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        for arbiter in threads {
            arbiter.stop();
        }
    }
}
