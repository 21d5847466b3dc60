//! `GET /v1/why` and `/v1/why/{path}`: the causes that hold up work now, read from the tree and its events.

use std::collections::BTreeMap;

use actix_web::{
    HttpResponse,
    web::{Data, Path},
};
use orchestrator_subsystem::wire::{Cause, SubsystemCauses, Why};
use orchestrator_supervise::{CommandError, Event, EventKind, LinkSnapshot, NodeSnapshot};

use crate::{access::Access, api_error::ApiError};

/// Restarts within [`CRASH_LOOP_MS`] after which a child counts as failing again and again.
const CRASH_LOOP: usize = 3;
const CRASH_LOOP_MS: u64 = 60_000;
/// Events of a child that are shown as evidence.
const EVIDENCE_MAX: usize = 3;

pub(crate) async fn whole(access: Data<Access>) -> HttpResponse {
    let snapshot = access.tree.snapshot();
    let facts = Facts::of(&access.tree.events(0), snapshot.captured_at_ms);
    let branches = snapshot.root.children.iter();
    let subsystems = branches.map(|branch| causes_of(branch, &facts)).collect();
    HttpResponse::Ok().json(Why { at_ms: snapshot.captured_at_ms, subsystems })
}

pub(crate) async fn part(access: Data<Access>, path: Path<String>) -> Result<HttpResponse, ApiError> {
    let unknown = || CommandError::NotFound(path.to_string());
    let path = access.tree.resolve(&path).ok_or_else(unknown)?;
    let snapshot = access.tree.snapshot();
    let branch = snapshot.root.find(&path).ok_or_else(unknown)?;
    let facts = Facts::of(&access.tree.events(0), snapshot.captured_at_ms);
    let subsystems = vec![causes_of(branch, &facts)];
    Ok(HttpResponse::Ok().json(Why { at_ms: snapshot.captured_at_ms, subsystems }))
}

/// Facts that the events add to the tree.
#[derive(Default)]
struct Facts {
    /// The last pause or stop of each child that succeeded: time, and operator with reason.
    commands: BTreeMap<String, (u64, String)>,
    /// Recent exits of each child, oldest first.
    exits: BTreeMap<String, Vec<String>>,
}

impl Facts {
    fn of(events: &[Event], now_ms: u64) -> Self {
        let mut facts = Self::default();
        for event in events {
            match &event.kind {
                EventKind::Commanded { verb, by, reason, outcome }
                    if outcome == "ok" && ["pause", "stop"].contains(&verb.as_str()) =>
                {
                    let reason = if reason.is_empty() { "no reason given" } else { reason };
                    facts
                        .commands
                        .insert(event.path.clone(), (event.at_ms, format!("{verb} by {by}: {reason}")));
                }
                EventKind::Exited { reason, .. }
                    if reason != "shutdown" && now_ms.saturating_sub(event.at_ms) <= CRASH_LOOP_MS =>
                {
                    facts.exits.entry(event.path.clone()).or_default().push(reason.clone());
                }
                _ => {}
            }
        }
        facts
    }
}

/// Causes in a branch, ranked: first those that an operator chose, then those that hide others.
fn causes_of(branch: &NodeSnapshot, facts: &Facts) -> SubsystemCauses {
    let mut ranked = Vec::new();
    branch.walk(&mut |node| ranked.extend(cause(node, facts)));
    ranked.sort_by_key(|(rank, _)| *rank);
    SubsystemCauses {
        path: branch.path.clone(),
        causes: ranked.into_iter().map(|(_, cause)| cause).collect(),
    }
}

