//! The readiness of the process, from a snapshot of the tree. No I/O.
//!
//! | A child is not ready if | except if |
//! |---|---|
//! | it is in one work item without progress for 5 s | it, or a child that it waits for, has a fault |
//! | it does not run | it is paused, or it is transient and has exited |
//! | its link is not up | the link is idle, the child is paused, or the child is the endpoint itself |
//!
//! A fault is then the reason; its text is that of the cause in `GET /v1/why`.

use orchestrator_observe::{NodeSnapshot, UNANSWERED};
use orchestrator_supervise::{State, Tree};
use orchestrator_text::sanitize;

use crate::fault::Faults;

/// Kind of the blocker of the root while the process stops.
pub const STOPPING: &str = "stopping";

/// Readiness of one child.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChildReadiness<'a> {
    pub(crate) path: &'a str,
    state: &'a str,
    /// Reason why the child is not ready.
    pub(crate) failure: Option<String>,
}

impl ChildReadiness<'_> {
    /// Formats one line of `/readyz`, with the reason of a failure if `reasons` is true.
    pub(crate) fn line(&self, reasons: bool) -> String {
        match &self.failure {
            None => format!("ok: {}: {}\n", self.path, self.state),
            Some(reason) if reasons => format!("failed: {}: {}\n", self.path, sanitize(reason)),
            Some(_) => format!("failed: {}\n", self.path),
        }
    }
}

/// Children that are not ready, each as `{path}: {reason}`. The link of the endpoint at the path `own` is
/// ignored.
pub fn readiness_failures(tree: &Tree, own: &str) -> Vec<String> {
    let snapshot = tree.snapshot();
    let failure = |child: &ChildReadiness<'_>| Some(format!("{}: {}", child.path, child.failure.as_ref()?));
    check(&snapshot.root, own, snapshot.captured_at_ms).iter().filter_map(failure).collect()
}

/// Readiness of every child at the time `now_ms` since 1970. `own` is the path of the endpoint.
pub(crate) fn check<'a>(root: &'a NodeSnapshot, own: &str, now_ms: u64) -> Vec<ChildReadiness<'a>> {
    let mut children = Vec::new();
    visit(root, own, &Faults::of(root, now_ms), &mut children);
    children
}

fn visit<'a>(node: &'a NodeSnapshot, own: &str, faults: &Faults, children: &mut Vec<ChildReadiness<'a>>) {
    children.push(ChildReadiness {
        path: &node.path,
        state: node.state.name(),
        failure: failure(node, own, faults),
    });
    // The children of a supervisor that has exited or was given up are expected to be stopped.
    if !node.has_exited() && node.state != State::GivenUp {
        node.children.iter().for_each(|child| visit(child, own, faults, children));
    }
}

/// Follows the table of this module.
fn failure(node: &NodeSnapshot, own: &str, faults: &Faults) -> Option<String> {
    let (state, fault) = (node.state, faults.at(&node.path));
    if is_stuck(node) && fault.is_none() && !faults.is_behind(&node.path) {
        return Some(stuck(node));
    }
    if state == State::Paused || node.has_exited() {
        return None;
    }
    if let Some(stops) = node.blocker.as_ref().filter(|blocker| blocker.kind == STOPPING) {
        return Some(stops.text.clone());
    }
    if state != State::Running {
        let exit = node.last_exit.as_ref().map(|exit| format!(", last exit {}", exit.reason));
        return Some(format!("{state}{}", exit.unwrap_or_default()));
    }
    let link = node.link.as_ref().filter(|link| link.state.is_away() && node.path != own)?;
    let connecting = || format!("{} to {} is {}", link.kind, link.endpoint, link.state);
    Some(fault.map_or_else(connecting, |cause| cause.text.clone()))
}

/// One request may take as long as its peer may leave it without an answer.
fn is_stuck(node: &NodeSnapshot) -> bool {
    let most = UNANSWERED.as_millis();
    let hangs = node.in_progress.as_ref().is_some_and(|work| u128::from(work.silent_ms) >= most);
    node.stuck && (node.state == State::Stuck || node.arbiter_silent_ms.is_some() || hangs)
}

fn stuck(node: &NodeSnapshot) -> String {
    match &node.in_progress {
        Some(work) => format!("stuck in {} for {} ms", work.name, work.silent_ms),
        None if node.state == State::Stuck => "stuck: it did not stop at its deadline".to_owned(),
        None => format!("stuck: arbiter {} is blocked", node.arbiter.as_deref().unwrap_or("?")),
    }
}
