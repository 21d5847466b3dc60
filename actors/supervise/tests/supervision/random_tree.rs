//! Random trees under random commands, panics, failures and hangs: in the end everything runs again, or the root exited
//! for a stated reason; every message that was accepted is handled once, but those in hand; a stop leaves nothing running.
//!
//! `ORCHESTRATOR_TEST_SEEDS` = how many seeds (default 12); `ORCHESTRATOR_TEST_SEED` = the first (default 1).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use crate::probe::*;
use futures_util::future::{LocalBoxFuture, join_all};
use orchestrator_supervise::{
    ChildSpec, Children, Command, Exit, Factory, Fault, Limits, Mailbox, Placement, Restart, StartCx,
    Strategy, SupervisorSpec, Tree, children, mailbox,
    testing::{TestTree, eventually},
};

/// A random tree, and what the test needs to know of it.
struct Fixture {
    random: fastrand::Rng,
    mailboxes: Vec<Mailbox<Probe>>,
    handled: Arc<AtomicU64>,
    sent: u64,
    dynamic: Vec<Children>,
}

impl Fixture {
    fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { random, mailboxes: Vec::new(), handled: Arc::default(), sent: 0, dynamic: Vec::new() }
    }

    fn supervisor(&mut self, depth: usize) -> SupervisorSpec {
        let strategies = [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne];
        let strategy = strategies[self.random.usize(..3)];
        // Some give up soon, and the root only rarely.
        let tight = depth > 0 && self.random.bool() || self.random.usize(..4) == 0;
        let limits: Limits =
            if tight { limits(self.random.u32(0..4), Duration::from_millis(200)) } else { lenient() };
        let mut spec = SupervisorSpec::new(strategy).limits(limits);
        for i in 0..self.random.usize(1..5) {
            spec = spec.child(self.child(format!("c{i}"), depth));
        }
        spec
    }

    fn child(&mut self, id: String, depth: usize) -> ChildSpec {
        let placement = [Placement::Inherit, Placement::Dedicated][usize::from(self.random.u8(..8) == 0)];
        let child = match self.random.u8(..10) {
            0 | 1 if depth < 2 => {
                return ChildSpec::supervisor(id, self.supervisor(depth + 1)).placement(placement);
            }
            2 => {
                let slots: Vec<_> = (0..3).map(|_| Some(self.actor())).collect();
                let slots = std::sync::Mutex::new(slots);
                ChildSpec::pool(id, 3, move |i| slots.lock().unwrap()[i].take().unwrap())
                    .placement(Placement::Spread(2))
            }
            // Its first child is permanent: messages to it are counted, and would leave the tree with one that ends for good.
            9 => {
                let (handle, slot) = children(8);
                self.dynamic.push(handle);
                let first = ChildSpec::worker("first", self.actor()).shutdown(deadline(20));
                let spec = SupervisorSpec::new(Strategy::OneForOne).limits(lenient()).child(first);
                return ChildSpec::dynamic(id, spec, slot).placement(placement);
            }
            3 => ChildSpec::worker(id, idle_task()).placement(placement),
            4 => ChildSpec::worker(id, thread()).placement(placement),
            _ => ChildSpec::worker(id, self.actor()).placement(placement),
        };
        let restarts = [Restart::Permanent, Restart::Permanent, Restart::Transient, Restart::Temporary];
        let child = child.restart(restarts[self.random.usize(..4)]).shutdown(deadline(20));
        if self.random.bool() { child.pausable() } else { child }
    }

    fn actor(&mut self) -> Factory {
        let (mailbox, slot) = mailbox::<Probe>(64);
        self.mailboxes.push(mailbox);
        factory("actor", slot, &Habits::default())
    }

    /// A child of a dynamic supervisor comes, goes or is replaced.
    fn change(&mut self) -> LocalBoxFuture<'static, ()> {
        let handle = self.dynamic[self.random.usize(..self.dynamic.len())].clone();
        let id = format!("late{}", self.random.u8(..4));
        let restarts = [Restart::Permanent, Restart::Transient, Restart::Temporary];
        let factory = match self.random.u8(..3) {
            0 => thread(),
            1 => idle_task(),
            _ => factory("late", mailbox::<Probe>(4).1, &Habits::default()),
        };
        let child = ChildSpec::worker(id.clone(), factory)
            .restart(restarts[self.random.usize(..3)])
            .shutdown(deadline(20))
            .pausable();
        let what = self.random.u8(..3);
        Box::pin(async move {
            // Refusals are part of the game.
            let _ = match what {
                0 => handle.remove(id).await,
                1 => handle.replace(child).await,
                _ => handle.add(child).await,
            };
        })
    }

    /// One random thing done to the tree.
    fn deed<'a>(&mut self, tree: &'a Tree, paths: &[String]) -> LocalBoxFuture<'a, ()> {
        if !self.dynamic.is_empty() && self.random.u8(..4) == 0 {
            return self.change();
        }
        let path = paths[self.random.usize(..paths.len())].clone();
        // A frozen arbiter is a matter of four seconds each time, and has a test of its own.
        let verbs = Command::ALL.map(|verb| if verb == Command::Freeze { Command::Restart } else { verb });
        let verb = verbs[self.random.usize(..verbs.len())];
        if self.mailboxes.is_empty() || self.random.u8(..3) == 0 {
            return Box::pin(async move {
                // Refusals are part of the game.
                let _ = tree.command(&path, verb, &origin()).await;
            });
        }
        let mailbox = self.mailboxes[self.random.usize(..self.mailboxes.len())].clone();
        let trouble = match self.random.u8(..8) {
            0 => boom(),
            1 => act(|_, cx| cx.fail(Fault::new("tired"))),
            2 => act(|_, cx| cx.stop()),
            3 => act(|_, cx| cx.spawn(tokio::task::yield_now(), |_, (), _| panic!("late boom"))),
            4 => Do(Box::new(|_, cx| cx.atomically(std::future::pending(), |_, (), _| ()))),
            _ => Do(Box::new(|_, cx| cx.atomically(tokio::task::yield_now(), |_, (), _| ()))),
        };
        let _ = mailbox.tell(trouble);
        for _ in 0..self.random.u8(..6) {
            let handled = self.handled.clone();
            let count = act(move |_, _| {
                handled.fetch_add(1, SeqCst);
            });
            self.sent += u64::from(mailbox.tell(count).is_ok());
        }
        Box::pin(async {})
    }
}

