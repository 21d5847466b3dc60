//! `GET /v1/why` and `/v1/why/{path}`: the causes that hold up work now, read from the tree and its events.
//! The metric `orchestrator_blocked` has the same causes. `GET /v1/why?item=..`: see `why_item.rs`.

mod activity;
mod event_facts;
mod facts;
mod finding;

use std::collections::BTreeSet;

use hyper::StatusCode;
use orchestrator_observe::{
    ClockJump, LinkStatus, NodeSnapshot, TreeSnapshot, clock_jump, is_in_branch, without_root,
};
use orchestrator_subsystem::wire::{Cause, SubsystemCauses, Why};
use orchestrator_supervise::CommandError;

use self::{
    activity::Activity,
    facts::Facts,
    finding::{Finding, Rank},
};
pub(crate) use self::{event_facts::EventFacts, finding::at};
use crate::{
    fault::reported_cause,
    handler_context::HandlerContext,
    peer_help::examine,
    process::ProcessUsage,
    readiness,
    request::{Reply, Request},
    response::{Response, json},
    timestamp::{rfc3339, seconds},
};

/// Time for which a jump of the clock is shown, in milliseconds.
const JUMP_SHOWN_MS: u64 = 600_000;

/// Causes of all children of the root, or of the branch at a path.
pub(crate) async fn why(request: Request) -> Reply {
    let (context, [path, _]) = (&request.context, &request.parameters);
    let snapshot = context.tree.snapshot();
    if path.is_empty() {
        let branches = describe_all(context, &snapshot, &snapshot.root.children);
        return Ok(answer(&snapshot, process(context, &snapshot).into_iter().chain(branches).collect()));
    }
    let branch = context.tree.resolve(path).and_then(|path| snapshot.root.find(&path));
    let branch = branch.ok_or_else(|| CommandError::NotFound(path.clone()))?;
    Ok(answer(&snapshot, describe_all(context, &snapshot, std::slice::from_ref(branch))))
}

/// Answers with the causes of each branch.
fn answer(snapshot: &TreeSnapshot, mut subsystems: Vec<SubsystemCauses>) -> Response {
    subsystems.sort_by_key(|branch| branch.causes.first().is_none_or(|cause| cause.kind != "given_up"));
    json(StatusCode::OK, &Why { at_ms: snapshot.captured_at_ms, subsystems })
}

pub(crate) fn causes(context: &HandlerContext, snapshot: &TreeSnapshot) -> impl Iterator<Item = Cause> {
    let branches = describe_all(context, snapshot, &snapshot.root.children);
    branches.into_iter().chain(process(context, snapshot)).flat_map(|branch| branch.causes)
}

/// Path and id of each present cause, for each child that it affects.
pub(crate) fn blocked(context: &HandlerContext, snapshot: &TreeSnapshot) -> BTreeSet<(String, String)> {
    let of_children = |Cause { kind, path, affects, .. }: Cause| {
        std::iter::once(path).chain(affects).map(move |path| (path, kind.clone()))
    };
    causes(context, snapshot).flat_map(of_children).collect()
}

/// Causes of the whole process, which no child reports, at the root. None if there are none.
fn process(context: &HandlerContext, snapshot: &TreeSnapshot) -> Option<SubsystemCauses> {
    let path = snapshot.root.path.clone();
    let memory = ProcessUsage::resident().and_then(|resident| context.state.memory.cause(snapshot, resident));
    let jumped = clock_jump().and_then(|jump| clock_jumped(snapshot, jump));
    let reload = context.state.program_info.reload.cause(&path);
    let stops = snapshot.root.blocker.as_ref().map(|blocker| reported_cause(&snapshot.root, blocker));
    let causes: Vec<_> = [stops, memory, jumped, reload].into_iter().flatten().collect();
    let is_any = !causes.is_empty();
    let (last_work, idle_since_ms, activity) = (None, None, String::new());
    is_any.then_some(SubsystemCauses { path, causes, last_work, idle_since_ms, activity })
}

/// The system's clock was set by a minute or more a short time ago.
fn clock_jumped(snapshot: &TreeSnapshot, jump: ClockJump) -> Option<Cause> {
    let age_ms = u64::try_from(jump.age.as_millis()).ok().filter(|age_ms| *age_ms <= JUMP_SHOWN_MS)?;
    let direction = if jump.by_ms > 0 { "forward" } else { "back" };
    let by = seconds(jump.by_ms.unsigned_abs());
    let help = "timedatectl; chronyc tracking".to_owned();
    let text = format!("the system clock jumped {direction} by {by:.0} s");
    let evidence = vec![
        format!(
            "times in the log and in events before {} are off by as much",
            rfc3339(snapshot.captured_at_ms.saturating_sub(age_ms))
        ),
        "holds and leases that other programs wrote end earlier or later".to_owned(),
    ];
    let since_ms = Some(snapshot.captured_at_ms.saturating_sub(age_ms));
    Some(Cause { since_ms, evidence, ..at(&snapshot.root, "clock_jumped", text, help) })
}

