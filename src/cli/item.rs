//! `orchestrator why ITEM`: where one item is, what it waits for, and when it is worked on.

use std::fmt::Write;

use orchestrator_observe::without_root;
use orchestrator_subsystem::{Item, NextChance, Progress, WhyItem, text::time_of_ms};

use super::{
    exit_code::ExitCode,
    why::{age, render_causes},
};

/// Exit code of the answer.
pub(super) fn code(answer: &WhyItem) -> ExitCode {
    let is_held =
        |item: &Item| item.progress == Progress::Waits && item.causes.iter().any(|cause| !cause.routine);
    let WhyItem { found, asked, .. } = answer;
    if !found.is_empty() {
        return if found.iter().any(is_held) { ExitCode::Failure } else { ExitCode::Ok };
    }
    // Where no answer came from, the item may wait.
    let is_answered = asked.iter().all(|console| console.no_answer.is_none());
    if is_answered { ExitCode::Usage } else { ExitCode::Failure }
}

/// Text of the answer.
pub(super) fn render(answer: &WhyItem) -> String {
    let mut parts: Vec<_> = answer.found.iter().map(|item| render_item(item, answer.at_ms)).collect();
    let mut text = String::new();
    if answer.found.is_empty() && answer.asked.iter().any(|console| console.no_answer.is_some()) {
        let _ = writeln!(text, "no answer about {}", answer.item);
    } else if answer.found.is_empty() {
        let _ = writeln!(text, "nothing is known of {}", answer.item);
    }
    for name in &answer.nearest {
        let _ = writeln!(text, "  did you mean {name}?");
    }
    for console in &answer.asked {
        let path = without_root(&console.path);
        let _ = match &console.no_answer {
            Some(reason) => writeln!(text, "{path} gave no answer: {reason}"),
            None => writeln!(text, "{path} searched {}", console.searched),
        };
        text += &render_causes(&console.causes, answer.at_ms);
    }
    parts.extend((!text.is_empty()).then_some(text));
    // A blank line separates items.
    parts.join("\n")
}

fn render_item(item: &Item, now_ms: u64) -> String {
    let since = item.since_ms.map_or_else(String::new, |since| age(since, now_ms));
    let mut text = format!("{} {}: {}{since}\n", item.kind, item.name, item.text);
    text += &render_causes(&item.causes, now_ms);
    match &item.next {
        Some(NextChance::At { at_ms }) => _ = writeln!(text, "  next chance: at {}", time_of_ms(*at_ms)),
        Some(NextChance::NotBefore { at_ms }) => {
            let _ = writeln!(text, "  next chance: not before {}", time_of_ms(*at_ms));
        }
        Some(NextChance::Unknown { reason }) => {
            let _ = writeln!(text, "  next chance: unknown, {reason}");
        }
        Some(NextChance::Other) | None => {}
    }
    for fact in &item.evidence {
        let _ = writeln!(text, "  evidence: {fact}");
    }
    text
}
