//! Handles of earlier incarnations.

use std::sync::{Arc, Mutex};

use crate::probe::*;
use orchestrator_supervise::{Command, IncarnationBound, Strategy, SupervisorSpec, testing::TestTree};

#[test]
fn a_handle_of_the_old_incarnation_is_dropped_and_counted() {
    let (mailbox, child) = journaling("a", &Journal::default());
    let spec = SupervisorSpec::new(Strategy::OneForOne).limits(lenient()).child(child);
    TestTree::run(spec, async |tree| {
        let tag = Arc::new(Mutex::new(None));
        let kept = tag.clone();
        let obtain = act(move |_, cx| {
            *kept.lock().unwrap() = Some(IncarnationBound::new(cx.incarnation(), "delivery 7"))
        });
        mailbox.ask(obtain, LONG).await.unwrap();
        let tag = tag.lock().unwrap().take().unwrap();
        let opened = Journal::default();
        let open = |tag: IncarnationBound<&'static str>| {
            let opened = opened.clone();
            act(move |_, cx| {
                if let Some(tag) = tag.open(cx.vitals()) {
                    opened.add(tag);
                }
            })
        };
        mailbox.ask(open(tag.clone()), LONG).await.unwrap();
        assert_eq!((opened.lines().len(), tree.node("a").unwrap().stale), (1, 0));
        command(&tree, "a", Command::Restart).await;
        mailbox.ask(open(tag), LONG).await.unwrap();
        assert_eq!((opened.lines().len(), tree.node("a").unwrap().stale), (1, 1));
    });
}
