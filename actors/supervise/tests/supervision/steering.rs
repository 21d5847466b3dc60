//! Commands: effect, answer and record.

use std::time::Duration;

use crate::probe::*;
use orchestrator_observe::EventKind;
use orchestrator_supervise::{
    Backoff, ChildSpec, Command, CommandError, Factory, Fault, Limits, Origin, PauseSpan, Placement, Root,
    StartCx, State, StateChange, Strategy, SupervisorSpec, Tree,
    testing::{TestTree, eventually},
};
use tokio::sync::{mpsc, oneshot};

fn spec() -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient())
}

async fn refusal(tree: &Tree, path: &str, verb: Command) -> String {
    tree.command(path, verb, &origin()).await.unwrap_err().to_string()
}

#[test]
fn commands_return_the_state_change() {
    TestTree::run(spec().child(journaling("a", &Journal::default()).1), async |tree| {
        use State::{Running, Stopped};
        for (verb, before, after) in [
            (Command::Restart, Running, Running),
            (Command::Stop, Running, Stopped),
            (Command::Stop, Stopped, Stopped),
            (Command::Start, Stopped, Running),
            (Command::Stop, Running, Stopped),
            (Command::Restart, Stopped, Running),
        ] {
            // With and without the root's name, with and without slashes.
            let path = if before == Running { "test/a" } else { "/a/" };
            assert_eq!(
                tree.command(path, verb, &origin()).await,
                Ok(StateChange { before, after, acts_later: false })
            );
        }
        assert_eq!(tree.node("a").unwrap().incarnation, 4);
    });
}

#[test]
fn refusals_say_what_to_do() {
    let inner = spec().child(journaling("x", &Journal::default()).1);
    let spec =
        spec().child(journaling("a", &Journal::default()).1).child(ChildSpec::supervisor("inner", inner));
    TestTree::run(spec, async |tree| {
        let not_found = tree.command("b", Command::Stop, &origin()).await;
        assert_eq!(not_found, Err(CommandError::NotFound("b".to_owned())));
        assert_eq!(refusal(&tree, "a", Command::Start).await, "`test/a` is running already: use restart");
        assert!(refusal(&tree, "test", Command::Restart).await.contains("the root cannot be commanded"));
        command(&tree, "a", Command::Stop).await;
        assert_eq!(refusal(&tree, "a", Command::Panic).await, "`test/a` does not run: start it first");
        command(&tree, "inner", Command::Stop).await;
        let text = "the supervisor of `test/inner/x` does not run: start `test/inner` first";
        assert_eq!(refusal(&tree, "inner/x", Command::Start).await, text);
    });
}

/// A child that fails to start and is given up is tried again much later: its operator does not wait for it.
#[test]
fn a_start_that_fails_for_good_is_reported_at_once() {
    let config = ProbeConfig {
        on_start: Some(|cx| {
            if cx.incarnation() > 1 {
                cx.fail(Fault::new("no room"));
            }
        }),
        ..ProbeConfig::default()
    };
    let (_mailbox, child) = probe("a", &config);
    let later = Backoff { first: LONG, max: LONG };
    let spec = SupervisorSpec::new(Strategy::OneForOne).limits(limits(0, LONG)).give_up_alone(later);
    TestTree::run(spec.child(child).child(journaling("b", &Journal::default()).1), async |tree| {
        let text = "`test/a` ended before it was up: see its last exit in the tree";
        for _ in 0..2 {
            assert_eq!(refusal(&tree, "a", Command::Restart).await, text);
            assert_eq!(refusal(&tree, "a", Command::Start).await, text);
        }
        assert_eq!(tree.node("a").unwrap().last_exit.unwrap().reason, "failed: no room");
    });
}

#[test]
fn every_command_is_recorded_with_its_outcome() {
    TestTree::run(spec().child(journaling("a", &Journal::default()).1), async |tree| {
        let origin = Origin { by: "uid 0".to_owned(), reason: "drill".to_owned() };
        let _ = tree.command("a", Command::Restart, &origin).await;
        let _ = tree.command("a", Command::Pause(PauseSpan::default()), &origin).await;
        let noted: Vec<_> = events(&tree, "test/a")
            .into_iter()
            .filter_map(|event| match event {
                EventKind::Commanded { verb, by, reason, outcome } => Some([verb, by, reason, outcome]),
                _ => None,
            })
            .collect();
        assert_eq!(noted[0], ["restart", "uid 0", "drill", "ok"]);
        assert_eq!(noted[1][3], "`test/a` cannot be paused: only sources and pools can");
    });
}

