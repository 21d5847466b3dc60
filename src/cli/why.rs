//! `orchestrator why`: the causes that hold up work now.

use std::fmt::Write;

use anstyle::AnsiColor;
use orchestrator_observe::without_root;
use orchestrator_subsystem::wire::{Cause, SubsystemCauses, Why};
use serde_json::Value;

/// Affected children that are named for each cause.
const AFFECTS_MAX: usize = 5;

pub(super) fn render(why: &Why) -> String {
    why.subsystems.iter().map(|branch| render_branch(branch, why.at_ms)).collect()
}

/// True if the response has a cause.
pub(super) fn is_blocked(response: &Value) -> bool {
    let branches = response["subsystems"].as_array().into_iter().flatten();
    branches.flat_map(|branch| branch["causes"].as_array().into_iter().flatten()).next().is_some()
}

/// Names the paused and blocked children, in lines such as `paused: orchestrator/queue/inotify: paused by an
/// operator`, except those in `readiness`, the lines of `/readyz`.
pub(super) fn held_lines(why: &Why, readiness: &str) -> String {
    let causes = why.subsystems.iter().flat_map(|branch| &branch.causes);
    let is_new = |cause: &&Cause| !readiness.contains(&format!(": {}:", cause.path));
    causes
        .filter(|cause| !cause.routine && cause.kind != "not_ready")
        .filter(is_new)
        .map(|Cause { kind, path, text, .. }| {
            let state = if kind == "paused" { kind } else { "blocked" };
            format!("{state}: {path}: {text}\n")
        })
        .collect()
}

/// Colours of the lines of [`render`]: green without a cause, red for a cause.
pub(super) fn line_colours(text: &str) -> Vec<Option<AnsiColor>> {
    let colour = |line: &str| match line.trim_start().split_once(". ") {
        Some((number, _)) if line.starts_with("  ") && number.parse::<u32>().is_ok() => Some(AnsiColor::Red),
        _ if line.contains(": nothing holds up work") && !line.starts_with(' ') => Some(AnsiColor::Green),
        _ => None,
    };
    text.lines().map(colour).collect()
}

fn render_branch(branch: &SubsystemCauses, now_ms: u64) -> String {
    let path = without_root(&branch.path);
    if branch.causes.is_empty() {
        let activity = match &*branch.activity {
            "" => String::new(),
            text => format!(": {text}"),
        };
        return format!("{path}: nothing holds up work{activity}\n");
    }
    format!("{path}:\n{}", render_causes(&branch.causes, now_ms))
}

/// Numbers the causes. Each has its evidence, the children that it affects, and what helps.
pub(super) fn render_causes(causes: &[Cause], now_ms: u64) -> String {
    let mut text = String::new();
    for (number, cause) in causes.iter().enumerate() {
        let age = cause.since_ms.map_or_else(String::new, |since| age(since, now_ms));
        let _ = writeln!(text, "  {}. {}: {}{age}", number + 1, without_root(&cause.path), cause.text);
        for fact in &cause.evidence {
            let _ = writeln!(text, "     evidence: {fact}");
        }
        if !cause.affects.is_empty() {
            let shown: Vec<_> =
                cause.affects.iter().take(AFFECTS_MAX).map(|path| without_root(path)).collect();
            let left = cause.affects.len().saturating_sub(AFFECTS_MAX);
            let more = if left > 0 { format!(" and {left} more") } else { String::new() };
            let _ = writeln!(text, "     affects: {}{more}", shown.join(", "));
        }
        let _ = writeln!(text, "     do: {}", cause.help);
    }
    text
}

/// Time since `since_ms`, in brackets.
pub(super) fn age(since_ms: u64, now_ms: u64) -> String {
    format!(" (for {} s)", now_ms.saturating_sub(since_ms) / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_numbered_with_evidence_and_help() {
        let cause = Cause {
            kind: "paused".to_owned(),
            path: "orchestrator/queue/inotify".to_owned(),
            text: "paused by an operator".to_owned(),
            since_ms: Some(1_000),
            evidence: vec!["pause by alice: disk".to_owned()],
            help: "orchestrator resume queue/inotify".to_owned(),
            affects: (1..=7).map(|number| format!("orchestrator/queue/{number}")).collect(),
            routine: false,
        };
        let branch = |path: &str, causes, activity: &str| SubsystemCauses {
            path: path.to_owned(),
            causes,
            last_work: None,
            idle_since_ms: None,
            activity: activity.to_owned(),
        };
        let subsystems = vec![
            branch("orchestrator/queue", vec![cause], "last job 9.0 s ago"),
            branch("orchestrator/catalog", Vec::new(), "last row 0.2 s ago"),
            branch("orchestrator/admin", Vec::new(), ""),
        ];
        let held = held_lines(&Why { at_ms: 5_000, subsystems: subsystems.clone() }, "ok\n");
        assert_eq!(held, "paused: orchestrator/queue/inotify: paused by an operator\n");
        let expected = "queue:\n  1. queue/inotify: paused by an operator (for 4 s)\n     \
            evidence: pause by alice: disk\n     affects: queue/1, queue/2, queue/3, queue/4, queue/5 and 2 more\n     \
            do: orchestrator resume queue/inotify\n\
            catalog: nothing holds up work: last row 0.2 s ago\n\
            admin: nothing holds up work\n";
        assert_eq!(render(&Why { at_ms: 5_000, subsystems }), expected);
        let (red, green) = (Some(AnsiColor::Red), Some(AnsiColor::Green));
        let colours = [None, red, None, None, None, green, green];
        assert_eq!(line_colours(expected), colours);
    }
}
