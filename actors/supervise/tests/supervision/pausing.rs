//! Pause closes the intake and nothing else: what waits, waits; a stop still drains; a restart stays paused.

use crate::probe::*;
use orchestrator_supervise::{
    ChildSpec, Command, CommandError, EventKind, Factory, InboxSlot, Outbox, StartCx, State, StateChange,
    Strategy, SupervisorSpec, Tree, inbox, mailbox,
    testing::{TestTree, eventually},
};

fn spec() -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient())
}

#[test]
fn a_paused_actor_lets_messages_wait_and_refuses_beyond_its_bound() {
    let (mailbox, slot) = mailbox::<Probe>(2);
    let journal = Journal::default();
    let habits = Habits { journal: journal.clone(), ..Habits::default() };
    let child = ChildSpec::worker("a", factory("a", slot, &habits)).pausable();
    TestTree::run(spec().child(child), async |tree| {
        let paused = tree.command("a", Command::Pause, &origin()).await;
        assert_eq!(paused, Ok(StateChange { before: State::Running, after: State::Paused }));
        (0..2).for_each(|n| mailbox.tell(Ping(n)).unwrap());
        assert!(mailbox.tell(Ping(2)).is_err());
        // Its arbiter runs: a sibling message round shows it, and still nothing was handled.
        assert_eq!((mailbox.depth(), journal.lines().len()), (2, 1));
        let resumed = tree.command("a", Command::Resume, &origin()).await;
        assert_eq!(resumed, Ok(StateChange { before: State::Paused, after: State::Running }));
        eventually("all are handled", || journal.lines() == ["a started", "a 0", "a 1"]).await;
        let noted = events(&tree, "test/a");
        assert!(noted.contains(&EventKind::Paused) && noted.contains(&EventKind::Resumed));
    });
}

#[test]
fn pause_survives_a_restart_and_a_stop() {
    let journal = Journal::default();
    let (mailbox, child) = noting("a", &journal);
    TestTree::run(spec().child(child.pausable()), async |tree| {
        command(&tree, "a", Command::Pause).await;
        command(&tree, "a", Command::Restart).await;
        assert_eq!((state(&tree, "a").as_str(), tree.node("a").unwrap().incarnation), ("paused", 2));
        command(&tree, "a", Command::Stop).await;
        command(&tree, "a", Command::Start).await;
        mailbox.tell(Ping(1)).unwrap();
        assert_eq!((state(&tree, "a").as_str(), mailbox.depth()), ("paused", 1));
        command(&tree, "a", Command::Panic).await;
        eventually("it is back", || tree.node("a").unwrap().incarnation == 4).await;
        until_state(&tree, "a", "paused").await;
        assert_eq!((mailbox.depth(), journal.count("a 1")), (1, 0));
        command(&tree, "a", Command::Resume).await;
        eventually("it is handled", || journal.count("a 1") == 1).await;
    });
}

#[test]
fn a_child_can_be_paused_before_its_start_and_a_stop_drains_it() {
    let journal = Journal::default();
    let (mailbox, child) = noting("a", &journal);
    TestTree::run(spec().child(child.pausable()), async |tree| {
        command(&tree, "a", Command::Stop).await;
        command(&tree, "a", Command::Pause).await;
        (0..3).for_each(|n| mailbox.tell(Ping(n)).unwrap());
        command(&tree, "a", Command::Start).await;
        assert_eq!((state(&tree, "a").as_str(), mailbox.depth()), ("paused", 3));
        command(&tree, "a", Command::Stop).await;
        assert_eq!((mailbox.depth(), journal.count("a 2")), (0, 1));
        assert_eq!(tree.node("a").unwrap().last_exit.unwrap().kind, "shutdown");
    });
}

/// A task or thread that takes item after item and notes them.
fn taker(slot: &InboxSlot<u32>, journal: &Journal, thread: bool) -> ChildSpec {
    let (items, notes) = (slot.clone(), journal.clone());
    let factory = if thread {
        Factory::thread(move |cx: StartCx| {
            let mut items = items.open();
            while let Some(item) = items.next_blocking(&cx) {
                notes.add(item.to_string());
            }
            Ok(())
        })
    } else {
        Factory::task(move |cx: StartCx| {
            let (mut items, notes) = (items.open(), notes.clone());
            async move {
                while let Some(item) = items.next(&cx).await {
                    notes.add(item.to_string());
                }
                Ok(())
            }
        })
    };
    ChildSpec::worker("a", factory.with_inbox("items", slot)).pausable()
}

