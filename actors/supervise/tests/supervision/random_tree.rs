//! Random trees under random commands, panics, failures and hangs.
//!
//! In the end all children run again, or the root exited with a reason. Every accepted message is handled
//! once, except those in progress at an exit. A stop leaves no child running. `ORCHESTRATOR_TEST_SEEDS` is
//! the number of seeds (default 12), `ORCHESTRATOR_TEST_SEED` the first one (default 1).

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
    ChildSpec, Children, Command, Exit, Factory, Fault, Limits, Mailbox, Placement, Restart, StartCx, State,
    Strategy, SupervisorSpec, Tree, children, mailbox,
    testing::{TestTree, eventually},
};

/// A random tree and its mailboxes.
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
        // Some supervisors give up soon, the root rarely.
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
            // The first child is permanent: its messages are counted, and would be lost with a child that
            // ends for good.
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
        let restarts = [Restart::Permanent, Restart::Permanent, Restart::Transient];
        let child = child.restart(restarts[self.random.usize(..3)]).shutdown(deadline(20));
        if self.random.bool() { child.pausable() } else { child }
    }

    fn actor(&mut self) -> Factory {
        let (mailbox, slot) = mailbox::<Probe>(64);
        self.mailboxes.push(mailbox);
        factory("actor", slot, &ProbeConfig::default())
    }

    /// Adds or removes a child of a dynamic supervisor.
    fn change(&mut self) -> LocalBoxFuture<'static, ()> {
        let handle = self.dynamic[self.random.usize(..self.dynamic.len())].clone();
        let id = format!("late{}", self.random.u8(..4));
        let restarts = [Restart::Permanent, Restart::Transient];
        let factory = match self.random.u8(..3) {
            0 => thread(),
            1 => idle_task(),
            _ => factory("late", mailbox::<Probe>(4).1, &ProbeConfig::default()),
        };
        let child = ChildSpec::worker(id.clone(), factory)
            .restart(restarts[self.random.usize(..2)])
            .shutdown(deadline(20))
            .pausable();
        let removes = self.random.u8(..3) == 0;
        Box::pin(async move {
            // May be refused.
            let _ = if removes { handle.remove(id).await } else { handle.add(child).await };
        })
    }

    /// Carries out one random action on the tree.
    fn action<'a>(&mut self, tree: &'a Tree, paths: &[String]) -> LocalBoxFuture<'a, ()> {
        if !self.dynamic.is_empty() && self.random.u8(..4) == 0 {
            return self.change();
        }
        let path = paths[self.random.usize(..paths.len())].clone();
        // A freeze takes four seconds and has a test of its own.
        let verbs = Command::ALL.map(|verb| if verb == Command::Freeze { Command::Restart } else { verb });
        let verb = verbs[self.random.usize(..verbs.len())];
        if self.mailboxes.is_empty() || self.random.u8(..3) == 0 {
            return Box::pin(async move {
                // May be refused.
                let _ = tree.command(&path, verb, &origin()).await;
            });
        }
        let mailbox = self.mailboxes[self.random.usize(..self.mailboxes.len())].clone();
        let message = match self.random.u8(..8) {
            0 => boom(),
            1 => act(|_, cx| cx.fail(Fault::new("tired"))),
            2 => act(|_, cx| cx.stop()),
            3 => act(|_, cx| cx.spawn(tokio::task::yield_now(), |_, (), _| panic!("late boom"))),
            4 => Do(Box::new(|_, cx| cx.atomically(std::future::pending(), |_, (), _| ()))),
            _ => Do(Box::new(|_, cx| cx.atomically(tokio::task::yield_now(), |_, (), _| ()))),
        };
        let _ = mailbox.tell(message);
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

/// Sends commands until all children run and all messages are handled; restarts children with hung answers.
async fn recover(tree: &Tree, fixture: &Fixture) {
    let paths = || tree.paths().into_iter().filter(|path| path != "test");
    let wrong = || {
        // The child may have left meanwhile.
        let mut states: Vec<_> = paths().filter_map(|path| Some((tree.node(&path)?.state, path))).collect();
        states.retain(|(state, _)| *state != State::Running);
        states
    };
    let stuck_in_progress =
        || paths().find(|path| tree.node(path).is_some_and(|node| node.in_progress.is_some()));
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        for path in paths() {
            for verb in [Command::Start, Command::Resume] {
                let _ = tree.command(&path, verb, &origin()).await;
            }
        }
        if let Some(path) = stuck_in_progress() {
            let _ = tree.command(&path, Command::Restart, &origin()).await;
        } else if wrong().is_empty() && fixture.mailboxes.iter().all(|mailbox| mailbox.depth() == 0) {
            return;
        }
        tokio::task::yield_now().await;
    }
    let last: Vec<_> = tree.events(tree.event_log().newest().saturating_sub(30));
    panic!("still not running: {:?}, in progress: {:?}, {last:#?}", wrong(), stuck_in_progress());
}

async fn run(seed: u64) {
    let mut fixture = Fixture::new(seed);
    let spec = fixture.supervisor(0);
    let mut tested = TestTree::start(spec).await;
    let tree = tested.root().tree().clone();
    for _ in 0..40 {
        let paths = tree.paths();
        let width = fixture.random.usize(1..6);
        let actions: Vec<_> = (0..width).map(|_| fixture.action(&tree, &paths)).collect();
        join_all(actions).await;
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
    let gone = |path: &String| tree.node(path).is_none_or(|node| node.state == State::Stopped);
    eventually("nothing runs", || tree.paths().iter().all(gone)).await;
}

#[test]
fn a_random_tree_recovers_or_exits_with_a_reason() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (first, count) = (number("ORCHESTRATOR_TEST_SEED", 1u64), number("ORCHESTRATOR_TEST_SEEDS", 12u64));
    for seed in first..first + count {
        let lived = std::panic::catch_unwind(|| actix_rt::System::new().block_on(run(seed)));
        assert!(lived.is_ok(), "seed {seed} failed: ORCHESTRATOR_TEST_SEED={seed} ORCHESTRATOR_TEST_SEEDS=1");
    }
}
