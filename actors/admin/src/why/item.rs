//! What is known of one item: the answers of all consoles, with the causes that hold up the children at which
//! it waits.

use futures_util::future::join_all;
use orchestrator_observe::{NodeSnapshot, TreeSnapshot, is_in_branch, without_root};
use orchestrator_subsystem::{
    Console, ConsoleVerb, Explain, Explained, Item, NextChance, Progress, Verb, WhyItem,
    item::Asked,
    wire::{Cause, SubsystemCauses},
};
use orchestrator_supervise::State;
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
        asked: Vec::new(),
    };
    let causes = describe_all(context, &snapshot, &snapshot.root.children);
    ask(context, &snapshot, name, &mut answer).await;
    let others: Vec<_> = answer.found.iter().flat_map(|item| item.continues_as.clone()).collect();
    for other in others {
        if answer.found.iter().all(|item| item.name != other) {
            ask(context, &snapshot, &other, &mut answer).await;
        }
    }
    if !answer.found.is_empty() {
        answer.nearest.clear();
        answer.asked.retain(|console| console.no_answer.is_some());
    }
    for item in answer.found.iter_mut().filter(|item| item.progress == Progress::Waits) {
        add_causes(item, causes_at(&item.path.clone(), &snapshot, &causes).collect());
    }
    for console in &mut answer.asked {
        console.causes = causes_of_subsystem(&console.path, &causes).cloned().collect();
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

/// Asks all consoles at the same time, or those of the subsystem whose name is before the first slash; they
/// get the rest.
async fn ask(context: &HandlerContext, snapshot: &TreeSnapshot, name: &str, answer: &mut WhyItem) {
    let verbs = Console::all_verbs(&context.tree).into_iter();
    let mut consoles: Vec<_> = verbs.filter(|(_, verb)| verb.name() == Explain::NAME).collect();
    let own = name.split_once('/');
    let own = own.filter(|(first, _)| consoles.iter().any(|(path, _)| subsystem_of(path) == *first));
    if let Some((subsystem, _)) = own {
        consoles.retain(|(path, _)| subsystem_of(path) == subsystem);
    }
    let name = own.map_or(name, |(_, rest)| rest);
    let questions = consoles.iter().map(|(path, verb)| async move {
        match snapshot.root.find(path).map(|node| node.state) {
            Some(State::Running | State::Paused) => question(verb, name).await,
            // It would not answer within the time limit.
            state => {
                Err(format!("it is {}", state.map_or_else(|| "gone".to_owned(), |state| state.to_string())))
            }
        }
    });
    let answers = join_all(questions).await;
    for ((path, _), explained) in consoles.into_iter().zip(answers) {
        let (searched, no_answer) = match explained {
            Ok(Explained { found, nearest, searched }) => {
                answer.found.extend(found);
                let full = |name: &String| format!("{}/{name}", subsystem_of(&path));
                answer.nearest.extend(nearest.iter().map(full));
                (searched, None)
            }
            Err(reason) => (String::new(), Some(reason)),
        };
        if no_answer.is_some() || !searched.is_empty() {
            answer.asked.push(Asked { path, searched, no_answer, causes: Vec::new() });
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

/// The causes of the subsystem of the child at `path`, without those of healthy days.
fn causes_of_subsystem<'a>(path: &str, branches: &'a [SubsystemCauses]) -> impl Iterator<Item = &'a Cause> {
    let of_branch = branches.iter().find(|branch| is_in_branch(path, &branch.path));
    of_branch.into_iter().flat_map(|branch| &branch.causes).filter(|cause| !cause.routine)
}

/// Those that hold up the child.
fn causes_at<'a>(
    path: &'a str,
    snapshot: &'a TreeSnapshot,
    branches: &'a [SubsystemCauses],
) -> impl Iterator<Item = Cause> {
    let branch = snapshot.root.children.iter().find(|branch| is_in_branch(path, &branch.path));
    let causes = causes_of_subsystem(path, branches);
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
            // One that sends nothing watches the others.
            let is_source = of_cause > of_child && !branch.children[of_cause].sends_to.is_empty();
            cause.kind != "input_late" && is_pipeline && !is_source
        }
        _ => false,
    }
}