fn cause(node: &NodeSnapshot, facts: &Facts) -> Option<(u8, Cause)> {
    let short = node.path.split_once('/').map_or(node.path.as_str(), |(_, path)| path);
    let make = |kind: &str, text: String, since_ms, evidence, help: String| Cause {
        kind: kind.to_owned(),
        path: node.path.clone(),
        text,
        since_ms,
        evidence,
        help,
    };
    let command = facts.commands.get(&node.path);
    let commanded =
        || (command.map(|(at, _)| *at), command.map(|(_, text)| text.clone()).into_iter().collect());
    let exits = facts.exits.get(&node.path).map(Vec::as_slice).unwrap_or_default();
    let has_ended = node.restart != "permanent" && node.state == "stopped" && command.is_none();
    if node.state == "paused" {
        let (since, evidence) = commanded();
        return Some((
            0,
            make(
                "paused",
                "paused by an operator".to_owned(),
                since,
                evidence,
                format!("orchestrator resume {short}"),
            ),
        ));
    }
    if let Some(blocker) = node.blocker.as_ref().filter(|blocker| blocker.kind == "paused") {
        let cause =
            make("paused", blocker.text.clone(), Some(blocker.since_ms), Vec::new(), blocker.help.clone());
        return Some((0, cause));
    }
    if node.state == "stopped" && command.is_some() {
        let (since, evidence) = commanded();
        return Some((
            1,
            make(
                "stopped",
                "stopped by an operator".to_owned(),
                since,
                evidence,
                format!("orchestrator start {short}"),
            ),
        ));
    }
    // A supervisor that restarts shows its children as the cause.
    if exits.len() >= CRASH_LOOP {
        let evidence = exits.iter().rev().take(EVIDENCE_MAX).cloned().collect();
        let text = format!("failed {} times within a minute: {}", exits.len(), exits.last()?);
        let help = format!("orchestrator tail {short} --kind exited");
        return Some((
            2,
            make("crash_loop", text, node.last_exit.as_ref().map(|exit| exit.at_ms), evidence, help),
        ));
    }
    if node.stuck {
        let text = node.in_progress.as_ref().map_or_else(
            || "its arbiter does not run".to_owned(),
            |work| format!("works on `{}` for {:.1} s", work.name, seconds(work.for_ms)),
        );
        return Some((
            3,
            make(
                "stuck",
                text,
                None,
                Vec::new(),
                format!("orchestrator tree {short}; see OrchestratorStuck in the runbook"),
            ),
        ));
    }
    if let Some(link) = node.link.as_ref().filter(|link| link.state == "down") {
        return Some((4, link_down(link, &make)));
    }
    if let Some(blocker) = &node.blocker {
        let cause = make(
            &blocker.kind,
            blocker.text.clone(),
            Some(blocker.since_ms),
            Vec::new(),
            blocker.help.clone(),
        );
        return Some((5, cause));
    }
    if ["backing_off", "starting", "stopping"].contains(&node.state.as_str()) && !has_ended {
        let exit = node.last_exit.as_ref();
        let text =
            exit.map_or_else(|| node.state.clone(), |exit| format!("{} after: {}", node.state, exit.reason));
        return Some((
            6,
            make(
                "starting",
                text,
                exit.map(|exit| exit.at_ms),
                Vec::new(),
                format!("orchestrator tree {short}"),
            ),
        ));
    }
    let full =
        node.mailboxes.iter().find(|mailbox| mailbox.capacity > 0 && mailbox.depth >= mailbox.capacity)?;
    let text = format!("`{}` is full: {} messages wait", full.name, full.depth);
    let evidence =
        full.messages.iter().max_by_key(|kind| kind.count).map(|kind| format!("mostly `{}`", kind.name));
    let help = format!("orchestrator top {short} --once");
    Some((7, make("mailbox_full", text, None, evidence.into_iter().collect(), help)))
}

fn link_down(
    link: &LinkSnapshot,
    make: &dyn Fn(&str, String, Option<u64>, Vec<String>, String) -> Cause,
) -> Cause {
    let reason = link.reason.as_deref().unwrap_or("no reason given");
    let text = format!("{} to {} is down: {reason}", link.kind, link.endpoint);
    let evidence = link.retry_in_ms.map(|ms| format!("next attempt in {:.1} s", seconds(ms)));
    let help = match link.kind.as_str() {
        "sqlite" if reason.contains("full") => format!("df -h {}", link.endpoint),
        "sqlite" => format!("fuser -v {}", link.endpoint),
        "inotify" | "unix socket" => format!("ls -ld {}", link.endpoint),
        _ => format!("check that {} runs and is reachable", link.endpoint),
    };
    make("link_down", text, link.since_ms, evidence.into_iter().collect(), help)
}

fn seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}
