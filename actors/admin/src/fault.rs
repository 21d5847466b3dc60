//! Faults that a peer or the system reports, such as a lost connection or a full disk, and the children that
//! wait because of them. No I/O.

use std::collections::BTreeMap;

use orchestrator_edge::shell_word;
use orchestrator_observe::{
    BlockerSnapshot, InProgressSnapshot, LinkSnapshot, LinkStatus, NodeSnapshot, without_root,
};
use orchestrator_subsystem::wire::Cause;
use orchestrator_supervise::State;

use crate::{
    peer_help::{examine, name_of, place_of},
    timestamp::{rfc3339, seconds},
    waiting::branch_of,
};

/// Time after which a wait for a child counts, in milliseconds.
const WAITS_AFTER_MS: u64 = 1_000;
/// Time within which a reported reason and a lost link are the same fault, in milliseconds.
const NEARLY_MS: u64 = 1_000;

/// Faults of a tree, by what failed.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Cause at each child that reports one, with what failed.
    causes: BTreeMap<String, (String, Cause)>,
    /// Failed server or file for which each other child waits.
    waiting: BTreeMap<String, String>,
}

impl Faults {
    /// Reads the faults of `root`, the tree or a branch of it, at the time `now_ms` since 1970.
    pub(crate) fn of(root: &NodeSnapshot, now_ms: u64) -> Self {
        let (mut causes, mut waits) = (BTreeMap::<_, (String, Cause)>::new(), BTreeMap::<_, Vec<_>>::new());
        root.walk(&mut |node| {
            causes.extend(fault(node).map(|fault| (node.path.clone(), fault)));
            for wait in node.waits.iter().filter(|wait| wait.for_ms >= WAITS_AFTER_MS) {
                waits.entry(wait.on.as_str()).or_default().push(node.path.as_str());
            }
        });
        let mut waiting = BTreeMap::new();
        for (path, (of, _)) in &causes {
            let mut next = vec![path.as_str()];
            while let Some(on) = next.pop() {
                for from in waits.get(on).into_iter().flatten().filter(|from| !causes.contains_key(**from)) {
                    if waiting.insert((*from).to_owned(), of.clone()).is_none() {
                        next.push(from);
                    }
                }
            }
        }
        root.walk(&mut |node| {
            let Some(begun_ms) = stuck_since(node, now_ms).filter(|_| !causes.contains_key(&node.path))
            else {
                return;
            };
            let is_earlier = |(_, cause): &&(String, Cause)| {
                let nearly_ms = cause.since_ms.map(|ms| ms.saturating_sub(NEARLY_MS));
                branch_of(&cause.path) == branch_of(&node.path) && nearly_ms.is_some_and(|ms| ms <= begun_ms)
            };
            if let Some((of, _)) =
                causes.values().filter(is_earlier).min_by_key(|(_, cause)| (cause.since_ms, weight(cause)))
            {
                waiting.entry(node.path.clone()).or_insert_with(|| of.clone());
            }
        });
        Self { causes, waiting }
    }

    /// Cause that the child at `path` reports.
    pub(crate) fn at(&self, path: &str) -> Option<&Cause> {
        self.causes.get(path).map(|(_, cause)| cause)
    }

    /// True if the child at `path` waits for a child with a fault, or is stuck in work that began in the same
    /// subsystem after a fault.
    pub(crate) fn is_behind(&self, path: &str) -> bool {
        self.waiting.contains_key(path)
    }

    /// Causes of the children that `is_shown` accepts, one for each thing that failed, with all children that
    /// it affects. The one that affects most children comes first.
    pub(crate) fn grouped(&self, is_shown: impl Fn(&str) -> bool) -> Vec<Cause> {
        let mut first = BTreeMap::<&str, &Cause>::new();
        for (of, cause) in self.causes.values().filter(|(_, cause)| is_shown(&cause.path)) {
            let known = first.entry(of).or_insert(cause);
            if weight(cause) < weight(known) {
                *known = cause;
            }
        }
        let with_affected = |(of, cause): (&str, &Cause)| {
            let waiting = self.waiting.iter().filter(|(_, known)| *known == of).map(|(path, _)| path.clone());
            let others = self.members(of).map(|member| member.path.clone()).chain(waiting);
            let mut affects: Vec<_> = others.filter(|path| *path != cause.path).collect();
            affects.sort();
            Cause { affects, ..cause.clone() }
        };
        let mut causes: Vec<_> = first.into_iter().map(with_affected).collect();
        causes.sort_by_key(|cause| (std::cmp::Reverse(cause.affects.len()), cause.since_ms));
        causes
    }

    fn members(&self, of: &str) -> impl Iterator<Item = &Cause> {
        self.causes.values().filter(move |(known, _)| known == of).map(|(_, cause)| cause)
    }
}

/// Order of the causes of one fault: what a child finds at its own connection says more than what others
/// report about it.
fn weight(cause: &Cause) -> (u8, Option<u64>) {
    let kind = match cause.kind.as_str() {
        "unanswered" => 0,
        "link_down" | "broker_alarm" | "disk_full" => 1,
        _ => 2,
    };
    (kind, cause.since_ms)
}

