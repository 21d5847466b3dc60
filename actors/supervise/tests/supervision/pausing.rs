//! Pause and resume.

use crate::probe::*;
use orchestrator_observe::{EventKind, now_ms};
use orchestrator_supervise::{
    ChildSpec, Command, CommandError, Factory, InboxSlot, Outbox, PauseSpan, StartCx, State, StateChange,
    Strategy, SupervisorSpec, Tree, inbox, mailbox,
    testing::{TestTree, eventually},
};

fn spec() -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient())
}

#[test]
fn a_paused_actor_queues_messages_up_to_its_capacity() {
    let (mailbox, slot) = mailbox::<Probe>(2);
    let journal = Journal::default();
    let config = ProbeConfig { journal: journal.clone(), ..ProbeConfig::default() };
    let child = ChildSpec::worker("a", factory("a", slot, &config)).pausable();
    TestTree::run(spec().child(child), async |tree| {
        let paused = tree.command("a", Command::Pause(PauseSpan::default()), &origin()).await;
        assert_eq!(
            paused,
            Ok(StateChange { before: State::Running, after: State::Paused, acts_later: false })
        );
        (0..2).for_each(|n| mailbox.tell(Ping(n)).unwrap());
        assert!(mailbox.tell(Ping(2)).is_err());
        // A sibling's answer shows that the arbiter runs, but no message was handled.
        assert_eq!((mailbox.depth(), journal.lines().len()), (2, 1));
        let resumed = tree.command("a", Command::Resume, &origin()).await;
        assert_eq!(
            resumed,
            Ok(StateChange { before: State::Paused, after: State::Running, acts_later: false })
        );
        eventually("all are handled", || journal.lines() == ["a started", "a 0", "a 1"]).await;
        let noted = events(&tree, "test/a");
        assert!(noted.contains(&EventKind::Paused) && noted.contains(&EventKind::Resumed));
    });
}