/// An endpoint that restarts itself is dropped before the answer.
#[test]
fn a_command_is_recorded_when_its_caller_is_dropped() {
    TestTree::run(spec().child(journaling("a", &Journal::default()).1), async |tree| {
        let origin = origin();
        {
            let command = tree.command("a", Command::Restart, &origin);
            tokio::pin!(command);
            assert!(futures_util::poll!(&mut command).is_pending());
        }
        let noted = events(&tree, "test/a").into_iter().find_map(|event| match event {
            EventKind::Commanded { verb, outcome, .. } => Some((verb, outcome)),
            _ => None,
        });
        assert_eq!(noted, Some(("restart".to_owned(), "sent, effect not seen".to_owned())));
    });
}

#[test]
fn the_later_of_two_contradicting_commands_wins() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(spec().child(child), async |tree| {
        let (open, opened) = oneshot::channel::<()>();
        mailbox.tell(Do(Box::new(|_, cx| cx.atomically(opened, |_, _, _| ())))).unwrap();
        let origin = origin();
        let second = async {
            until_state(&tree, "a", "stopping").await;
            let release = async {
                eventually("the first is answered", || {
                    events(&tree, "test/a").iter().any(|e| matches!(e, EventKind::Commanded { .. }))
                })
                .await;
                drop(open);
            };
            tokio::join!(tree.command("a", Command::Restart, &origin), release).0
        };
        let (first, second) = tokio::join!(tree.command("a", Command::Stop, &origin), second);
        assert!(first.unwrap_err().to_string().contains("a later command for `test/a` contradicts this one"));
        assert_eq!(second.unwrap().after, State::Running);
    });
}

/// A command is not carried out after its caller gave up.
#[test]
fn an_abandoned_command_is_not_carried_out() {
    TestTree::run(spec().child(journaling("a", &Journal::default()).1), async |tree| {
        {
            let origin = origin();
            let mut given_up = std::pin::pin!(tree.command("a", Command::Stop, &origin));
            assert!(futures_util::poll!(given_up.as_mut()).is_pending());
        }
        assert_eq!(refusal(&tree, "a", Command::Start).await, "`test/a` is running already: use restart");
        assert_eq!(tree.node("a").unwrap().incarnation, 1);
    });
}

#[test]
fn restarting_a_supervisor_restarts_its_children_in_order() {
    let journal = Journal::default();
    let inner = spec().limits(limits(0, Duration::from_secs(1)));
    let inner = inner.child(journaling("x", &journal).1).child(journaling("y", &journal).1);
    TestTree::run(spec().child(ChildSpec::supervisor("inner", inner)), async |tree| {
        journal.clear();
        command(&tree, "inner", Command::Restart).await;
        let mut lines = journal.lines();
        lines.retain(|line| !line.ends_with("dropped"));
        assert_eq!(lines, ["y stopped", "x stopped", "x started", "y started"]);
        assert_eq!((tree.node("inner").unwrap().incarnation, state(&tree, "inner").as_str()), (2, "running"));
        let scheduled = |e: &EventKind| matches!(e, EventKind::RestartScheduled { .. });
        assert!(!events(&tree, "test/inner").iter().any(scheduled));
        // A restart command follows the strategy of the supervisor.
    });
}

#[test]
fn a_restart_command_follows_the_strategy() {
    let journal = Journal::default();
    let spec = SupervisorSpec::new(Strategy::RestForOne)
        .limits(limits(0, Duration::from_secs(1)))
        .child(journaling("a", &journal).1)
        .child(journaling("b", &journal).1)
        .child(journaling("c", &journal).1);
    TestTree::run(spec, async |tree| {
        command(&tree, "b", Command::Restart).await;
        until_incarnation(&tree, "c", 2).await;
        assert_eq!((tree.node("a").unwrap().incarnation, tree.node("b").unwrap().incarnation), (1, 2));
    });
}

#[test]
fn restarts_by_command_and_after_failures_are_counted_apart() {
    let inner = SupervisorSpec::new(Strategy::RestForOne).limits(limits(1, Duration::from_secs(60)));
    let inner =
        inner.child(journaling("x", &Journal::default()).1).child(journaling("y", &Journal::default()).1);
    let backoff = Backoff { first: Duration::from_secs(20), max: Duration::from_secs(20) };
    let slow = spec().limits(Limits { intensity: 1, period: Duration::from_secs(60), backoff });
    let slow = slow.child(journaling("z", &Journal::default()).1);
    let spec = spec().child(ChildSpec::supervisor("inner", inner)).child(ChildSpec::supervisor("slow", slow));
    TestTree::run(spec, async |tree| {
        let counts = |path: &str| {
            let node = tree.node(path).unwrap();
            (node.restarts, node.planned_restarts)
        };
        let all = || ["inner", "inner/x", "inner/y"].map(counts);
        command(&tree, "inner/x", Command::Restart).await;
        until_incarnation(&tree, "inner/y", 2).await;
        command(&tree, "inner", Command::Restart).await;
        for verb in [Command::Stop, Command::Start] {
            command(&tree, "inner/x", verb).await;
        }
        assert_eq!(all(), [(0, 1), (0, 3), (0, 2)]);
        command(&tree, "inner/x", Command::Panic).await;
        until_incarnation(&tree, "inner/y", 4).await;
        assert_eq!(all(), [(0, 1), (1, 3), (1, 2)], "a sibling's failure");
        command(&tree, "inner/x", Command::Panic).await;
        until_incarnation(&tree, "inner/y", 5).await;
        assert_eq!(all(), [(1, 1), (2, 3), (2, 2)], "the supervisor's failure");
        // A command only hastens the restart after a failure.
        command(&tree, "slow/z", Command::Panic).await;
        until_state(&tree, "slow/z", "backing_off").await;
        command(&tree, "slow/z", Command::Restart).await;
        assert_eq!(counts("slow/z"), (1, 0));
    });
}