/// Start of the work in which a child is stuck, milliseconds since 1970. None if its arbiter stands still:
/// the child is not the reason then.
fn stuck_since(node: &NodeSnapshot, now_ms: u64) -> Option<u64> {
    let work = node.in_progress.as_ref().filter(|_| node.stuck && node.arbiter_silent_ms.is_none())?;
    Some(now_ms.saturating_sub(work.silent_ms))
}

/// Failed server or file that a child reports, and the cause.
fn fault(node: &NodeSnapshot) -> Option<(String, Cause)> {
    if matches!(node.state, State::Stopped | State::GivenUp) {
        return None;
    }
    let away =
        node.link.as_ref().filter(|link| matches!(link.state, LinkStatus::Down | LinkStatus::Unanswered));
    let reported = node.blocker.as_ref().and_then(|blocker| Some((blocker, blocker.fault_of.as_ref()?)));
    match (away, reported) {
        // The cause that the child reports since then says more than the link does.
        (Some(link), Some((blocker, _))) if link.state == LinkStatus::Down && is_since(blocker, link) => {
            Some((link.endpoint.clone(), reported_cause(node, blocker)))
        }
        (Some(link), _) => Some((link.endpoint.clone(), link_cause(node, link))),
        (None, Some((blocker, of))) => Some((of.clone(), reported_cause(node, blocker))),
        (None, None) => None,
    }
}

fn is_since(blocker: &BlockerSnapshot, link: &LinkSnapshot) -> bool {
    Some(blocker.since_ms) >= link.since_ms.map(|ms| ms.saturating_sub(NEARLY_MS))
}

/// Cause that a child reports.
pub(crate) fn reported_cause(node: &NodeSnapshot, blocker: &BlockerSnapshot) -> Cause {
    Cause {
        kind: blocker.kind.clone(),
        path: node.path.clone(),
        text: blocker.text.clone(),
        since_ms: Some(blocker.since_ms),
        evidence: if blocker.evidence.is_empty() { vec![state_of(node)] } else { blocker.evidence.clone() },
        help: blocker.help.clone(),
        affects: Vec::new(),
        routine: blocker.routine,
    }
}

fn link_cause(node: &NodeSnapshot, link: &LinkSnapshot) -> Cause {
    let reason = link.reason.as_deref().unwrap_or("no reason given");
    let (name, place) = (name_of(&link.kind), place_of(&link.kind, &link.endpoint));
    let (kind, text, since) = match (link.state, link.failure.as_deref()) {
        (LinkStatus::Unanswered, _) => {
            ("unanswered", format!("{name} at {place} {reason}"), "no answer since")
        }
        (_, Some("blocked")) => {
            ("broker_alarm", format!("{name} at {place} takes no messages: {reason}"), "since")
        }
        (_, Some("disk_full")) => {
            ("disk_full", format!("{name} at {place} has no space left: {reason}"), "since")
        }
        (_, Some("refused")) => ("link_down", format!("{name} at {place} refuses: {reason}"), "since"),
        (_, Some("unusable")) => {
            ("link_down", format!("{name} at {place} cannot be used: {reason}"), "since")
        }
        _ => ("link_down", format!("{} to {} is down: {reason}", link.kind, link.endpoint), "down since"),
    };
    let stuck_in = node.in_progress.as_ref().filter(|_| node.stuck).map(works_on);
    let next = link.retry_in_ms.map(|ms| format!("next attempt in {:.1} s", seconds(ms)));
    let since = link.since_ms.map(|ms| format!("{since} {}", rfc3339(ms)));
    Cause {
        kind: kind.to_owned(),
        path: node.path.clone(),
        text,
        since_ms: link.since_ms,
        evidence: stuck_in.into_iter().chain(next).chain(since).collect(),
        help: help_with(link),
        affects: Vec::new(),
        routine: false,
    }
}

/// State of a child, the evidence of a cause without other facts.
pub(crate) fn state_of(node: &NodeSnapshot) -> String {
    format!("{} is {}, restarts: {}", without_root(&node.path), node.state, node.restarts)
}

/// Work in progress of a child, with its age.
pub(crate) fn works_on(work: &InProgressSnapshot) -> String {
    format!("works on `{}` for {:.1} s", work.name, seconds(work.for_ms))
}

/// Help of a link's failure: what the child knows by the reason, or else the command that examines a peer
/// that is down.
fn help_with(link: &LinkSnapshot) -> String {
    let log = || format!("the log of {} at {}", name_of(&link.kind), place_of(&link.kind, &link.endpoint));
    match (&link.help, link.failure.as_deref()) {
        (Some(help), _) => help.clone(),
        (None, None | Some("down")) => examine(&link.kind, &link.endpoint),
        // Or the file with the address.
        (None, Some("unusable")) if link.endpoint.starts_with(['/', '.']) => {
            format!("ls -ld {}; orchestrator check", shell_word(&link.endpoint))
        }
        (None, Some("unusable")) => format!("orchestrator check; {}", log()),
        (None, Some(_)) => format!("see {}", log()),
    }
}