#[test]
fn pause_survives_a_restart_and_a_stop() {
    let journal = Journal::default();
    let (mailbox, child) = journaling("a", &journal);
    TestTree::run(spec().child(child.pausable()), async |tree| {
        command(&tree, "a", Command::Pause(PauseSpan::default())).await;
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
    let (mailbox, child) = journaling("a", &journal);
    TestTree::run(spec().child(child.pausable()), async |tree| {
        command(&tree, "a", Command::Stop).await;
        command(&tree, "a", Command::Pause(PauseSpan::default())).await;
        (0..3).for_each(|n| mailbox.tell(Ping(n)).unwrap());
        command(&tree, "a", Command::Start).await;
        assert_eq!((state(&tree, "a").as_str(), mailbox.depth()), ("paused", 3));
        command(&tree, "a", Command::Stop).await;
        assert_eq!((mailbox.depth(), journal.count("a 2")), (0, 1));
        assert_eq!(tree.node("a").unwrap().last_exit.unwrap().kind, "shutdown");
    });
}

/// A task or thread that receives items and journals them.
fn receiver(slot: &InboxSlot<u32>, journal: &Journal, thread: bool) -> ChildSpec {
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
fn paused_tasks_and_threads_receive_nothing_until_resumed() {
    for thread in [false, true] {
        let (outbox, slot): (Outbox<u32>, _) = inbox(8);
        let journal = Journal::default();
        TestTree::run(spec().child(receiver(&slot, &journal, thread)), async |tree| {
            let depth = |tree: &Tree| tree.node("a").unwrap().mailboxes[0].depth;
            outbox.tell(0).unwrap();
            eventually("it takes", || journal.lines() == ["0"]).await;
            command(&tree, "a", Command::Pause(PauseSpan::default())).await;
            // A restart that is up shows that the pause has taken effect.
            command(&tree, "a", Command::Restart).await;
            assert_eq!(state(&tree, "a"), "paused");
            (1..4).for_each(|n| outbox.tell(n).unwrap());
            assert_eq!((depth(&tree), journal.lines().len()), (3, 1));
            command(&tree, "a", Command::Resume).await;
            eventually("it takes again", || journal.lines().len() == 4).await;
            // Paused while it waits for an item: it does not receive the next one, but a stop drains it.
            command(&tree, "a", Command::Pause(PauseSpan::default())).await;
            outbox.tell(4).unwrap();
            command(&tree, "a", Command::Stop).await;
            assert_eq!((depth(&tree), journal.lines().len()), (0, 5));
            assert_eq!(tree.node("a").unwrap().last_exit.unwrap().kind, "shutdown");
        });
    }
}

/// A task that waits in `wait_resumed` is woken by a stop.
#[test]
fn a_stop_overrides_a_pause() {
    let task = Factory::task(|cx: StartCx| async move {
        tokio::select! {
            () = cx.child.wait_paused() => {}
            () = cx.stop.cancelled() => {}
        }
        cx.child.wait_resumed().await;
        cx.stop.cancelled().await;
        Ok(())
    });
    TestTree::run(spec().child(ChildSpec::worker("a", task).pausable()), async |tree| {
        command(&tree, "a", Command::Pause(PauseSpan::default())).await;
        command(&tree, "a", Command::Stop).await;
        assert_eq!(tree.node("a").unwrap().last_exit.unwrap().kind, "shutdown");
    });
}

#[test]
fn a_pool_is_paused_as_a_whole() {
    let (mailboxes, slots): (Vec<_>, Vec<_>) = (0..4).map(|_| mailbox::<Probe>(4)).unzip();
    let slots = std::sync::Mutex::new(slots.into_iter().map(Some).collect::<Vec<_>>());
    let pool = ChildSpec::pool("pool", 4, move |i| {
        factory("member", slots.lock().unwrap()[i].take().unwrap(), &ProbeConfig::default())
    });
    TestTree::run(spec().child(pool.pausable()), async |tree| {
        command(&tree, "pool", Command::Pause(PauseSpan::default())).await;
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
fn a_pause_ends_at_its_time_also_of_a_pool_and_over_a_restart() {
    let (mailboxes, slots): (Vec<_>, Vec<_>) = (0..2).map(|_| mailbox::<Probe>(4)).unzip();
    let slots = std::sync::Mutex::new(slots.into_iter().map(Some).collect::<Vec<_>>());
    let pool = ChildSpec::pool("pool", 2, move |i| {
        factory("member", slots.lock().unwrap()[i].take().unwrap(), &ProbeConfig::default())
    });
    let (single, child) = journaling("a", &Journal::default());
    TestTree::run(spec().child(pool.pausable()).child(child.pausable()), async |tree| {
        let until = |span: u64| Command::Pause(PauseSpan { until_ms: Some(now_ms() + span) });
        command(&tree, "pool", until(600_000)).await;
        assert!(tree.node("pool").unwrap().paused_until_ms.is_some_and(|until| until > now_ms()));
        let ends = until(300);
        command(&tree, "pool", ends).await;
        command(&tree, "a", ends).await;
        command(&tree, "a", Command::Restart).await;
        for mailbox in &mailboxes {
            mailbox.tell(Ping(1)).unwrap();
        }
        single.tell(Ping(1)).unwrap();
        eventually("all are handled", || {
            mailboxes.iter().chain([&single]).all(|mailbox| mailbox.depth() == 0)
        })
        .await;
        for path in ["pool", "pool/0", "pool/1", "a"] {
            eventually("resumed", || state(&tree, path) == "running").await;
            assert_eq!(tree.node(path).unwrap().paused_until_ms, None);
            assert!(events(&tree, &format!("test/{path}")).contains(&EventKind::Resumed), "{path}");
        }
    });
}

#[test]
fn a_refused_pause_lists_pausable_children() {
    let inner = spec().child(journaling("x", &Journal::default()).1.pausable());
    let spec =
        spec().child(journaling("a", &Journal::default()).1).child(ChildSpec::supervisor("inner", inner));
    TestTree::run(spec, async |tree| {
        for (path, text) in [
            ("a", "`test/a` cannot be paused: only sources and pools can"),
            ("inner", "`test/inner` cannot be paused; below it these can: test/inner/x"),
            ("test", "`test` cannot be paused; below it these can: test/inner/x"),
        ] {
            for verb in [Command::Pause(PauseSpan::default()), Command::Resume] {
                let refused = tree.command(path, verb, &origin()).await;
                assert_eq!(refused, Err(CommandError::Illegal(text.to_owned())));
            }
        }
    });
}
