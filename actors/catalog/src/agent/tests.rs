//! A rule at work on a table in memory, on a clock that is turned by hand.

mod accidents;
mod claims;
mod endings;
mod table;

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use orchestrator_supervise::{StopToken, testing};
use serde_json::{Value, json};
use tokio::{sync::watch, task::LocalSet};

use self::table::{Accident, Table};
use super::*;
use crate::{
    config::RuleConfig,
    handling::{Row, Task, Verdict},
    status::{RuleStatus, Status},
};

/// What a test's handler does.
#[derive(Clone)]
struct Hands {
    /// How long it takes.
    span: Duration,
    verdict: Rc<dyn Fn(&Task) -> Verdict>,
    /// What was begun, and by whom.
    begun: Rc<RefCell<Vec<Task>>>,
}

impl Handler for Hands {
    async fn handle(&self, task: Task) -> Verdict {
        self.begun.borrow_mut().push(task.clone());
        tokio::time::sleep(self.span).await;
        (self.verdict)(&task)
    }
}

fn done() -> Hands {
    Hands { span: Duration::ZERO, verdict: Rc::new(|_| Verdict::Done(Row::new())), begun: Rc::default() }
}

/// A world with a table, and agents in it.
struct World {
    table: Table,
    wall: Wall,
    calls: watch::Sender<Call>,
    stop: StopToken,
    retire: StopToken,
    statuses: RefCell<BTreeMap<String, Status>>,
}

impl World {
    fn new(rows: usize) -> Self {
        let at = "2026-11-20T12:00:00Z".parse().expect("a time");
        let wall = Wall::Steady { at, when: Instant::now() };
        let table = Table::new(wall);
        table.insert(rows);
        let (calls, _) = watch::channel(Call::default());
        let (stop, retire) = (StopToken::new(), StopToken::new());
        Self { table, wall, calls, stop, retire, statuses: RefCell::default() }
    }

    /// An agent at work, as a task of the local set.
    fn agent(&self, name: &str, rule: &Value, hands: &Hands) -> tokio::task::JoinHandle<()> {
        let mut rule: RuleConfig = serde_json::from_value(rule.clone()).expect("a configuration");
        rule.name = name.to_owned();
        let rule = Rule::new(&rule).unwrap_or_else(|errors| panic!("{errors:?}"));
        let context = AgentContext {
            service: self.table.clone(),
            wall: self.wall,
            agent: name.into(),
            max_batch: 1_000,
            cache: true,
            grace: Duration::from_secs(20),
        };
        let status = self.statuses.borrow_mut().entry(name.to_owned()).or_default().clone();
        let board = Board::new(name, &status, &testing::vitals("catalog/test"));
        let agent = Agent::new(Rc::new(rule), context, Rc::new(hands.clone()), board);
        let run = agent.run(self.calls.subscribe(), self.stop.clone(), self.retire.clone());
        #[expect(clippy::disallowed_methods, reason = "the test's own task")]
        tokio::task::spawn_local(run)
    }

    fn status(&self, name: &str) -> RuleStatus {
        self.statuses.borrow().get(name).expect("a rule").get()
    }

    fn look(&self) {
        self.calls.send_modify(|call| call.looks += 1);
    }

    /// Turns the clock until it is so, at the most for `within`; gives how long that was.
    async fn until(&self, within: Duration, what: &str, is: impl Fn(&Self) -> bool) -> Duration {
        let begun = Instant::now();
        while !is(self) {
            assert!(begun.elapsed() < within, "not within {within:?}: {what}: {:#?}", self.statuses.borrow());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        begun.elapsed()
    }

    async fn complete(&self, rows: usize, within: Duration) -> Duration {
        self.until(within, "all rows are complete", |world| {
            world.table.count("state", &json!("complete")) == rows
        })
        .await
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A rule with everything.
fn whole() -> Value {
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

/// Runs a test on a clock that stands still but for what it waits for.
fn on_a_turned_clock(test: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    LocalSet::new().block_on(&runtime, test());
}
