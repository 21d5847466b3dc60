//! An agent on an in-memory table, with tokio's paused clock.

mod claims;
mod competition;
mod faults;
mod settlements;
mod table;

use std::{cell::RefCell, collections::BTreeMap, pin::Pin, rc::Rc, time::Duration};

use orchestrator_catalog_rules::rows::Row;
use orchestrator_exchange::HookEvents;
use orchestrator_supervise::{StopToken, testing};
use serde_json::{Value, json};
use tokio::{sync::watch, task::LocalSet};

use self::table::{Fault, Table};
use super::*;
use crate::{
    assignment::Assignment,
    config::RuleConfig,
    handler::{Outcome, Task},
    status::{RuleStatus, Status},
};

/// Handler whose runs have a known duration.
#[derive(Clone)]
struct TestHandler {
    /// Duration of a run.
    duration: Duration,
    /// Added for each run that began before.
    step: Duration,
    outcome: Rc<dyn Fn(&Task) -> Outcome>,
    /// Tasks that were started.
    begun: Rc<RefCell<Vec<Task>>>,
}

impl Handler for TestHandler {
    async fn handle(&self, task: Task) -> Outcome {
        let before = u32::try_from(self.begun.borrow().len()).expect("a few runs");
        self.begun.borrow_mut().push(task.clone());
        tokio::time::sleep(self.duration + self.step * before).await;
        (self.outcome)(&task)
    }
}

fn done_handler() -> TestHandler {
    TestHandler {
        duration: Duration::ZERO,
        step: Duration::ZERO,
        outcome: Rc::new(|_| Outcome::Done(Row::new())),
        begun: Rc::default(),
    }
}

/// An in-memory table and agents on it.
struct Fixture {
    table: Table,
    clock: WallClock,
    triggers: watch::Sender<Triggers>,
    assignment: Assignment,
    stop: StopToken,
    retire: StopToken,
    statuses: RefCell<BTreeMap<String, Status>>,
}

impl Fixture {
    fn new(rows: usize) -> Self {
        let at = "2026-11-20T12:00:00Z".parse().expect("a time");
        let clock = WallClock::Fixed { at, since: Instant::now() };
        let table = Table::new(clock);
        table.insert(rows);
        let (triggers, _) = watch::channel(Triggers { notices_up: true, ..Triggers::default() });
        let (stop, retire) = (StopToken::new(), StopToken::new());
        let assignment = Assignment::new(RuleConfig::default());
        Self { table, clock, triggers, assignment, stop, retire, statuses: RefCell::default() }
    }

    /// Spawns an agent as a local task.
    fn agent(&self, name: &str, rule: &Value, handler: &TestHandler) -> tokio::task::JoinHandle<()> {
        let mut config: RuleConfig = serde_json::from_value(rule.clone()).expect("a configuration");
        config.name = name.to_owned();
        let planner = config.plan.planner(name).expect("a plan");
        let rule = Rule::new(&config.definition()).unwrap_or_else(|errors| panic!("{errors:?}"));
        let context = AgentContext {
            service: self.table.clone(),
            clock: self.clock,
            agent: name.into(),
            max_batch: 1_000,
            cache: true,
            intervals: PollIntervals {
                poll: secs(86_400),
                poll_without_notices: secs(86_400),
                coalesce: Duration::from_millis(100),
                coalesce_max: secs(1),
            },
            backoff_factor: 1.0,
            grace: Duration::from_secs(20),
        };
        let status = self.statuses.borrow_mut().entry(name.to_owned()).or_default().clone();
        let reporter = StatusReporter::new(
            name,
            &"http://catalog".into(),
            &status,
            &testing::child("catalog/test"),
            &HookEvents::default(),
        );
        let agent = Agent::new(&config, rule, context, handler.clone(), reporter, Duration::MAX);
        let agent = agent.planner(planner);
        let run = agent.run(
            self.triggers.subscribe(),
            self.assignment.questions(),
            self.stop.clone(),
            self.retire.clone(),
        );
        #[expect(clippy::disallowed_methods, reason = "the test's own task")]
        tokio::task::spawn_local(run)
    }

    fn status(&self, name: &str) -> RuleStatus {
        self.statuses.borrow().get(name).expect("a rule").get()
    }

    fn poll(&self) {
        self.triggers.send_modify(|triggers| triggers.notices += 1);
    }

    /// Advances the clock until `is` holds, at most `within`; returns the time that took.
    async fn until(&self, within: Duration, what: &str, is: impl Fn(&Self) -> bool) -> Duration {
        let begun = Instant::now();
        while !is(self) {
            assert!(begun.elapsed() < within, "not within {within:?}: {what}: {:#?}", self.statuses.borrow());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        begun.elapsed()
    }

    async fn complete(&self, rows: usize, within: Duration) -> Duration {
        self.until(within, "all rows are complete", |fixture| {
            fixture.table.count("state", &json!("complete")) == rows
        })
        .await
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A rule that uses every feature.
fn full_rule() -> Value {
    json!({
        "table": "Foo", "filter": "state=actionable", "limit": 50, "concurrency": 10, "attempts_column": "attempts",
        "max_attempts": 3,
        "backoff": { "first_ms": 1_000, "max_ms": 60_000 },
        "claim": { "set": {
            "state": "claimed", "claimed_by": "$token", "lease_until": "$now+60s", "attempts": "$row.attempts+1"
        } },
        "done": { "state": "complete", "claimed_by": null, "doc": "$result.doc" },
        "fail": { "state": "actionable", "claimed_by": null, "lease_until": null, "error": "$error" },
        "dead": { "state": "dead", "claimed_by": null, "lease_until": null, "error": "$error" },
    })
}

/// Runs a test with tokio's clock paused, so that waiting takes no time.
fn run_with_paused_time(test: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    // Boxed, so that the runtime's code is compiled once and not for each test.
    let test: Pin<Box<dyn Future<Output = ()>>> = Box::pin(test());
    LocalSet::new().block_on(&runtime, test);
}
