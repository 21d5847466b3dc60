//! Who keeps the process from being ready. Pure.
//!
//! | A child is a culprit when | unless |
//! |---|---|
//! | it is stuck | |
//! | it does not run | it is paused (an operator's wish), or it is transient or temporary and has ended |
//! | its link is not up | it is idle (not wanted at present), it is paused, or it is the endpoint that is just answering |

use orchestrator_supervise::{NodeSnapshot, Tree, sanitize};

/// What is said of one child.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict<'a> {
    path: &'a str,
    state: &'a str,
    /// Why it is not ready.
    pub(crate) culprit: Option<String>,
}

impl Verdict<'_> {
    /// One line of `/readyz`; a culprit's reason is left out unless `reasons`.
    pub(crate) fn line(&self, reasons: bool) -> String {
        match &self.culprit {
            None => format!("ok: {}: {}\n", self.path, self.state),
            Some(reason) if reasons => format!("culprit: {}: {}\n", self.path, sanitize(reason)),
            Some(_) => format!("culprit: {}\n", self.path),
        }
    }
}

/// What keeps the process from being ready, `{path}: {reason}` each; `own` is the path of the endpoint, which may be away
/// without anybody missing it.
pub fn culprits(tree: &Tree, own: &str) -> Vec<String> {
    let root = tree.snapshot().root;
    let verdicts = judge(&root, own);
    verdicts.iter().filter_map(|v| v.culprit.as_ref().map(|reason| format!("{}: {reason}", v.path))).collect()
}

/// A verdict for every child; `own` is the path of the endpoint.
pub(crate) fn judge<'a>(root: &'a NodeSnapshot, own: &str) -> Vec<Verdict<'a>> {
    let mut verdicts = Vec::new();
    visit(root, own, &mut verdicts);
    verdicts
}

fn visit<'a>(node: &'a NodeSnapshot, own: &str, verdicts: &mut Vec<Verdict<'a>>) {
    verdicts.push(Verdict { path: &node.path, state: &node.state, culprit: trouble(node, own) });
    // What has ended by its own right took its children along by right.
    if !has_ended(node) {
        node.children.iter().for_each(|child| visit(child, own, verdicts));
    }
}

fn has_ended(node: &NodeSnapshot) -> bool {
    node.restart != "permanent" && node.state == "stopped"
}

fn trouble(node: &NodeSnapshot, own: &str) -> Option<String> {
    if node.stuck {
        return Some(stuck(node));
    }
    let state = node.state.as_str();
    if state == "paused" || has_ended(node) {
        return None;
    }
    if state != "running" {
        let exit = node.last_exit.as_ref().map(|exit| format!(", last exit {}", exit.reason));
        return Some(format!("{state}{}", exit.unwrap_or_default()));
    }
    let link = node
        .link
        .as_ref()
        .filter(|link| !matches!(link.state.as_str(), "up" | "idle") && node.path != own)?;
    let reason = link.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(format!("{} to {} is {}{reason}", link.kind, link.endpoint, link.state))
}

fn stuck(node: &NodeSnapshot) -> String {
    match &node.in_progress {
        Some(work) => format!("stuck in {} for {} ms", work.name, work.for_ms),
        None if node.state == "stuck" => "stuck: it did not stop at its deadline".to_owned(),
        None => format!("stuck: arbiter {} is blocked", node.arbiter.as_deref().unwrap_or("?")),
    }
}
