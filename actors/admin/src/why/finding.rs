//! The cause that holds up one child, with its rank.

use orchestrator_observe::{ExpectedInputSnapshot, NodeSnapshot, without_root};
use orchestrator_subsystem::{until_text, wire::Cause};
use orchestrator_supervise::{Command, State};

use super::{event_facts::InEffect, facts::Facts};
use crate::{
    ascii::format_duration,
    fault::{reported_cause, state_of, works_on},
    peer_help::{examine_silent, name_of, place_of},
    timestamp::{rfc3339, seconds},
    waiting::branch_of,
};

/// Failed incarnations within a minute after which a child counts as failing again and again.
const CRASH_LOOP: usize = 3;
/// Time from which a mailbox of one message stands still, milliseconds. It is full whenever its senders are
/// faster than its reader.
const STANDS_STILL_MS: u64 = 5_000;
/// Events of a child that are shown as evidence.
const EVIDENCE_MAX: usize = 3;
/// Evidence of a pause whose operator is unknown here.
const EARLIER: &str = "paused before this start, or at another instance: its audit log names the operator";

/// Kinds of causes, the one with the largest effect first. Faults that a peer or the system reports come
/// before children that are busy or stuck because of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    GivenUp,
    Operator,
    CrashLoop,
    Fault,
    Stuck,
    InstanceDead,
    Blocked,
    Starting,
    MailboxFull,
    InputLate,
    NoInput,
}

/// Cause of a child.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) rank: Rank,
    pub(super) cause: Cause,
}