pub(crate) fn describe_all(
    context: &HandlerContext,
    snapshot: &TreeSnapshot,
    branches: &[NodeSnapshot],
) -> Vec<SubsystemCauses> {
    let now_ms = snapshot.captured_at_ms;
    let mut events = context.state.event_facts.lock();
    events.update(&context.tree, now_ms);
    let facts = Facts::new(snapshot, &events, context.state.console_pauses.lock().clone());
    let describe = |branch| {
        let mut described = describe(branch, &facts, &context.own_path);
        described.causes.extend(causes_elsewhere(branch, &snapshot.root, &facts));
        described
    };
    branches.iter().map(describe).collect()
}

/// Causes and activity of a branch. `own` is the path of the endpoint.
fn describe(branch: &NodeSnapshot, facts: &Facts<'_>, own: &str) -> SubsystemCauses {
    let mut causes = causes_of(branch, facts);
    if causes.iter().all(|cause| cause.kind == "starting") {
        causes.splice(0..0, not_ready(branch, own, facts.now_ms));
    }
    let Activity { last_work, idle_since_ms, text } = Activity::of(branch, facts.now_ms);
    let idle_since_ms = idle_since_ms.filter(|_| causes.is_empty());
    SubsystemCauses { path: branch.path.clone(), causes, last_work, idle_since_ms, activity: text }
}

/// Causes in a branch, by [`Rank`]. A fault is one cause, and children that are stuck because of it are none.
fn causes_of(branch: &NodeSnapshot, facts: &Facts<'_>) -> Vec<Cause> {
    let mut findings = Vec::new();
    branch.walk(&mut |node| findings.extend(Finding::of(node, facts)));
    let (faults, mut findings): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding: &Finding| finding.rank == Rank::Fault);
    let paths: BTreeSet<_> = faults.iter().map(|fault| fault.cause.path.as_str()).collect();
    let faults = facts.faults.grouped(|path| paths.contains(path));
    let waits_for_fault = |path: &String| faults.iter().any(|fault| fault.affects.contains(path));
    findings.retain(|finding| {
        !matches!(finding.rank, Rank::Stuck | Rank::MailboxFull) || !waits_for_fault(&finding.cause.path)
    });
    findings.extend(faults.into_iter().map(|cause| Finding { rank: Rank::Fault, cause }));
    findings.sort_by_key(|finding| finding.rank);
    findings.into_iter().map(|finding| finding.cause).collect()
}

/// Causes in other branches of the root for which a child of this one waits: the first cause of each that
/// holds up the answer.
fn causes_elsewhere(branch: &NodeSnapshot, root: &NodeSnapshot, facts: &Facts<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (name, wait) in
        facts.waiting.across(&branch.path).filter(|(_, wait)| wait.path.starts_with(&branch.path))
    {
        let on = root.children.iter().find(|child| child.id == name);
        let holds_up =
            |on: &NodeSnapshot| causes_of(on, facts).into_iter().find(|cause| holds_up(cause, on, &wait.on));
        let Some(first) = on.and_then(holds_up) else { continue };
        let text = format!("waits for {}: {}", without_root(&first.path), first.text);
        let evidence = std::iter::once(wait.text.clone()).chain(first.evidence).collect();
        let (kind, path) = ("waits_for_subsystem".to_owned(), wait.path.clone());
        causes.push(Cause { kind, path, text, evidence, affects: Vec::new(), ..first });
    }
    causes
}

/// True if a cause in a branch holds up the work of its child at `path`: it is there, above or below, it
/// affects that child, or the child sends its work through the one with the cause. Children of a pipeline
/// start in the order of its data flow, sinks first: those after the child bring work of their own, such as
/// lines of files.
pub(crate) fn holds_up(cause: &Cause, branch: &NodeSnapshot, path: &str) -> bool {
    let is_near = |other: &str| is_in_branch(path, other) || is_in_branch(other, path);
    if is_near(&cause.path) || cause.affects.iter().any(|other| is_near(other)) {
        return cause.kind != "input_late";
    }
    let place = |path: &str| branch.children.iter().position(|child| is_in_branch(path, &child.path));
    match (place(&cause.path), place(path)) {
        (Some(of_cause), Some(of_child)) if of_cause == of_child => {
            holds_up(cause, &branch.children[of_cause], path)
        }
        (Some(of_cause), Some(of_child)) => {
            let is_pipeline = branch.strategy.as_deref() == Some("rest_for_one");
            // One that sends nothing watches the others.
            let is_source = of_cause > of_child && !branch.children[of_cause].sends_to.is_empty();
            cause.kind != "input_late" && is_pipeline && !is_source
        }
        _ => false,
    }
}

/// Names the first child that keeps a branch from being ready. `own` is the path of the endpoint.
fn not_ready(branch: &NodeSnapshot, own: &str, now_ms: u64) -> Option<Cause> {
    let children = readiness::check(branch, own, now_ms);
    // A supervisor is not ready because of a child below it, which says more.
    let mut failed = children.iter().filter(|child| child.failure.is_some());
    let leaf =
        failed.clone().find(|child| branch.find(child.path).is_some_and(|node| node.children.is_empty()));
    let first = leaf.or_else(|| failed.next())?;
    let (path, reason) = (without_root(first.path), first.failure.as_ref()?);
    let text = format!("not ready because of {path}: {reason}");
    let link = branch
        .find(first.path)
        .and_then(|node| node.link.as_ref())
        .filter(|link| link.state != LinkStatus::Up);
    let help = link.map(|link| examine(&link.kind, &link.endpoint));
    Some(at(branch, "not_ready", text, help.unwrap_or_else(|| format!("orchestrator tree {path}"))))
}
