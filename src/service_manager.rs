//! What the service manager is told (sd_notify(3)): ready, reloading, stopping, and that no arbiter stands still.
//! Without one (`NOTIFY_SOCKET`, `WATCHDOG_USEC` not set) all of it does nothing.

use std::{collections::BTreeMap, time::Duration};

use orchestrator_supervise::Tree;
use sd_notify::NotifyState;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// The connection to the service manager.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    /// How long it may hear nothing before it kills the process.
    watchdog: Option<Duration>,
    ticks: Option<Interval>,
}

impl ServiceManager {
    /// As the environment says. Needs a running arbiter.
    pub(crate) fn from_environment() -> Self {
        let watchdog = sd_notify::watchdog_enabled();
        let ticks = watchdog.map(|limit| {
            let mut ticks = interval(limit / 4);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        Self { watchdog, ticks }
    }

    /// Everything is at work.
    pub(crate) fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    /// It takes long: what for, in one line, and how much longer to wait before it counts as failed.
    pub(crate) fn still_starting(&self, waits_for: &str, patience: Duration) {
        let patience = u32::try_from(patience.as_micros()).unwrap_or(u32::MAX);
        tell(&[
            NotifyState::Status(&format!("waits for {waits_for}")),
            NotifyState::ExtendTimeoutUsec(patience),
        ]);
    }

    /// What [`Self::still_starting`] told is over.
    pub(crate) fn nothing_to_tell(&self) {
        tell(&[NotifyState::Status("")]);
    }

    /// The configuration is being read again; [`Self::ready`] ends that.
    pub(crate) fn reloading(&self) {
        let now = NotifyState::monotonic_usec_now();
        match now {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(error) => tracing::debug!(%error, "no monotonic clock to tell the service manager"),
        }
    }

    /// The process drains.
    pub(crate) fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }

    /// Waits until it is time to say that the process lives; for ever, if nobody listens.
    pub(crate) async fn tick(&mut self) {
        match &mut self.ticks {
            Some(ticks) => drop(ticks.tick().await),
            None => std::future::pending().await,
        }
    }

    /// Says that the process lives, if every arbiter of `tree` has shown lately that it runs. One that is blocked cannot
    /// be killed from inside; the service manager starts the process afresh, and nothing is lost by that.
    pub(crate) fn alive(&self, tree: &Tree) {
        let Some(watchdog) = self.watchdog else { return };
        let silent = silent_arbiters(tree, watchdog / 2);
        if silent.is_empty() {
            tell(&[NotifyState::Watchdog]);
        } else {
            tracing::error!(arbiters = ?silent, "blocked: the service manager's watchdog is not fed");
        }
    }
}

/// Arbiters that have shown nothing for `limit`, and for how long.
fn silent_arbiters(tree: &Tree, limit: Duration) -> BTreeMap<String, Duration> {
    let vitals = tree.paths().into_iter().filter_map(|path| tree.vitals(&path));
    vitals
        .filter_map(|vitals| Some((vitals.arbiter_name()?.to_owned(), vitals.arbiter_silence())))
        .filter(|(_, silence)| *silence > limit)
        .collect()
}

fn tell(state: &[NotifyState<'_>]) {
    // A service manager that is gone is no reason not to work.
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "the service manager was not reached");
    }
}