#[test]
fn tasks_and_threads_take_nothing_while_paused_and_wake_up_after() {
    for thread in [false, true] {
        let (outbox, slot): (Outbox<u32>, _) = inbox(8);
        let journal = Journal::default();
        TestTree::run(spec().child(taker(&slot, &journal, thread)), async |tree| {
            let depth = |tree: &Tree| tree.node("a").unwrap().mailboxes[0].depth;
            outbox.tell(0).unwrap();
            eventually("it takes", || journal.lines() == ["0"]).await;
            command(&tree, "a", Command::Pause).await;
            // It has noticed once a restart has come up paused.
            command(&tree, "a", Command::Restart).await;
            assert_eq!(state(&tree, "a"), "paused");
            (1..4).for_each(|n| outbox.tell(n).unwrap());
            assert_eq!((depth(&tree), journal.lines().len()), (3, 1));
            command(&tree, "a", Command::Resume).await;
            eventually("it takes again", || journal.lines().len() == 4).await;
            // Paused while it waits for an item: the next one is not taken, but a stop drains it.
            command(&tree, "a", Command::Pause).await;
            outbox.tell(4).unwrap();
            command(&tree, "a", Command::Stop).await;
            assert_eq!((depth(&tree), journal.lines().len()), (0, 5));
            assert_eq!(tree.node("a").unwrap().last_exit.unwrap().kind, "shutdown");
        });
    }
}

/// A task that only waits for `intake_open` is woken by a stop: else every paused task would meet its deadline.
#[test]
fn a_stop_opens_the_intake() {
    let task = Factory::task(|cx: StartCx| async move {
        tokio::select! {
            () = cx.vitals.wait_paused() => {}
            () = cx.stop.cancelled() => {}
        }
        cx.vitals.wait_resumed().await;
        cx.stop.cancelled().await;
        Ok(())
    });
    TestTree::run(spec().child(ChildSpec::worker("a", task).pausable()), async |tree| {
        command(&tree, "a", Command::Pause).await;
        command(&tree, "a", Command::Stop).await;
        assert_eq!(tree.node("a").unwrap().last_exit.unwrap().kind, "shutdown");
    });
}

#[test]
fn a_pool_pauses_as_one() {
    let (mailboxes, slots): (Vec<_>, Vec<_>) = (0..4).map(|_| mailbox::<Probe>(4)).unzip();
    let slots = std::sync::Mutex::new(slots.into_iter().map(Some).collect::<Vec<_>>());
    let pool = ChildSpec::pool("pool", 4, move |i| {
        factory("member", slots.lock().unwrap()[i].take().unwrap(), &Habits::default())
    });
    TestTree::run(spec().child(pool.pausable()), async |tree| {
        command(&tree, "pool", Command::Pause).await;
        for (i, mailbox) in mailboxes.iter().enumerate() {
            mailbox.tell(Ping(1)).unwrap();
            assert_eq!((state(&tree, &format!("pool/{i}")).as_str(), mailbox.depth()), ("paused", 1));
        }
        assert_eq!(state(&tree, "pool"), "paused");
        command(&tree, "pool/2", Command::Resume).await;
        eventually("one is handled", || mailboxes[2].depth() == 0).await;
        assert_eq!(mailboxes[3].depth(), 1);
        command(&tree, "pool", Command::Resume).await;
        assert_eq!(state(&tree, "pool"), "running");
        eventually("all are handled", || mailboxes.iter().all(|mailbox| mailbox.depth() == 0)).await;
    });
}

#[test]
fn who_cannot_be_paused_says_who_can() {
    let inner = spec().child(noting("x", &Journal::default()).1.pausable());
    let spec = spec().child(noting("a", &Journal::default()).1).child(ChildSpec::supervisor("inner", inner));
    TestTree::run(spec, async |tree| {
        for (path, text) in [
            ("a", "`test/a` cannot be paused: only sources and pools can"),
            ("inner", "`test/inner` cannot be paused; below it these can: test/inner/x"),
            ("test", "`test` cannot be paused; below it these can: test/inner/x"),
        ] {
            for verb in [Command::Pause, Command::Resume] {
                let refused = tree.command(path, verb, &origin()).await;
                assert_eq!(refused, Err(CommandError::Illegal(text.to_owned())));
            }
        }
    });
}
