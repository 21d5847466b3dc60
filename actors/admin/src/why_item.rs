//! `GET /v1/why?item=..`: the answers of all consoles about one item, with the causes that hold up the
//! children at which it waits.

use futures_util::future::join_all;
use hyper::StatusCode;
use orchestrator_observe::{TreeSnapshot, is_in_branch, without_root};
use orchestrator_subsystem::{
    Console, ConsoleVerb, Explain, Explained, Item, NextChance, Progress, Verb, WhyItem,
    item::Asked,
    wire::{Cause, ErrorKind, SubsystemCauses},
};
use orchestrator_supervise::State;
use orchestrator_text::sanitize;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    api_error::ApiError,
    handler_context::HandlerContext,
    request::{Reply, Request},
    response::json,
    why::{describe_all, holds_up, why},
};

/// Longest name of an item, in bytes.
const NAME_MAX: usize = 4_096;

/// Parameters of the query; others are ignored.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Args {
    /// Tells what is known of this job, row, mapping, stencil, digest or dead letter instead, for example
    /// `python3Packages.requests` or `catalog/NAME/RULE/KEY`.
    item: Option<String>,
}

/// Causes of all children of the root, or an item.
pub(crate) async fn why_all(request: Request) -> Reply {
    let args: Args = request.query("the query may have item=NAME")?;
    let Some(name) = args.item else { return why(request).await };
    if name.is_empty() || name.len() > NAME_MAX {
        let message = format!("the name of an item has 1 to {} bytes", NAME_MAX);
        return Err(ApiError::new(ErrorKind::BadRequest, message));
    }
    Ok(json(StatusCode::OK, &explain(&request.context, &name).await))
}

/// Asks all consoles about an item, and then about the items that stand for it elsewhere.
async fn explain(context: &HandlerContext, name: &str) -> WhyItem {
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

#[cfg(test)]
mod tests {
    use orchestrator_supervise::{
        ChildSpec, Factory, Strategy, SupervisorSpec, inbox,
        testing::{TestTree, eventually},
    };

    use super::*;

    fn cause(path: &str, kind: &str, routine: bool) -> Cause {
        Cause { routine, ..Cause::new(kind, path, kind.to_owned(), String::new()) }
    }

    fn idle() -> Factory {
        Factory::task(async |cx: orchestrator_supervise::StartCx| {
            cx.stop.cancelled().await;
            Ok(())
        })
    }

    #[test]
    fn causes_at_sinks_and_watchers_of_a_pipeline_hold_up_a_child_and_those_at_sources_do_not() {
        let (lines, slot) = inbox::<u8>(1);
        let pipeline = SupervisorSpec::new(Strategy::RestForOne)
            .child(ChildSpec::worker("store", idle().with_inbox("lines", &slot)))
            .child(ChildSpec::worker("socket", idle()))
            .child(ChildSpec::worker("reader", idle()).waits_for(&lines))
            .child(ChildSpec::worker("watch", idle()));
        let beside = SupervisorSpec::new(Strategy::OneForOne)
            .child(ChildSpec::worker("one", idle()))
            .child(ChildSpec::worker("two", idle()));
        let tree = SupervisorSpec::new(Strategy::OneForOne)
            .child(ChildSpec::supervisor("queue", pipeline))
            .child(ChildSpec::supervisor("rules", beside));
        TestTree::run(tree, async |tree| {
            eventually("all to run", || {
                tree.node("rules/two").is_some_and(|node| node.state == State::Running)
            })
            .await;
            let root = tree.snapshot().root;
            let holds = |cause: &Cause, path: &str| {
                let branch = root.children.iter().find(|branch| is_in_branch(path, &branch.path));
                branch.is_some_and(|branch| holds_up(cause, branch, path))
            };
            let at = |path: &str| format!("{}/{path}", root.path);
            for (path, expected) in [
                ("queue", true),
                ("queue/store", true),
                ("queue/socket", true),
                ("queue/reader", false),
                ("queue/watch", true),
            ] {
                assert_eq!(holds(&cause(&at(path), "stuck", false), &at("queue/socket")), expected, "{path}");
            }
            assert!(!holds(&cause(&at("queue/store"), "input_late", false), &at("queue/socket")));
            assert!(!holds(&cause(&at("rules/one"), "stuck", false), &at("rules/two")));
            let affecting =
                Cause { affects: vec![at("rules/two")], ..cause(&at("rules/one"), "link_down", false) };
            assert!(holds(&affecting, &at("rules/two")));
        });
    }

    #[test]
    fn what_holds_up_everything_comes_before_what_is_usual_and_ends_at_an_unknown_time() {
        let item = |next| Item {
            causes: vec![cause("o/queue", "order", true)],
            next: Some(next),
            ..Item::new("job", "queue/a".to_owned(), "o/queue", Progress::Waits, String::new())
        };
        let mut found = item(NextChance::At { at_ms: 1 });
        add_causes(&mut found, vec![cause("o/queue", "paused", false)]);
        assert_eq!(
            found.causes.iter().map(|cause| cause.kind.as_str()).collect::<Vec<_>>(),
            ["paused", "order"]
        );
        assert_eq!(
            found.next,
            Some(NextChance::Unknown { reason: "it waits until this ends: paused".to_owned() })
        );
        let mut held = item(NextChance::NotBefore { at_ms: 9 });
        add_causes(&mut held, vec![cause("o/queue", "paused", false)]);
        assert_eq!(held.next, Some(NextChance::NotBefore { at_ms: 9 }), "that stays true");
        let mut free = item(NextChance::At { at_ms: 1 });
        add_causes(&mut free, Vec::new());
        assert_eq!(free.next, Some(NextChance::At { at_ms: 1 }));
    }
}
