//! Test support: a tree that fails the test if a child outlives it, and conditions with a deadline.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use orchestrator_observe::{CrashLog, Event, EventLog, NodeSnapshot, State, Vitals};

use crate::{ChildState, Root, SupervisorSpec, Tree, sends::UNDECLARED};

/// Longest wait for a condition.
const DEADLINE: Duration = Duration::from_secs(20);

type BoxedTest<'a> = Box<dyn FnOnce(Tree) -> Pin<Box<dyn Future<Output = ()> + 'a>> + 'a>;

/// Tree under test.
#[derive(Debug)]
pub struct TestTree {
    root: Root,
}

impl TestTree {
    /// Runs `test` with a tree named `test`, then stops the tree.
    ///
    /// # Panics
    /// If the test panics, or the tree or one of its children does not stop.
    pub fn run<Fut: Future<Output = ()>>(spec: SupervisorSpec, test: impl FnOnce(Tree) -> Fut) {
        Self::run_boxed(spec, Box::new(|tree| Box::pin(test(tree))));
    }

    /// As [`TestTree::run`]. Not generic, so that the runtime's code is compiled once and not for each test.
    fn run_boxed<'a>(spec: SupervisorSpec, test: BoxedTest<'a>) {
        actix_rt::System::new().block_on(async {
            let mut tested = Self::start(spec).await;
            test(tested.root.tree().clone()).await;
            tested.stop().await;
        });
    }

    /// Starts a tree named `test`.
    ///
    /// # Panics
    /// If the specification is invalid.
    pub async fn start(spec: SupervisorSpec) -> Self {
        let root = Root::start("test", spec.allow_chaos(true)).await.expect("a valid specification");
        Self { root }
    }

    /// Root of the tree.
    pub fn root(&mut self) -> &mut Root {
        &mut self.root
    }

    /// Stops the tree and checks that all children have ended, and that none sent undeclared messages.
    ///
    /// # Panics
    /// If it does not stop in time, a child still runs, or a message was not declared.
    pub async fn stop(&mut self) {
        let stopped = tokio::time::timeout(DEADLINE, self.root.stop()).await;
        assert!(stopped.is_ok(), "the tree did not stop: {:#?}", self.root.tree().snapshot());
        // A killed thread ends a moment later.
        let left = |wanted: fn(State) -> bool| {
            let snapshot = self.root.tree().snapshot();
            let mut left = Vec::new();
            snapshot.root.walk(&mut |node: &NodeSnapshot| {
                if wanted(node.state) {
                    left.push(format!("{} is {}", node.path, node.state));
                }
            });
            left
        };
        eventually("no thread is stuck", || left(|state| state == State::Stuck).is_empty()).await;
        let left = left(|state| state != State::Stopped);
        assert!(left.is_empty(), "children outlived their test: {left:?}");
        let events = self.root.tree().events(0);
        let undeclared = events.iter().find(|event| format!("{event:?}").contains(UNDECLARED));
        assert!(undeclared.is_none(), "a message was not declared: {undeclared:?}");
    }
}

/// Creates vitals without a child, for code that only needs metrics.
pub fn vitals(path: &str) -> Arc<Vitals> {
    child(path).vitals().clone()
}

/// Creates the state of a child that no tree has.
pub fn child(path: &str) -> Arc<ChildState> {
    ChildState::new(path, EventLog::default(), CrashLog::default(), Duration::MAX)
}

/// Waits until `condition` holds.
///
/// # Panics
/// If it does not within 20 s; `what` describes it.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < give_up, "gave up waiting until {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits for the first event after `seq` that `matches`, and returns it.
///
/// # Panics
/// If none comes within 20 s; `what` describes it.
pub async fn event_after(tree: &Tree, seq: u64, what: &str, matches: impl Fn(&Event) -> bool) -> Event {
    let mut seen = seq;
    let found = tokio::time::timeout(DEADLINE, async {
        loop {
            for event in tree.events(seen) {
                seen = event.seq;
                if matches(&event) {
                    return event;
                }
            }
            tree.event_log().wait_after(seen).await;
        }
    });
    match found.await {
        Ok(event) => event,
        Err(_elapsed) => panic!("no event `{what}` among {:#?}", tree.events(seq)),
    }
}
