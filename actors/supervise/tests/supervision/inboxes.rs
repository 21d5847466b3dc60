//! Inboxes.

use crate::probe::*;
use orchestrator_supervise::{
    ChildSpec, Command, Factory, OnRestart, StartCx, StopToken, Strategy, SupervisorSpec, inbox,
    testing::{TestTree, eventually},
};

fn tree(child: ChildSpec) -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient()).child(child)
}

#[test]
fn an_inbox_keeps_items_and_capacity_unless_it_is_purged() {
    for (policy, lasting) in [(OnRestart::Keep, false), (OnRestart::Purge, false), (OnRestart::Purge, true)] {
        let keep = policy == OnRestart::Keep || lasting;
        let (outbox, slot) = inbox::<u32>(3);
        let slot = if lasting { slot.keep_on_purge() } else { slot };
        let got = Journal::default();
        let (notes, items) = (got.clone(), slot.clone());
        let task = Factory::task(move |cx: StartCx| {
            let (notes, mut items) = (notes.clone(), items.open());
            async move {
                while let Some(item) = items.next(&cx).await {
                    notes.add(item.to_string());
                }
                Ok(())
            }
        });
        let child = ChildSpec::worker("a", task.with_inbox("items", &slot)).on_restart(policy);
        TestTree::run(tree(child), async |tree| {
            command(&tree, "a", Command::Stop).await;
            (1..=3).for_each(|n| outbox.tell(n).unwrap());
            assert_eq!(outbox.tell(4).unwrap_err().message, 4);
            let shown = tree.node("a").unwrap().mailboxes.remove(0);
            assert_eq!((shown.name.as_str(), shown.depth, shown.refused), ("items", 3, 1));
            // A waiting sender continues once the next incarnation receives.
            let (sent, ()) = tokio::join!(outbox.send(5), command(&tree, "a", Command::Start));
            sent.unwrap();
            eventually("the last one came", || got.lines().contains(&"5".to_owned())).await;
            assert_eq!(got.lines(), if keep { vec!["1", "2", "3", "5"] } else { vec!["5"] });
            let shown = tree.node("a").unwrap().mailboxes.remove(0);
            assert_eq!((shown.high_water, shown.purged), (3, if keep { 0 } else { 3 }));
        });
    }
}

#[test]
fn a_blocked_sender_ends_with_its_stop_token() {
    let (outbox, _slot) = inbox::<u32>(1);
    let stop = StopToken::new();
    outbox.send_blocking(1, &stop).unwrap();
    let sender = std::thread::spawn({
        let stop = stop.clone();
        move || outbox.send_blocking(2, &stop).unwrap_err().message
    });
    stop.cancel();
    assert_eq!(sender.join().unwrap(), 2);
}

/// A reader without senders waits for its stop, instead of ending and being restarted until its supervisor
/// gives up.
#[test]
fn a_reader_without_senders_waits_for_its_stop() {
    let (outbox, slot) = inbox::<u32>(1);
    let opened = slot.clone();
    let task = Factory::task(move |cx: StartCx| {
        let mut items = opened.open();
        async move {
            while items.next(&cx).await.is_some() {}
            assert!(cx.stop.is_cancelled());
            Ok(())
        }
    });
    drop(outbox);
    TestTree::run(tree(ChildSpec::worker("a", task)), async |tree| {
        command(&tree, "a", Command::Restart).await;
        let node = tree.node("a").unwrap();
        assert_eq!((node.incarnation, node.last_exit.unwrap().kind.as_str()), (2, "shutdown"));
    });
}
