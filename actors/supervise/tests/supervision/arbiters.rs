//! Children on several arbiters, and blocked arbiters.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
};

use crate::probe::*;
use orchestrator_observe::EventKind;
use orchestrator_supervise::{
    AskError, ChildSpec, Command, Factory, Mailbox, Placement, StartCx, State, Strategy, SupervisorSpec,
    Tree, mailbox,
    testing::{TestTree, eventually},
};

fn spec() -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient())
}

/// A pool of probes and their mailboxes.
fn pool(count: usize, journal: &Journal) -> (Vec<Mailbox<Probe>>, ChildSpec) {
    let (mailboxes, slots): (Vec<_>, Vec<_>) = (0..count).map(|_| mailbox::<Probe>(64)).unzip();
    let slots = Mutex::new(slots.into_iter().map(Some).collect::<Vec<_>>());
    let config = ProbeConfig { journal: journal.clone(), ..ProbeConfig::default() };
    let make = move |i: usize| factory("member", slots.lock().unwrap()[i].take().unwrap(), &config);
    (mailboxes, ChildSpec::pool("pool", count, make))
}

fn arbiters(tree: &Tree, below: &str) -> HashSet<String> {
    tree.node(below).unwrap().children.into_iter().filter_map(|node| node.arbiter).collect()
}

#[test]
fn panics_heal_and_mailboxes_stay_on_every_arbiter() {
    for placement in [Placement::Inherit, Placement::Dedicated] {
        let (mailbox, child) = journaling("a", &Journal::default());
        let inner = SupervisorSpec::new(Strategy::RestForOne).limits(lenient());
        let inner = inner.child(child.placement(placement)).child(journaling("b", &Journal::default()).1);
        let group = ChildSpec::supervisor("inner", inner).placement(placement);
        TestTree::run(spec().child(group), async |tree| {
            for incarnation in 2..22 {
                let (lost, answered) = tokio::join!(mailbox.ask(boom(), LONG), ping(&mailbox, 1));
                assert_eq!((lost, answered), (Err(AskError::Lost), Ok(incarnation)));
                until_incarnation(&tree, "inner/b", incarnation).await;
            }
        });
    }
}

#[test]
fn eighty_panics_in_a_pool_of_eighty_over_four_arbiters_heal() {
    let journal = Journal::default();
    let (mailboxes, pool) = pool(80, &journal);
    TestTree::run(spec().child(pool.placement(Placement::Spread(4))), async |tree| {
        assert_eq!(arbiters(&tree, "pool").len(), 4);
        for mailbox in &mailboxes {
            mailbox.tell(boom()).unwrap();
            mailbox.tell(Ping(7)).unwrap();
        }
        // More panics than the pool's budget: it gives up once, restarts, and loses no message that waits.
        eventually("all messages are handled", || journal.count("member 7") == 80).await;
        until_incarnation(&tree, "pool", 2).await;
        eventually("all members run", || {
            tree.node("pool").unwrap().children.iter().all(|node| node.state == State::Running)
        })
        .await;
        for mailbox in &mailboxes {
            assert!(ping(mailbox, 1).await.unwrap() >= 2);
        }
    });
}

#[test]
fn a_pool_within_its_budget_restarts_only_failed_members() {
    let (mailboxes, pool) = pool(16, &Journal::default());
    TestTree::run(spec().child(pool.placement(Placement::Spread(2))), async |tree| {
        for i in [3, 8, 12] {
            mailboxes[i].tell(boom()).unwrap();
            until_incarnation(&tree, &format!("pool/{i}"), 2).await;
        }
        let total: u64 = tree.node("pool").unwrap().children.iter().map(|node| node.restarts).sum();
        assert_eq!((total, tree.node("pool").unwrap().incarnation), (3, 1));
    });
}

#[test]
fn a_blocked_arbiter_is_shown_as_stuck_while_the_tree_answers() {
    let (mailbox, child) = journaling("a", &Journal::default());
    let (release, hold) = mpsc::channel::<()>();
    let spec =
        spec().child(child.placement(Placement::Dedicated)).child(journaling("b", &Journal::default()).1);
    TestTree::run(spec, async |tree| {
        mailbox.tell(act(move |_, _| hold.recv().unwrap_or_default())).unwrap();
        eventually("it is shown as stuck", || tree.node("a").unwrap().stuck).await;
        let snapshot = tree.snapshot();
        let node = snapshot.root.find("test/a").unwrap();
        let in_progress = node.in_progress.as_ref().unwrap();
        assert!(in_progress.name == "Do" && in_progress.for_ms > 900, "{in_progress:?}");
        assert!(!snapshot.root.find("test/b").unwrap().stuck);
        drop(release);
        eventually("it recovers", || !tree.node("a").unwrap().stuck).await;
    });
}

/// A supervisor gives up waiting for a child on a blocked arbiter; its restart waits for the arbiter.
#[test]
fn a_child_on_a_blocked_arbiter_is_not_started_twice() {
    let journal = Journal::default();
    let (mailbox, child) = journaling("a", &journal);
    let (release, hold) = mpsc::channel::<()>();
    let child = child.placement(Placement::Dedicated).shutdown(deadline(1));
    TestTree::run(spec().child(child), async |tree| {
        mailbox.tell(act(move |_, _| hold.recv().unwrap_or_default())).unwrap();
        mailbox.tell(Ping(1)).unwrap();
        eventually("it blocks", || mailbox.depth() == 1).await;
        let release = async {
            let stop_timed_out = |e: &EventKind| matches!(e, EventKind::StopTimedOut { .. });
            eventually("it is given up", || events(&tree, "test/a").iter().any(stop_timed_out)).await;
            assert_eq!((state(&tree, "a").as_str(), journal.lines().len()), ("stuck", 1));
            drop(release);
        };
        tokio::join!(command(&tree, "a", Command::Restart), release);
        assert_eq!(tree.node("a").unwrap().incarnation, 2);
        eventually("the message that waited is handled", || journal.count("a 1") == 1).await;
        let starts: Vec<_> = journal.lines().into_iter().filter(|line| line != "a 1").collect();
        assert_eq!(starts, ["a started", "a dropped", "a started"]);
    });
}

/// Sets its flag when the thread that owns it ends.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn arbiters_end_with_the_tree() {
    thread_local! {
        static FLAG: std::cell::RefCell<Option<Flag>> = const { std::cell::RefCell::new(None) };
    }
    let ended = Arc::new(AtomicBool::new(false));
    let flag = ended.clone();
    let task = Factory::task(move |cx: StartCx| {
        FLAG.set(Some(Flag(flag.clone())));
        async move {
            cx.stop.cancelled().await;
            Ok(())
        }
    });
    actix_rt::System::new().block_on(async {
        let child = ChildSpec::worker("a", task).placement(Placement::Dedicated);
        let mut tested = TestTree::start(spec().child(child)).await;
        tested.stop().await;
        assert!(!ended.load(SeqCst));
        drop(tested);
        eventually("the arbiter's thread ends", || ended.load(SeqCst)).await;
    });
}
