//! `GET /v1/why` and `/v1/why/{path}`: the causes that hold up work now, read from the tree and its events.

mod activity;
mod event_facts;

use std::collections::BTreeMap;

use actix_web::{
    HttpResponse,
    web::{Data, Path},
};
use orchestrator_subsystem::wire::{Cause, SubsystemCauses, Why};
use orchestrator_supervise::{
    BlockerSnapshot, Command, CommandError, InProgressSnapshot, LinkSnapshot, NodeSnapshot, TreeSnapshot,
    without_root,
};

use self::activity::{Activity, seconds};
pub(crate) use self::event_facts::EventFacts;
use crate::{api_error::ApiError, handler_context::HandlerContext, readiness, waiting::Waiting};

/// Restarts within a minute after which a child counts as failing again and again.
const CRASH_LOOP: usize = 3;
/// Time within which a blocker and a lost link have the same cause, in milliseconds.
const NEARLY_MS: u64 = 1_000;
/// Events of a child that are shown as evidence.
const EVIDENCE_MAX: usize = 3;

/// Returns the causes of all children of the root, or of the branch at a path.
pub(crate) async fn why(
    context: Data<HandlerContext>,
    path: Option<Path<String>>,
) -> Result<HttpResponse, ApiError> {
    let snapshot = context.tree.snapshot();
    let Some(path) = path else { return Ok(answer(&context, &snapshot, &snapshot.root.children)) };
    let branch = context.tree.resolve(&path).and_then(|path| snapshot.root.find(&path));
    let branch = branch.ok_or_else(|| CommandError::NotFound(path.to_string()))?;
    Ok(answer(&context, &snapshot, std::slice::from_ref(branch)))
}

/// Answers with the causes of each branch.
fn answer(context: &HandlerContext, snapshot: &TreeSnapshot, branches: &[NodeSnapshot]) -> HttpResponse {
    let at_ms = snapshot.captured_at_ms;
    let waiting = Waiting::of(&snapshot.root, at_ms);
    let console_pauses = context.state.console_pauses.lock().clone();
    let mut events = context.state.event_facts.lock();
    events.update(&context.tree, at_ms);
    let facts = Facts { events: &events, console_pauses, waiting };
    let own = &context.own_path;
    let describe = |branch| {
        let mut described = describe(branch, &facts, at_ms, own);
        described.causes.extend(causes_elsewhere(branch, &snapshot.root, &facts));
        described
    };
    let mut subsystems: Vec<_> = branches.iter().map(describe).collect();
    subsystems.sort_by_key(|branch| branch.causes.first().is_none_or(|cause| cause.kind != "given_up"));
    HttpResponse::Ok().json(Why { at_ms, subsystems })
}

/// Facts that the events and the waits add to the tree.
struct Facts<'a> {
    events: &'a EventFacts,
    /// Operator and reason of each console's pause.
    console_pauses: BTreeMap<String, String>,
    /// Children that wait for each other.
    waiting: Waiting,
}

/// Causes and activity of a branch. `own` is the path of the endpoint.
fn describe(branch: &NodeSnapshot, facts: &Facts<'_>, now_ms: u64, own: &str) -> SubsystemCauses {
    let mut causes = causes_of(branch, facts);
    if causes.iter().all(|cause| cause.kind == "starting") {
        causes.splice(0..0, not_ready(branch, own));
    }
    let Activity { last_work, idle_since_ms, text } = Activity::of(branch, now_ms);
    let idle_since_ms = idle_since_ms.filter(|_| causes.is_empty());
    SubsystemCauses { path: branch.path.clone(), causes, last_work, idle_since_ms, activity: text }
}

/// Causes in a branch, in the order of [`cause`]: given up, deadlock, operator command, crash loop, peer away, stuck, blocker,
/// restart, full mailbox.
fn causes_of(branch: &NodeSnapshot, facts: &Facts<'_>) -> Vec<Cause> {
    let mut ranked = Vec::new();
    branch.walk(&mut |node| ranked.extend(cause(node, facts)));
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, cause)| cause).collect()
}

/// Causes in other branches of the root for which a child of this one waits: the first cause of each.
fn causes_elsewhere(branch: &NodeSnapshot, root: &NodeSnapshot, facts: &Facts<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (name, wait) in
        facts.waiting.across(&branch.path).filter(|(_, wait)| wait.path.starts_with(&branch.path))
    {
        let on = root.children.iter().find(|child| child.id == name);
        let Some(first) = on.and_then(|on| causes_of(on, facts).into_iter().next()) else { continue };
        let text = format!("waits for {}: {}", without_root(&first.path), first.text);
        let evidence = std::iter::once(wait.text.clone()).chain(first.evidence).collect();
        let (kind, path) = ("waits_for_subsystem".to_owned(), wait.path.clone());
        causes.push(Cause { kind, path, text, since_ms: first.since_ms, evidence, help: first.help });
    }
    causes
}

