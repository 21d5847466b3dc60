//! The stop of the process, which is reported while it lasts.

use std::{future::pending, time::Duration};

use orchestrator_admin::STOPPING;
use orchestrator_observe::{NodeSnapshot, without_root};
use orchestrator_supervise::{Root, State, Tree};
use tokio::time::{Instant, Interval, interval_at};

use crate::{service_manager::ServiceManager, startup, topology::ROOT};

/// Time for the stop of all subsystems, less than the 30 s of the unit. Only handlers of the catalog need
/// more than a few seconds. Children that still run then are stopped at once, and dropped half a second
/// later; a blocked arbiter takes one more second.
const LIMIT: Duration = Duration::from_secs(25);
/// Time before the first report, and between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// State of the stop.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    /// `None` before the stop begins.
    reports: Option<Interval>,
    /// End of the stop.
    until: Option<Instant>,
    /// Children of the last line of the log.
    logged: Vec<String>,
}

impl Stopping {
    pub(crate) fn has_begun(&self) -> bool {
        self.reports.is_some()
    }

    pub(crate) fn begin(&mut self, root: &Root, manager: &ServiceManager) {
        manager.stopping();
        root.request_stop(LIMIT);
        self.reports = Some(interval_at(Instant::now() + REPORT_EVERY, REPORT_EVERY));
        self.until = Some(Instant::now() + LIMIT);
    }

    /// Waits until [`Self::report`] is due; for ever before the stop.
    pub(crate) async fn tick(&mut self) {
        match &mut self.reports {
            Some(reports) => drop(reports.tick().await),
            None => pending().await,
        }
    }

    /// Reports the children that the stop waits for: to the service manager, as the blocker of the root, and
    /// in the log if they change.
    pub(crate) fn report(&mut self, tree: &Tree, manager: &ServiceManager) {
        let mut waits_for = Vec::new();
        for branch in tree.node(ROOT).map(|root| root.children).unwrap_or_default() {
            collect(&branch, &mut waits_for);
        }
        if waits_for.is_empty() {
            return;
        }
        let left = self.until.map_or(LIMIT, |until| until.saturating_duration_since(Instant::now()));
        let described: Vec<_> = waits_for.iter().map(describe).collect();
        let text = format!(
            "stops: waits for {}; at most {:.0} s more",
            startup::list(&described),
            left.as_secs_f64()
        );
        let paths = waits_for.into_iter().map(|node| node.path).collect();
        if self.logged != paths {
            tracing::info!("{text}");
            self.logged = paths;
        }
        manager.set_status(&text);
        if let Some(root) = tree.vitals("") {
            root.set_blocker(STOPPING, text, "a second signal ends the program at once");
        }
    }
}

/// Adds the workers that stop.
fn collect(node: &NodeSnapshot, waits_for: &mut Vec<NodeSnapshot>) {
    if node.children.is_empty() && matches!(node.state, State::Stopping | State::Stuck) {
        waits_for.push(node.clone());
    }
    node.children.iter().for_each(|child| collect(child, waits_for));
}

fn describe(node: &NodeSnapshot) -> String {
    let mut parts = Vec::new();
    if let Some(work) = &node.in_progress {
        parts.push(format!("{} for {:.1} s", work.name, Duration::from_millis(work.for_ms).as_secs_f64()));
    }
    let depth: usize = node.mailboxes.iter().map(|mailbox| mailbox.depth).sum();
    if depth > 0 {
        parts.push(format!("{depth} messages wait"));
    }
    if let Some(link) = &node.link {
        let reason = link.reason.iter().fold(String::new(), |text, reason| text + ": " + reason);
        parts.push(format!("{} {} is {}{reason}", link.kind, link.endpoint, link.state));
    }
    let path = without_root(&node.path);
    if parts.is_empty() { path.to_owned() } else { format!("{path}: {}", parts.join(", ")) }
}
