//! Notifications to the service manager (sd_notify(3)): ready, reloading, stopping, and the watchdog.
//!
//! Without `NOTIFY_SOCKET` nothing is sent, and without `WATCHDOG_USEC` there is no watchdog.

use std::{
    collections::BTreeMap,
    env, io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::Duration,
};

use orchestrator_supervise::Tree;
use sd_notify::NotifyState;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// The connection to the service manager.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    /// Time without a notification after which the service manager kills the process.
    watchdog: Option<Duration>,
    ticks: Option<Interval>,
}

impl ServiceManager {
    /// Reads the environment. Needs a running arbiter.
    pub(crate) fn from_environment() -> Self {
        let watchdog = sd_notify::watchdog_enabled();
        let ticks = watchdog.map(|limit| {
            let mut ticks = interval(limit / 4);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        Self { watchdog, ticks }
    }

    /// Reports that the process is ready.
    pub(crate) fn ready(&self) {
        notify(&[NotifyState::Ready]);
    }

    /// Sets the status and extends the start time-out by `extension`.
    pub(crate) fn extend_start(&self, status: &str, extension: Duration) {
        let extension = u32::try_from(extension.as_micros()).unwrap_or(u32::MAX);
        notify(&[NotifyState::Status(status), NotifyState::ExtendTimeoutUsec(extension)]);
    }

    /// Sets the status, one line; an empty one clears it.
    pub(crate) fn set_status(&self, status: &str) {
        notify(&[NotifyState::Status(status)]);
    }

    /// Reports the start of a reload; [`Self::ready`] reports its end.
    pub(crate) fn reloading(&self) {
        let now = NotifyState::monotonic_usec_now();
        match now {
            Ok(now) => notify(&[NotifyState::Reloading, now]),
            Err(error) => {
                tracing::debug!(%error, "cannot notify the service manager of the reload: no monotonic clock")
            }
        }
    }

    /// Reports that the process is draining.
    pub(crate) fn stopping(&self) {
        notify(&[NotifyState::Stopping]);
    }

    /// Waits until the watchdog is due; for ever if there is none.
    pub(crate) async fn tick(&mut self) {
        match &mut self.ticks {
            Some(ticks) => drop(ticks.tick().await),
            None => std::future::pending().await,
        }
    }

    /// Feeds the watchdog if every arbiter of `tree` has beaten recently. A blocked arbiter cannot be ended
    /// from inside the process, so the service manager restarts the process.
    pub(crate) fn feed_watchdog(&self, tree: &Tree) {
        let Some(watchdog) = self.watchdog else { return };
        let silent = silent_arbiters(tree, watchdog / 2);
        if silent.is_empty() {
            notify(&[NotifyState::Watchdog]);
        } else {
            tracing::error!(arbiters = ?silent, "arbiters are blocked: the service manager's watchdog is not fed");
        }
    }
}

/// Arbiters without a heartbeat for longer than `limit`, each with the time since its last one.
fn silent_arbiters(tree: &Tree, limit: Duration) -> BTreeMap<String, Duration> {
    let children = tree.paths().into_iter().filter_map(|path| tree.child(&path));
    children
        .filter_map(|child| Some((child.arbiter_name()?.to_owned(), child.arbiter_silence())))
        .filter(|(_, silence)| *silence > limit)
        .collect()
}

fn notify(state: &[NotifyState<'_>]) {
    let address = env::var_os("NOTIFY_SOCKET").unwrap_or_default();
    let sent = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => notify_abstract(name, state),
        None => sd_notify::notify(state),
    };
    // The process runs on without a service manager.
    if let Err(error) = sent {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}

/// Sends to an abstract socket, which `sd_notify` does not know.
fn notify_abstract(name: &[u8], state: &[NotifyState<'_>]) -> io::Result<()> {
    let lines: String = state.iter().map(|line| format!("{line}\n")).collect();
    let socket = UnixDatagram::unbound()?;
    socket.send_to_addr(lines.as_bytes(), &SocketAddr::from_abstract_name(name)?).map(drop)
}