/// Names the first child that keeps a branch from being ready. `own` is the path of the endpoint.
fn not_ready(branch: &NodeSnapshot, own: &str) -> Option<Cause> {
    let children = readiness::check(branch, own);
    // A supervisor is not ready because of a child below it, which says more.
    let mut failed = children.iter().filter(|child| child.failure.is_some());
    let leaf =
        failed.clone().find(|child| branch.find(child.path).is_some_and(|node| node.children.is_empty()));
    let first = leaf.or_else(|| failed.next())?;
    let (path, reason) = (without_root(first.path), first.failure.as_ref()?);
    let text = format!("not ready because of {path}: {reason}");
    Some(at(branch, "not_ready", text, format!("orchestrator tree {path}")))
}

/// The first cause of a child with its rank, smallest first.
fn cause(node: &NodeSnapshot, facts: &Facts<'_>) -> Option<(u8, Cause)> {
    let found: [fn(&NodeSnapshot, &Facts<'_>) -> Option<Cause>; 9] =
        [given_up, deadlocked, steered, failing, unreachable, stuck, blocked, restarting, overflowing];
    (0..).zip(found).find_map(|(rank, find)| find(node, facts).map(|cause| (rank, cause)))
}

/// A cause at a child; path and help follow from the child.
fn at(node: &NodeSnapshot, kind: &str, text: String, help: String) -> Cause {
    Cause { kind: kind.to_owned(), path: node.path.clone(), text, since_ms: None, evidence: Vec::new(), help }
}

/// The child exceeded its restart intensity.
fn given_up(node: &NodeSnapshot, _: &Facts<'_>) -> Option<Cause> {
    let exit = node.last_exit.as_ref().filter(|_| node.state == "given_up")?;
    let text = format!("given up: {}", exit.reason);
    let evidence = node.retry_in_ms.map(|ms| format!("tried again in {:.1} s", seconds(ms)));
    let path = without_root(&node.path);
    let help = format!("orchestrator crashes {path}; once the cause is gone, orchestrator start {path}");
    let evidence = evidence.into_iter().collect();
    Some(Cause { since_ms: Some(exit.at_ms), evidence, ..at(node, "given_up", text, help) })
}

/// The child waits for a child that waits for it.
fn deadlocked(node: &NodeSnapshot, facts: &Facts<'_>) -> Option<Cause> {
    facts.waiting.deadlock_of(&node.path)
}

/// An operator paused or stopped the child, or what it hands out.
fn steered(node: &NodeSnapshot, facts: &Facts<'_>) -> Option<Cause> {
    let command = facts.events.commands.get(&node.path);
    if let Some(blocker) = node.blocker.as_ref().filter(|blocker| blocker.kind == "paused") {
        let cause = reported(node, blocker);
        let by = facts.console_pauses.get(&node.path).or(command.map(|known| &known.text)).cloned();
        return Some(Cause { evidence: by.into_iter().chain(cause.evidence).collect(), ..cause });
    }
    let cause = match node.state.as_str() {
        "paused" => at(
            node,
            "paused",
            "paused by an operator".to_owned(),
            format!("orchestrator resume {}", without_root(&node.path)),
        ),
        "stopped" if command.is_some_and(|known| known.command == Command::Stop) => at(
            node,
            "stopped",
            "stopped by an operator".to_owned(),
            format!("orchestrator start {}", without_root(&node.path)),
        ),
        _ => return None,
    };
    let evidence = command.map(|known| known.text.clone()).into_iter().collect();
    Some(Cause { since_ms: command.map(|known| known.at_ms), evidence, ..cause })
}

fn failing(node: &NodeSnapshot, facts: &Facts<'_>) -> Option<Cause> {
    let exits = facts.events.exits.get(&node.path).filter(|exits| exits.len() >= CRASH_LOOP)?;
    let text = format!("failed {} times within a minute: {}", exits.len(), exits.last()?.1);
    let evidence = exits.iter().rev().take(EVIDENCE_MAX).map(|(_, reason)| reason.clone()).collect();
    let since_ms = node.last_exit.as_ref().map(|exit| exit.at_ms);
    let help = format!("orchestrator crashes {}", without_root(&node.path));
    Some(Cause { since_ms, evidence, ..at(node, "crash_loop", text, help) })
}

fn stuck(node: &NodeSnapshot, _: &Facts<'_>) -> Option<Cause> {
    let text = node.stuck.then(|| match &node.in_progress {
        Some(work) => works_on(work),
        None => format!("its arbiter {} does not run", node.arbiter.as_deref().unwrap_or("?")),
    })?;
    let silence = node.arbiter_silent_ms.map(|ms| format!("no progress for {:.1} s", seconds(ms)));
    let depth: usize = node.mailboxes.iter().map(|mailbox| mailbox.depth).sum();
    let waiting = (depth > 0).then(|| format!("{depth} messages wait"));
    let help = format!("orchestrator tree {}; OrchestratorStuck in the runbook", without_root(&node.path));
    let evidence = silence.into_iter().chain(waiting).collect();
    Some(Cause { evidence, ..at(node, "stuck", text, help) })
}

/// The peer is away or does not answer, which also explains work that waits for it.
fn unreachable(node: &NodeSnapshot, _: &Facts<'_>) -> Option<Cause> {
    let link = node.link.as_ref().filter(|link| ["down", "unanswered"].contains(&link.state.as_str()))?;
    let is_silent = link.state == "unanswered";
    // What the child reports since then says more about its peer than the link does.
    let is_about_peer = |blocker: &&BlockerSnapshot| {
        Some(blocker.since_ms) >= link.since_ms.map(|ms| ms.saturating_sub(NEARLY_MS))
    };
    if let Some(blocker) = node.blocker.as_ref().filter(|_| !is_silent).filter(is_about_peer) {
        return Some(reported(node, blocker));
    }
    let reason = link.reason.as_deref().unwrap_or("no reason given");
    let (kind, text) = match is_silent {
        true => ("unanswered", format!("{} at {} {reason}", name_of(&link.kind), link.endpoint)),
        false => ("link_down", format!("{} to {} is down: {reason}", link.kind, link.endpoint)),
    };
    let stuck_in = node.in_progress.as_ref().filter(|_| node.stuck).map(works_on);
    let evidence = stuck_in.into_iter().chain(next_attempt(link)).collect();
    Some(Cause { since_ms: link.since_ms, evidence, ..at(node, kind, text, help_with(link)) })
}

/// Name of a kind of peer in a sentence.
fn name_of(kind: &str) -> &str {
    match kind {
        "amqp" | "rabbitmq" => "RabbitMQ",
        "ermrest" => "ERMrest",
        "faktory" => "Faktory",
        "mongodb" => "MongoDB",
        "postgres" => "PostgreSQL",
        "redis" => "Redis",
        other => other,
    }
}

fn works_on(work: &InProgressSnapshot) -> String {
    format!("works on `{}` for {:.1} s", work.name, seconds(work.for_ms))
}

fn next_attempt(link: &LinkSnapshot) -> Option<String> {
    link.retry_in_ms.map(|ms| format!("next attempt in {:.1} s", seconds(ms)))
}

/// Returns the command or check that helps with the peer of a link.
fn help_with(link: &LinkSnapshot) -> String {
    let reason = link.reason.as_deref().unwrap_or_default();
    match link.kind.as_str() {
        "sqlite" if reason.contains("full") || reason.contains("no space") => {
            format!("df -h {}", link.endpoint)
        }
        "sqlite" => format!("fuser -v {}", link.endpoint),
        "amqp" | "rabbitmq" => format!("rabbitmqctl status; check that the broker runs at {}", link.endpoint),
        "inotify" | "unix socket" => format!("ls -ld {}", link.endpoint),
        _ => format!("check that {} runs and is reachable", link.endpoint),
    }
}

fn blocked(node: &NodeSnapshot, _: &Facts<'_>) -> Option<Cause> {
    node.blocker.as_ref().map(|blocker| reported(node, blocker))
}

fn reported(node: &NodeSnapshot, blocker: &BlockerSnapshot) -> Cause {
    let cause = at(node, &blocker.kind, blocker.text.clone(), blocker.help.clone());
    Cause { since_ms: Some(blocker.since_ms), evidence: blocker.evidence.clone(), ..cause }
}

/// A child that starts, stops or waits for its next start.
fn restarting(node: &NodeSnapshot, _: &Facts<'_>) -> Option<Cause> {
    let waits = ["backing_off", "starting", "stopping"].contains(&node.state.as_str());
    // A supervisor waits for the children below it.
    if !waits || !node.children.is_empty() && node.state != "backing_off" {
        return None;
    }
    let exit = node.last_exit.as_ref();
    let text = match exit {
        Some(exit) => format!("{} after: {}", node.state, exit.reason),
        None => node.state.clone(),
    };
    let cause = at(node, "starting", text, format!("orchestrator tree {}", without_root(&node.path)));
    Some(Cause { since_ms: exit.map(|exit| exit.at_ms), ..cause })
}

fn overflowing(node: &NodeSnapshot, facts: &Facts<'_>) -> Option<Cause> {
    let full = node.mailboxes.iter().find(|one| one.capacity > 0 && one.depth >= one.capacity)?;
    let text = format!("`{}` is full: {} messages wait", full.name, full.depth);
    let most = full.messages.iter().max_by_key(|kind| kind.count);
    let kind = most.map(|kind| format!("mostly `{}`", kind.name));
    let evidence = kind.into_iter().chain(facts.waiting.for_child(&node.path).iter().cloned()).collect();
    let help = format!("orchestrator top {} --once", without_root(&node.path));
    Some(Cause { evidence, ..at(node, "mailbox_full", text, help) })
}
