//! A mailbox outlives every incarnation, keeps its bound exactly, and loses only the message in progress.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use crate::probe::*;
use orchestrator_supervise::{
    AskError, ChildSpec, Command, EventKind, Fault, OnRestart, Shutdown, Strategy, SupervisorSpec, Tree,
    mailbox,
    testing::{TestTree, eventually},
};
use tokio::sync::oneshot;

fn tree(child: ChildSpec) -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient()).child(child)
}

/// A message that stays in hand until the sender is used or dropped, and then does `deed`.
fn gate(
    deed: impl FnOnce(&mut orchestrator_supervise::ChildCx<'_, Probe>) + Send + 'static,
) -> (oneshot::Sender<()>, Do) {
    let (open, opened) = oneshot::channel();
    (open, Do(Box::new(move |_, cx| cx.atomically(opened, |_, _, cx| deed(cx)))))
}

/// Three pings wait behind a message in progress; `end` ends the incarnation; the next one answers all three.
fn survives(child: impl Fn(ChildSpec) -> SupervisorSpec, deed: Do, end: impl AsyncFn(&Tree)) {
    let journal = Journal::default();
    let (mailbox, spec) = noting("a", &journal);
    TestTree::run(child(spec), async |tree| {
        let pings = async { tokio::join!(ping(&mailbox, 1), ping(&mailbox, 2), ping(&mailbox, 3)) };
        let ended = async {
            let path = node_path(&tree);
            let in_progress = || tree.node(&path).unwrap().in_progress.is_some();
            eventually("all wait behind it", || in_progress() && mailbox.depth() == 3).await;
            end(&tree).await;
        };
        let (hand, (one, two, three), ()) = tokio::join!(mailbox.ask(deed, LONG), pings, ended);
        assert_eq!(hand, Err(AskError::Lost), "the message in progress is lost, and its asker knows");
        assert_eq!((one, two, three), (Ok(2), Ok(2), Ok(2)));
        assert_eq!(journal.lines().last().map(String::as_str), Some("a 3"), "in the order they came");
        let node = tree.node(&node_path(&tree)).unwrap();
        assert_eq!(node.last_exit.unwrap().in_progress.as_deref(), Some("Do"));
    });
}

fn node_path(tree: &Tree) -> String {
    tree.paths().into_iter().find(|path| path.ends_with("/a")).unwrap()
}

#[test]
fn survives_a_panic() {
    let (open, deed) = gate(|_| panic!("boom"));
    let open = std::cell::Cell::new(Some(open));
    survives(tree, deed, async |_| drop(open.take()));
}

#[test]
fn survives_a_kill_at_once() {
    let (open, deed) = gate(|_| ());
    let child = |spec: ChildSpec| tree(spec.shutdown(Shutdown::Kill));
    survives(child, deed, async |tree| command(tree, "a", Command::Restart).await);
    drop(open);
}

#[test]
fn survives_a_kill_at_the_deadline() {
    let (open, deed) = gate(|_| ());
    let child = |spec: ChildSpec| tree(spec.shutdown(deadline(5)));
    survives(child, deed, async |tree| command(tree, "a", Command::Restart).await);
    drop(open);
}

#[test]
fn survives_an_escalation() {
    let (open, deed) = gate(|_| panic!("boom"));
    let open = std::cell::Cell::new(Some(open));
    let child = |spec| {
        let inner =
            SupervisorSpec::new(Strategy::OneForOne).limits(limits(0, Duration::from_secs(1))).child(spec);
        tree(ChildSpec::supervisor("inner", inner))
    };
    survives(child, deed, async |tree| {
        drop(open.take());
        eventually("the supervisor gives up", || {
            events(tree, "test/inner").iter().any(|event| matches!(event, EventKind::Escalated { .. }))
        })
        .await;
    });
}

#[test]
fn survives_a_failure_and_a_stop_of_its_own() {
    for fail in [true, false] {
        let (mailbox, child) = noting("a", &Journal::default());
        TestTree::run(tree(child), async |_| {
            let (open, deed) = gate(move |cx| if fail { cx.fail(Fault::new("tired")) } else { cx.stop() });
            mailbox.tell(deed).unwrap();
            drop(open);
            // Whether or not it waited already: the answer comes from the next incarnation.
            assert_eq!(ping(&mailbox, 1).await, Ok(2));
        });
    }
}

#[test]
fn survives_a_stop_until_the_next_start() {
    let (mailbox, child) = noting("a", &Journal::default());
    TestTree::run(tree(child), async |tree| {
        command(&tree, "a", Command::Stop).await;
        let start = async {
            eventually("it waits", || mailbox.depth() == 1).await;
            command(&tree, "a", Command::Start).await;
        };
        assert_eq!(tokio::join!(ping(&mailbox, 1), start).0, Ok(2));
    });
}

#[test]
fn the_bound_is_exact_for_many_senders() {
    let (mailbox, slot) = mailbox::<Probe>(10);
    let child = ChildSpec::worker("a", factory("a", slot, &Habits::default()));
    TestTree::run(tree(child), async |tree| {
        command(&tree, "a", Command::Stop).await;
        let accepted: usize = std::thread::scope(|scope| {
            let senders: Vec<_> = (0..8)
                .map(|_| {
                    let mailbox = mailbox.clone();
                    scope.spawn(move || (0..20).filter(|n| mailbox.tell(Ping(*n)).is_ok()).count())
                })
                .collect();
            senders.into_iter().map(|sender| sender.join().unwrap()).sum()
        });
        assert_eq!(accepted, 10);
        let refused = mailbox.tell(Ping(77)).unwrap_err();
        assert_eq!((refused.message.0, refused.capacity), (77, 10), "the message is handed back");
        assert_eq!(ping(&mailbox, 1).await, Err(AskError::Full(10)));
        let shown = tree.node("a").unwrap().mailboxes.remove(0);
        assert_eq!((shown.depth, shown.capacity, shown.high_water, shown.refused), (10, 10, 10, 152));
        command(&tree, "a", Command::Start).await;
        eventually("all are handled", || tree.node("a").unwrap().mailboxes[0].handled == 10).await;
    });
}

#[test]
fn an_ask_times_out_and_a_message_without_asker_is_skipped() {
    let journal = Journal::default();
    let (mailbox, child) = noting("a", &journal);
    TestTree::run(tree(child), async |_| {
        let (open, deed) = gate(|_| ());
        mailbox.tell(deed).unwrap();
        let short = Duration::from_millis(5);
        assert_eq!(mailbox.ask(Ping(1), short).await, Err(AskError::TimedOut(short)));
        eventually("the gate is in hand", || mailbox.depth() == 1).await;
        drop(open);
        eventually("the depth falls", || mailbox.depth() == 0).await;
        assert_eq!(ping(&mailbox, 2).await, Ok(1));
        assert_eq!(journal.lines(), ["a started", "a 2"]);
    });
}

#[test]
fn atomically_keeps_the_order_and_lets_nobody_in_between() {
    let journal = Journal::default();
    let (mailbox, child) = noting("a", &journal);
    TestTree::run(tree(child), async |_| {
        for n in 0..100 {
            let deed = Do(Box::new(move |probe, cx| {
                probe.note(&format!("begin {n}"));
                let work = async {
                    for _ in 0..3 {
                        tokio::task::yield_now().await;
                    }
                };
                cx.atomically(work, move |probe, (), _| probe.note(&format!("end {n}")))
            }));
            let (done, pinged) = tokio::join!(mailbox.ask(deed, LONG), ping(&mailbox, n));
            assert_eq!((done, pinged), (Ok(()), Ok(1)));
        }
        let wanted = (0..100).flat_map(|n| [format!("a begin {n}"), format!("a end {n}"), format!("a {n}")]);
        assert_eq!(journal.lines()[1..], wanted.collect::<Vec<_>>());
    });
}

#[test]
fn a_purge_drops_what_waited_and_tells_the_askers() {
    let journal = Journal::default();
    let (mailbox, child) = noting("a", &journal);
    TestTree::run(tree(child.on_restart(OnRestart::Purge)), async |tree| {
        let (open, deed) = gate(|_| panic!("boom"));
        mailbox.tell(deed).unwrap();
        let end = async {
            eventually("both wait", || mailbox.depth() == 2).await;
            drop(open);
        };
        let (one, two, ()) = tokio::join!(ping(&mailbox, 1), ping(&mailbox, 2), end);
        assert_eq!((one, two), (Err(AskError::Lost), Err(AskError::Lost)));
        assert_eq!(ping(&mailbox, 3).await, Ok(2));
        let shown = tree.node("a").unwrap().mailboxes.remove(0);
        assert_eq!((shown.purged, shown.handled, shown.depth), (2, 2, 0));
        assert!(events(&tree, "test/a").contains(&EventKind::Purged { depth: 2 }));
        assert!(!journal.lines().contains(&"a 1".to_owned()));
    });
}

/// An actor that always has one more message for itself is still paused, stopped at its deadline and restarted.
#[test]
fn a_flood_does_not_keep_operators_out() {
    fn again(probe: &mut Probe, cx: &mut orchestrator_supervise::ChildCx<'_, Probe>) {
        if !probe.habits.busy.load(SeqCst) {
            cx.mailbox().tell(act(again)).unwrap();
        }
    }
    let habits = Habits::default();
    let (mailbox, child) = probe("a", &habits);
    TestTree::run(tree(child.pausable().shutdown(deadline(20))), async |tree| {
        mailbox.tell(act(again)).unwrap();
        command(&tree, "a", Command::Pause).await;
        let handled = || tree.node("a").unwrap().mailboxes[0].handled;
        let before = handled();
        assert_eq!((handled(), state(&tree, "a").as_str()), (before, "paused"));
        command(&tree, "a", Command::Resume).await;
        command(&tree, "a", Command::Restart).await;
        assert_eq!(tree.node("a").unwrap().last_exit.unwrap().kind, "killed");
        habits.busy.store(true, SeqCst);
        assert_eq!(ping(&mailbox, 1).await, Ok(2));
        habits.busy.store(false, SeqCst);
    });
}