#[test]
fn a_child_can_restart_its_siblings() {
    let journal = Journal::default();
    let (ask, asked) = mpsc::channel::<()>(1);
    let asked = std::sync::Arc::new(tokio::sync::Mutex::new(asked));
    let sibling = Factory::task(move |cx: StartCx| {
        let asked = asked.clone();
        async move {
            while asked.lock().await.recv().await.is_some() {
                let origin = Origin { by: cx.vitals.path().to_owned(), reason: "new mapping".to_owned() };
                cx.tree.request_restart("group", &origin).unwrap();
            }
            Ok(())
        }
    });
    let group = SupervisorSpec::new(Strategy::OneForAll)
        .child(journaling("work", &journal).1)
        .child(journaling("assign", &journal).1);
    let spec = spec()
        .child(journaling("accept", &journal).1)
        .child(ChildSpec::supervisor("group", group))
        .child(ChildSpec::worker("sibling", sibling).shutdown(deadline(1)));
    TestTree::run(spec, async |tree| {
        for incarnation in 2..4 {
            ask.send(()).await.unwrap();
            until_incarnation(&tree, "group/assign", incarnation).await;
            until_incarnation(&tree, "group", incarnation).await;
        }
        assert_eq!(tree.node("accept").unwrap().incarnation, 1);
        let work = tree.node("group/work").unwrap();
        assert_eq!((work.restarts, work.planned_restarts), (0, 2));
        assert_eq!(journal.count("work stopped"), 2);
    });
}

#[test]
fn chaos_is_refused_unless_allowed() {
    actix_rt::System::new().block_on(async {
        let spec = spec().child(journaling("a", &Journal::default()).1);
        let mut root = Root::start("test", spec).await.unwrap();
        assert_eq!(refusal(root.tree(), "a", Command::Panic).await, "the tree allows no panic");
        root.stop().await;
    });
}

#[test]
fn a_freeze_shows_the_arbiter_as_stuck() {
    let spec = spec().child(journaling("a", &Journal::default()).1.placement(Placement::Dedicated));
    TestTree::run(spec, async |tree| {
        command(&tree, "a", Command::Freeze).await;
        let stuck = |tree: &Tree| tree.node("a").unwrap().stuck;
        eventually("the silent arbiter is flagged", || stuck(&tree)).await;
        assert!(tree.child("a").unwrap().arbiter_silence() > Duration::from_secs(1));
        eventually("it goes on", || !stuck(&tree)).await;
        assert_eq!(tree.node("a").unwrap().incarnation, 1);
    });
}

#[test]
fn an_injected_panic_heals_in_every_kind_of_child() {
    let thread = Factory::thread(|cx: StartCx| {
        while !cx.stop.is_cancelled() {
            drop(cx.vitals.begin_work("round"));
            std::thread::yield_now();
        }
        Ok(())
    });
    let inner = spec().child(journaling("x", &Journal::default()).1);
    let pool = ChildSpec::pool("pool", 2, |_| idle_task());
    let spec = spec()
        .child(journaling("actor", &Journal::default()).1)
        .child(ChildSpec::worker("task", idle_task()))
        .child(ChildSpec::worker("thread", thread))
        .child(ChildSpec::supervisor("inner", inner))
        .child(pool);
    TestTree::run(spec, async |tree| {
        for path in ["actor", "task", "thread", "inner", "inner/x", "pool", "pool/1"] {
            let before = tree.node(path).unwrap().incarnation;
            let answer = tree.command(path, Command::Panic, &origin()).await.unwrap();
            assert_eq!(answer.acts_later, path == "thread", "{path}");
            until_incarnation(&tree, path, before + 1).await;
            assert_eq!(tree.node(path).unwrap().last_exit.unwrap().reason, "panicked: injected panic");
        }
        until_incarnation(&tree, "inner/x", 3).await;
        let outcome = |event: &EventKind| match event {
            EventKind::Commanded { outcome, .. } => Some(outcome.clone()),
            _ => None,
        };
        let said: Vec<_> = events(&tree, "test/thread").iter().filter_map(outcome).collect();
        assert_eq!(said, ["ok, at the next work item"]);
    });
}
