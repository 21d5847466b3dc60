//! What is known of one item: the answers of all consoles, with the causes that hold up the children at which
//! it waits.

use futures_util::future::join_all;
use orchestrator_observe::{NodeSnapshot, TreeSnapshot, is_in_branch, without_root};
use orchestrator_subsystem::{
    Console, ConsoleVerb, Explain, Explained, Item, NextChance, Progress, Verb, WhyItem,
    item::Unanswered,
    wire::{Cause, SubsystemCauses},
};
use orchestrator_text::sanitize;

use super::describe_all;
use crate::handler_context::HandlerContext;

/// Longest name of an item, in bytes.
pub(super) const NAME_MAX: usize = 4_096;

/// Asks all consoles about an item, and then about the items that stand for it elsewhere.
pub(super) async fn explain(context: &HandlerContext, name: &str) -> WhyItem {
    let snapshot = context.tree.snapshot();
    let mut answer = WhyItem {
        at_ms: snapshot.captured_at_ms,
        item: sanitize(name),
        found: Vec::new(),
        nearest: Vec::new(),
        searched: Vec::new(),
        unanswered: Vec::new(),
    };
    let causes = describe_all(context, &snapshot, &snapshot.root.children);
    ask(context, name, &mut answer).await;
    let others: Vec<_> = answer.found.iter().flat_map(|item| item.continues_as.clone()).collect();
    for other in others {
        if answer.found.iter().all(|item| item.name != other) {
            ask(context, &other, &mut answer).await;
        }
    }
    if !answer.found.is_empty() {
        (answer.nearest, answer.searched) = (Vec::new(), Vec::new());
    }
    for item in answer.found.iter_mut().filter(|item| item.progress == Progress::Waits) {
        add_causes(item, causes_at(&item.path.clone(), &snapshot, &causes).collect());
    }
    for console in &mut answer.unanswered {
        console.causes = causes_at(&console.path, &snapshot, &causes).collect();
    }
    answer
}

/// Adds causes that hold up more than the item, before those of healthy days. They end at an unknown time.
fn add_causes(item: &mut Item, causes: Vec<Cause>) {
    let is_next = item.causes.iter().all(|cause| cause.routine);
    if let Some(first) =
        causes.first().filter(|_| is_next && !matches!(item.next, Some(NextChance::NotBefore { .. })))
    {
        item.next = Some(NextChance::Unknown { reason: format!("it waits until this ends: {}", first.text) });
    }
    item.causes.extend(causes);
    item.causes.sort_by_key(|cause| cause.routine);
}

/// Asks all consoles at the same time. Each gets the name without that of its subsystem, if it begins with it.
async fn ask(context: &HandlerContext, name: &str, answer: &mut WhyItem) {
    let consoles =
        Console::all_verbs(&context.tree).into_iter().filter(|(_, verb)| verb.name() == Explain::NAME);
    let questions = consoles.map(|(path, verb)| async move {
        let subsystem = subsystem_of(&path).to_owned();
        let own = name.strip_prefix(&subsystem).and_then(|rest| rest.strip_prefix('/'));
        let explained = question(&verb, own.unwrap_or(name)).await;
        (path, subsystem, own.is_some(), explained)
    });
    let answers = join_all(questions).await;
    let is_named = answers.iter().any(|(_, _, is_own, _)| *is_own);
    for (path, subsystem, is_own, explained) in answers {
        match explained {
            Ok(Explained { found, nearest, searched }) => {
                answer.found.extend(found);
                // Of the subsystem that the name begins with, if any.
                if is_own || !is_named {
                    answer.nearest.extend(nearest.iter().map(|name| format!("{subsystem}/{name}")));
                    answer
                        .searched
                        .extend((!searched.is_empty()).then(|| format!("{subsystem}: {searched}")));
                }
            }
            Err(reason) => answer.unanswered.push(Unanswered { path, reason, causes: Vec::new() }),
        }
    }
}

async fn question(verb: &ConsoleVerb, item: &str) -> Result<Explained, String> {
    let arguments =
        serde_json::to_value(Explain { item: item.to_owned() }).map_err(|error| error.to_string())?;
    let answer = verb.call(arguments).await.map_err(|error| error.to_string())?;
    let answer = answer.map_err(|error| error.to_string())?;
    serde_json::from_value(answer).map_err(|error| error.to_string())
}

fn subsystem_of(path: &str) -> &str {
    without_root(path).split('/').next().unwrap_or_default()
}

/// The causes of a subsystem that hold up its child at `path`, without those of healthy days.
fn causes_at<'a>(
    path: &'a str,
    snapshot: &'a TreeSnapshot,
    branches: &'a [SubsystemCauses],
) -> impl Iterator<Item = Cause> {
    let of_branch = branches.iter().find(|branch| is_in_branch(path, &branch.path));
    let branch = snapshot.root.children.iter().find(|branch| is_in_branch(path, &branch.path));
    let causes = of_branch.into_iter().flat_map(|branch| &branch.causes).filter(|cause| !cause.routine);
    causes.filter(move |cause| branch.is_some_and(|branch| holds_up(cause, branch, path))).cloned()
}

/// True if a cause in a branch holds up the work of its child at `path`: it is there, above or below, it
/// affects that child, or the child sends its work through the one with the cause. Children of a pipeline
/// start in the order of its data flow, sinks first: those after the child bring work of their own, such as
/// lines of files.
pub(super) fn holds_up(cause: &Cause, branch: &NodeSnapshot, path: &str) -> bool {
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
            cause.kind != "input_late" && is_pipeline && of_cause < of_child
        }
        _ => false,
    }
}