/// Finds the cause of one kind.
type Find = fn(&NodeSnapshot, &Facts<'_>) -> Option<Cause>;

/// Each kind of cause, in the order of [`Rank`].
const KINDS: [(Rank, Find); 9] = [
    (Rank::GivenUp, given_up),
    (Rank::Operator, steered),
    (Rank::CrashLoop, failing),
    (Rank::Fault, |node, facts| facts.faults.at(&node.path).cloned()),
    (Rank::Stuck, stuck),
    (Rank::Blocked, |node, _| node.blocker.as_ref().map(|blocker| reported_cause(node, blocker))),
    (Rank::Starting, restarting),
    (Rank::MailboxFull, overflowing),
    (Rank::InputLate, late_input),
];

impl Finding {
    /// The cause of a child with the largest effect. It has evidence, if only the state of the child.
    pub(super) fn of(node: &NodeSnapshot, facts: &Facts<'_>) -> Option<Self> {
        let (rank, mut cause) =
            KINDS.into_iter().find_map(|(rank, find)| Some((rank, find(node, facts)?)))?;
        if cause.evidence.is_empty() {
            cause.evidence.push(state_of(node));
        }
        let rank = match cause.kind.as_str() {
            // Its workers are gone, too.
            "instance_dead" => Rank::InstanceDead,
            // Work may come from elsewhere.
            "no_fetcher_files" => Rank::NoInput,
            _ => rank,
        };
        Some(Self { rank, cause })
    }
}

/// A cause at a child; path and help follow from the child.
pub(crate) fn at(node: &NodeSnapshot, kind: &str, text: String, help: String) -> Cause {
    Cause::new(kind, &node.path, text, help)
}

/// The child exceeded its restart intensity.
fn given_up(node: &NodeSnapshot, _: &Facts<'_>) -> Option<Cause> {
    let exit = node.last_exit.as_ref().filter(|_| node.state == State::GivenUp)?;
    let text = format!("given up: {}", exit.reason);
    let evidence = node.retry_in_ms.map(|ms| format!("tried again in {:.1} s", seconds(ms)));
    let path = without_root(&node.path);
    let help = format!("orchestrator crashes {path}; once the cause is gone, orchestrator start {path}");
    let evidence = evidence.into_iter().collect();
    Some(Cause { since_ms: Some(exit.at_ms), evidence, ..at(node, "given_up", text, help) })
}

/// An operator paused or stopped the child, or what it hands out.
fn steered(node: &NodeSnapshot, facts: &Facts<'_>) -> Option<Cause> {
    let command = facts.events.commands.get(&node.path);
    if let Some(blocker) = node.blocker.as_ref().filter(|blocker| blocker.kind == "paused") {
        let cause = reported_cause(node, blocker);
        let by = facts.console_pauses.get(&node.path).cloned().or(command.map(InEffect::text));
        return Some(Cause { evidence: vec![by.unwrap_or_else(|| EARLIER.to_owned())], ..cause });
    }
    let cause = match node.state {
        State::Paused => at(
            node,
            "paused",
            format!("paused by an operator{}", until_text(node.paused_until_ms)),
            format!("orchestrator resume {}", without_root(&node.path)),
        ),
        State::Stopped if command.is_some_and(|known| known.command == Command::Stop) => at(
            node,
            "stopped",
            "stopped by an operator".to_owned(),
            format!("orchestrator start {}", without_root(&node.path)),
        ),
        _ => return None,
    };
    let evidence = command.map(InEffect::text).into_iter().collect();
    Some(Cause { since_ms: command.map(|known| known.at_ms), evidence, ..cause })
}

/// The child failed repeatedly, and has not run for longer than the period of its restart intensity since
/// then.
fn failing(node: &NodeSnapshot, facts: &Facts<'_>) -> Option<Cause> {
    let exits = facts.events.exits.get(&node.path).filter(|exits| exits.len() >= CRASH_LOOP)?;
    let (last_ms, reason) = exits.last()?;
    let period_ms = facts.periods_ms.get(node.path.as_str());
    let runs_ms = facts.now_ms.saturating_sub(*last_ms);
    if node.state == State::Running && period_ms.is_some_and(|period_ms| runs_ms > *period_ms) {
        return None;
    }
    let text = format!("failed {} times within a minute: {reason}", exits.len());
    let evidence = exits.iter().rev().take(EVIDENCE_MAX).map(|(_, reason)| reason.clone()).collect();
    let since_ms = node.last_exit.as_ref().map(|exit| exit.at_ms);
    let help = format!("orchestrator crashes {}", without_root(&node.path));
    Some(Cause { since_ms, evidence, ..at(node, "crash_loop", text, help) })
}

fn stuck(node: &NodeSnapshot, facts: &Facts<'_>) -> Option<Cause> {
    if !node.stuck {
        return None;
    }
    // Its own link, or that of the subsystem for a child that has none.
    let own = node.link.as_ref().and_then(|link| Some((link.waits_ms?, link)));
    let waiting = own.or_else(|| facts.waiting_links.get(branch_of(&node.path)).copied());
    if let (Some((ms, link)), Some(work)) = (waiting, &node.in_progress)
        && ms >= work.silent_ms / 2
    {
        let (name, place) = (name_of(&link.kind), place_of(&link.kind, &link.endpoint));
        let text = format!("waits for {name} at {place} for {:.1} s", seconds(ms));
        let help = examine_silent(&link.kind, &link.endpoint);
        return Some(Cause { evidence: vec![works_on(work)], ..at(node, "stuck", text, help) });
    }
    let text = match &node.in_progress {
        Some(work) => works_on(work),
        None => format!("its arbiter {} does not run", node.arbiter.as_deref().unwrap_or("?")),
    };
    let silence = node.arbiter_silent_ms.map(|ms| format!("no progress for {:.1} s", seconds(ms)));
    let depth: usize = node.mailboxes.iter().map(|mailbox| mailbox.depth).sum();
    let waiting = (depth > 0).then(|| format!("{depth} messages wait"));
    let help = format!("orchestrator tree {}; OrchestratorStuck in the runbook", without_root(&node.path));
    let evidence = silence.into_iter().chain(waiting).collect();
    Some(Cause { evidence, ..at(node, "stuck", text, help) })
}

/// A child that starts, stops or waits for its next start.
fn restarting(node: &NodeSnapshot, _: &Facts<'_>) -> Option<Cause> {
    let waits = matches!(node.state, State::BackingOff | State::Starting | State::Stopping);
    // A supervisor waits for the children below it.
    if !waits || !node.children.is_empty() && node.state != State::BackingOff {
        return None;
    }
    let exit = node.last_exit.as_ref();
    let text = match exit {
        Some(exit) => format!("{} after: {}", node.state, exit.reason),
        None => node.state.to_string(),
    };
    let cause = at(node, "starting", text, format!("orchestrator tree {}", without_root(&node.path)));
    // The child's state says the same.
    Some(Cause { since_ms: exit.map(|exit| exit.at_ms), routine: true, ..cause })
}

/// Input of the child is late. The latest one is named first.
fn late_input(node: &NodeSnapshot, _: &Facts<'_>) -> Option<Cause> {
    let mut late: Vec<_> = node.expected_inputs.iter().filter(|input| input.late_ms > 0).collect();
    late.sort_by_key(|input| std::cmp::Reverse(input.late_ms));
    let first = late.first()?;
    let text = |input: &ExpectedInputSnapshot| {
        let [silent, every] =
            [input.every_ms.saturating_add(input.late_ms), input.every_ms].map(format_duration);
        format!("no input `{}` for {silent}, expected every {every}", input.name)
    };
    let others = late[1..].iter().take(EVIDENCE_MAX).map(|input| text(input));
    let last = format!("the last input, or the start of the program, was at {}", rfc3339(first.last_ms));
    let evidence = std::iter::once(last).chain(others).collect();
    let since_ms = Some(first.last_ms.saturating_add(first.every_ms));
    Some(Cause { since_ms, evidence, ..at(node, "input_late", text(first), first.help.clone()) })
}

fn overflowing(node: &NodeSnapshot, facts: &Facts<'_>) -> Option<Cause> {
    let stands_still = facts.waiting.for_room_ms(&node.path) >= STANDS_STILL_MS;
    let is_full = |depth, capacity| capacity > 0 && depth >= capacity && (capacity > 1 || stands_still);
    let full = node.mailboxes.iter().find(|one| is_full(one.depth, one.capacity))?;
    let text = format!("`{}` is full: {} messages wait", full.name, full.depth);
    let most = full.messages.iter().max_by_key(|kind| kind.count);
    let kind = most.map(|kind| format!("mostly `{}`", kind.name));
    let evidence = kind.into_iter().chain(facts.waiting.for_child(&node.path).iter().cloned()).collect();
    let help = format!("orchestrator top {} --once", without_root(&node.path));
    Some(Cause { evidence, routine: !stands_still, ..at(node, "mailbox_full", text, help) })
}
