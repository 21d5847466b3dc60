//! Mailboxes: they outlive incarnations, have an exact capacity, and lose only the message in progress.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use crate::probe::*;
use futures_util::future::join_all;
use orchestrator_observe::EventKind;
use orchestrator_supervise::{
    AskError, ChildSpec, Command, Fault, OnRestart, PauseSpan, Strategy, SupervisorSpec, Tree, mailbox,
    testing::{TestTree, eventually},
};
use tokio::sync::oneshot;

fn tree(child: ChildSpec) -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient()).child(child)
}

/// A message that stays in progress until the sender is used or dropped, and then does `action`.
fn gate(
    action: impl FnOnce(&mut orchestrator_supervise::ChildCx<'_, Probe>) + Send + 'static,
) -> (oneshot::Sender<()>, Do) {
    let (open, opened) = oneshot::channel();
    (open, Do(Box::new(move |_, cx| cx.atomically(opened, |_, _, cx| action(cx)))))
}

/// Sends three pings behind a message in progress and ends the incarnation by `end`; the next one answers all
/// three.
fn survives(child: impl Fn(ChildSpec) -> SupervisorSpec, action: Do, end: impl AsyncFn(&Tree)) {
    let journal = Journal::default();
    let (mailbox, spec) = journaling("a", &journal);
    TestTree::run(child(spec), async |tree| {
        let pings = async { tokio::join!(ping(&mailbox, 1), ping(&mailbox, 2), ping(&mailbox, 3)) };
        let ended = async {
            let path = node_path(&tree);
            let in_progress = || tree.node(&path).unwrap().in_progress.is_some();
            eventually("all wait behind it", || in_progress() && mailbox.depth() == 3).await;
            end(&tree).await;
        };
        let (in_progress, (one, two, three), ()) = tokio::join!(mailbox.ask(action, LONG), pings, ended);
        assert_eq!(in_progress, Err(AskError::Lost), "the message in progress is lost");
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
    let (open, action) = gate(|_| panic!("boom"));
    let open = std::cell::Cell::new(Some(open));
    survives(tree, action, async |_| drop(open.take()));
}

#[test]
fn survives_a_kill_at_the_deadline() {
    let (open, action) = gate(|_| ());
    let child = |spec: ChildSpec| tree(spec.shutdown(deadline(5)));
    survives(child, action, async |tree| command(tree, "a", Command::Restart).await);
    drop(open);
}

#[test]
fn survives_an_escalation() {
    let (open, action) = gate(|_| panic!("boom"));
    let open = std::cell::Cell::new(Some(open));
    let child = |spec| {
        let inner =
            SupervisorSpec::new(Strategy::OneForOne).limits(limits(0, Duration::from_secs(1))).child(spec);
        tree(ChildSpec::supervisor("inner", inner))
    };
    survives(child, action, async |tree| {
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
        let (mailbox, child) = journaling("a", &Journal::default());
        TestTree::run(tree(child), async |_| {
            let (open, action) = gate(move |cx| if fail { cx.fail(Fault::new("tired")) } else { cx.stop() });
            mailbox.tell(action).unwrap();
            drop(open);
            // The answer comes from the next incarnation, whether the message waited already or not.
            assert_eq!(ping(&mailbox, 1).await, Ok(2));
        });
    }
}

#[test]
fn survives_a_stop_until_the_next_start() {
    let (mailbox, child) = journaling("a", &Journal::default());
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
fn the_capacity_is_exact_for_many_senders() {
    let (mailbox, slot) = mailbox::<Probe>(10);
    let child = ChildSpec::worker("a", factory("a", slot, &ProbeConfig::default()));
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
        assert_eq!((refused.message.0, refused.capacity), (77, 10), "the message is returned");
        assert_eq!(ping(&mailbox, 1).await, Err(AskError::Full(10)));
        let shown = tree.node("a").unwrap().mailboxes.remove(0);
        assert_eq!((shown.depth, shown.capacity, shown.high_water, shown.refused), (10, 10, 10, 152));
        command(&tree, "a", Command::Start).await;
        eventually("all are handled", || tree.node("a").unwrap().mailboxes[0].handled == 10).await;
    });
}

#[test]
fn send_waits_for_room() {
    let (mailbox, slot) = mailbox::<Probe>(2);
    let child = ChildSpec::worker("a", factory("a", slot, &ProbeConfig::default()));
    TestTree::run(tree(child), async |tree| {
        command(&tree, "a", Command::Stop).await;
        mailbox.send(Ping(1)).await.unwrap();
        mailbox.send(Ping(2)).await.unwrap();
        let mut waiting: Vec<_> = (3..7).map(|n| Box::pin(mailbox.send(Ping(n)))).collect();
        for sender in &mut waiting {
            assert!(futures_util::poll!(sender).is_pending(), "the mailbox is full");
        }
        drop(waiting.pop());
        let (sent, ()) = tokio::join!(join_all(waiting), command(&tree, "a", Command::Start));
        assert!(sent.iter().all(Result::is_ok));
        eventually("all are handled", || tree.node("a").unwrap().mailboxes[0].handled == 5).await;
        let shown = tree.node("a").unwrap().mailboxes.remove(0);
        assert_eq!((shown.depth, shown.high_water, shown.refused), (0, 2, 0));
    });
}

#[test]
fn an_ask_times_out_and_its_message_is_skipped() {
    let journal = Journal::default();
    let (mailbox, child) = journaling("a", &journal);
    TestTree::run(tree(child), async |_| {
        let (open, action) = gate(|_| ());
        mailbox.tell(action).unwrap();
        let short = Duration::from_millis(5);
        assert_eq!(mailbox.ask(Ping(1), short).await, Err(AskError::TimedOut(short)));
        eventually("the gate is in progress", || mailbox.depth() == 1).await;
        drop(open);
        eventually("the depth falls", || mailbox.depth() == 0).await;
        assert_eq!(ping(&mailbox, 2).await, Ok(1));
        assert_eq!(journal.lines(), ["a started", "a 2"]);
    });
}

#[test]
fn atomically_handles_no_other_message_meanwhile() {
    let journal = Journal::default();
    let (mailbox, child) = journaling("a", &journal);
    TestTree::run(tree(child), async |_| {
        for n in 0..100 {
            let action = Do(Box::new(move |probe, cx| {
                probe.note(&format!("begin {n}"));
                let work = async {
                    for _ in 0..3 {
                        tokio::task::yield_now().await;
                    }
                };
                cx.atomically(work, move |probe, (), _| probe.note(&format!("end {n}")))
            }));
            let (done, pinged) = tokio::join!(mailbox.ask(action, LONG), ping(&mailbox, n));
            assert_eq!((done, pinged), (Ok(()), Ok(1)));
        }
        let wanted = (0..100).flat_map(|n| [format!("a begin {n}"), format!("a end {n}"), format!("a {n}")]);
        assert_eq!(journal.lines()[1..], wanted.collect::<Vec<_>>());
    });
}

#[test]
fn a_purge_drops_waiting_messages_and_fails_their_asks() {
    let journal = Journal::default();
    let (mailbox, child) = journaling("a", &journal);
    TestTree::run(tree(child.on_restart(OnRestart::Purge)), async |tree| {
        let (open, action) = gate(|_| panic!("boom"));
        mailbox.tell(action).unwrap();
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

/// An actor that always sends itself another message can be paused, stopped at its deadline and restarted.
#[test]
fn a_flooded_actor_obeys_commands() {
    fn again(probe: &mut Probe, cx: &mut orchestrator_supervise::ChildCx<'_, Probe>) {
        if !probe.config.busy.load(SeqCst) {
            cx.mailbox().tell(act(again)).unwrap();
        }
    }
    let config = ProbeConfig::default();
    let (mailbox, child) = probe("a", &config);
    TestTree::run(tree(child.pausable().shutdown(deadline(20))), async |tree| {
        mailbox.tell(act(again)).unwrap();
        command(&tree, "a", Command::Pause(PauseSpan::default())).await;
        let handled = || tree.node("a").unwrap().mailboxes[0].handled;
        let before = handled();
        assert_eq!((handled(), state(&tree, "a").as_str()), (before, "paused"));
        command(&tree, "a", Command::Resume).await;
        command(&tree, "a", Command::Restart).await;
        assert_eq!(tree.node("a").unwrap().last_exit.unwrap().kind, "killed");
        config.busy.store(true, SeqCst);
        assert_eq!(ping(&mailbox, 1).await, Ok(2));
        config.busy.store(false, SeqCst);
    });
}