fn thread() -> Factory {
    Factory::thread(|cx: StartCx| {
        orchestrator_supervise::block_on(None, cx.stop.cancelled());
        Ok(())
    })
}

/// Commands everything until it runs and all messages are handled; hung answers are cut short by a restart.
async fn recover(tree: &Tree, fixture: &Fixture) {
    let paths = || tree.paths().into_iter().filter(|path| path != "test");
    let wrong = || {
        // A child that left meanwhile is none.
        let mut states: Vec<_> = paths().filter_map(|path| Some((tree.node(&path)?.state, path))).collect();
        states.retain(|(state, _)| state != "running");
        states
    };
    let stuck_in_hand =
        || paths().find(|path| tree.node(path).is_some_and(|node| node.in_progress.is_some()));
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        for path in paths() {
            for verb in [Command::Start, Command::Resume] {
                let _ = tree.command(&path, verb, &origin()).await;
            }
        }
        if let Some(path) = stuck_in_hand() {
            let _ = tree.command(&path, Command::Restart, &origin()).await;
        } else if wrong().is_empty() && fixture.mailboxes.iter().all(|mailbox| mailbox.depth() == 0) {
            return;
        }
        tokio::task::yield_now().await;
    }
    let last: Vec<_> = tree.events(tree.event_log().newest().saturating_sub(30));
    panic!("still not running: {:?}, in hand: {:?}, {last:#?}", wrong(), stuck_in_hand());
}

async fn live(seed: u64) {
    let mut fixture = Fixture::new(seed);
    let spec = fixture.supervisor(0);
    let mut tested = TestTree::start(spec).await;
    let tree = tested.root().tree().clone();
    for _ in 0..40 {
        let paths = tree.paths();
        let width = fixture.random.usize(1..6);
        let deeds: Vec<_> = (0..width).map(|_| fixture.deed(&tree, &paths)).collect();
        join_all(deeds).await;
    }
    let (exited, fixture) = {
        let recovery = recover(&tree, &fixture);
        tokio::select! {
            biased;
            exit = tested.root().wait() => (Some(exit), &fixture),
            () = recovery => (None, &fixture),
        }
    };
    let waiting = || fixture.mailboxes.iter().map(|mailbox| mailbox.depth() as u64).sum::<u64>();
    match exited {
        None => assert_eq!(fixture.handled.load(SeqCst), fixture.sent, "every message is handled once"),
        Some(Exit::Failed(fault)) => {
            assert!(fault.to_string().contains("more than"), "{fault}");
            assert!(
                fixture.handled.load(SeqCst) <= fixture.sent
                    && fixture.sent <= fixture.handled.load(SeqCst) + waiting()
            );
        }
        Some(exit) => panic!("the root ended without a reason: {exit}"),
    }
    tested.stop().await;
    let gone = |path: &String| tree.node(path).is_none_or(|node| node.state == "stopped");
    eventually("nothing runs", || tree.paths().iter().all(gone)).await;
}

#[test]
fn a_random_tree_recovers_or_says_why_not() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (first, count) = (number("ORCHESTRATOR_TEST_SEED", 1u64), number("ORCHESTRATOR_TEST_SEEDS", 12u64));
    for seed in first..first + count {
        let lived = std::panic::catch_unwind(|| actix_rt::System::new().block_on(live(seed)));
        assert!(lived.is_ok(), "seed {seed} failed: ORCHESTRATOR_TEST_SEED={seed} ORCHESTRATOR_TEST_SEEDS=1");
    }
}
