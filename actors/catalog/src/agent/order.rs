//! One look, from the order to its outcome: it belongs to nobody while it is under way.

use std::{collections::HashSet, rc::Rc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use orchestrator_supervise::{Recipient, StopToken, sanitize};
use tokio::time::Instant;

use crate::{
    handling::{PlanRow, Row},
    lane::{Lane, Purpose},
    path,
    rule::Rule,
    service::{Service, Trouble},
    state_change::{Outcome, Planned, StateChange, Step, key},
};

/// Clocks differ: a lease of somebody else has ended only that long after its end.
pub(super) const MARGIN: SignedDuration = SignedDuration::from_secs(1);
/// Whoever is asked for a plan answers in time.
const PLAN_TIMEOUT: Duration = Duration::from_secs(30);
/// Of rows that would be claimed, so many are shown.
const SHOWN: usize = 20;

/// Who says what a candidate becomes.
#[derive(Clone)]
pub enum Planner {
    /// The rule's `claim`.
    Rule,
    /// An actor.
    Actor(Recipient<PlanRow>),
}

/// Which rows are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Candidates,
    /// Rows that others hold.
    Others,
}

/// What was ordered.
pub(super) struct Order {
    pub(super) target: Target,
    /// The ETag at which there is nothing to do.
    pub(super) idle: Option<String>,
    /// What tells these claims from all others.
    pub(super) token: Rc<str>,
    /// How many rows to claim at the most.
    pub(super) want: usize,
    /// Keys of rows that are left alone.
    pub(super) excluded: HashSet<String>,
    /// When it was ordered: leases begin then.
    pub(super) began: Instant,
    /// The same by the calendar.
    pub(super) now: Timestamp,
    /// Claim nothing.
    pub(super) dry: bool,
    /// Ends it, unless it is writing already.
    pub(super) stop: StopToken,
}

/// What came of it.
pub(super) struct Looked {
    pub(super) order: Order,
    pub(super) change: StateChange,
    pub(super) outcome: Outcome,
    pub(super) left: Left,
}

/// Candidates that were not claimed.
#[derive(Default)]
pub(super) struct Left {
    /// More than were wanted.
    pub(super) more: bool,
    /// Excluded.
    pub(super) excluded: usize,
    /// When the lease of the one ends whose ends first.
    pub(super) soonest: Option<Timestamp>,
    /// Rows of which no claim could be made, and why.
    pub(super) wrong: Vec<String>,
    /// What would have been claimed.
    pub(super) would: Vec<String>,
}

impl Order {
    /// Looks, plans and claims.
    pub(super) async fn carry_out<S: Service>(
        self,
        service: &S,
        lane: &Lane,
        rule: &Rule,
        planner: &Planner,
        mut change: StateChange,
    ) -> Looked {
        let mut left = Left::default();
        let mut step = change.begin(self.idle.clone());
        let outcome = loop {
            // Neither a server that does not answer nor whoever plans, and may have stopped already, holds up the stop.
            let stopped = || Outcome::Failed(Trouble::Away("the process stops".to_owned()));
            step = match step {
                Step::Get(get) => match self.stop.run_until_cancelled(service.get(get)).await {
                    Some(answer) => change.answered(answer),
                    None => break stopped(),
                },
                Step::Plan(rows) => {
                    let plan = plan(rule, planner, rows, &self, &mut left);
                    match self.stop.run_until_cancelled(plan).await {
                        Some(plan) => change.planned(plan),
                        None => break stopped(),
                    }
                }
                Step::Put(put) => {
                    let _pass = lane.enter(Purpose::Claim, rule.priority).await;
                    change.answered(service.put(put).await)
                }
                Step::Done(outcome) => break outcome,
            };
        };
        Looked { order: self, change, outcome, left }
    }
}

async fn plan(
    rule: &Rule,
    planner: &Planner,
    rows: Vec<Row>,
    order: &Order,
    left: &mut Left,
) -> Vec<Planned> {
    let key_name = [rule.key().to_owned()];
    let mut plan = Vec::new();
    for row in rows {
        if order.excluded.contains(&key(&row, &key_name)) {
            left.excluded += 1;
            continue;
        }
        if order.target == Target::Others {
            // A lease that cannot be read is left to people.
            let Some(end) = rule.lease_end(&row) else { continue };
            if path::after(end, MARGIN) > order.now {
                left.soonest = Some(left.soonest.map_or(end, |soonest| soonest.min(end)));
                continue;
            }
        }
        if plan.len() == order.want {
            left.more = true;
            break;
        }
        match update(rule, planner, &row, order).await {
            Ok(Some(_)) if order.dry => {
                if left.would.len() < SHOWN {
                    left.would.push(sanitize(rule.id(&row).to_string()));
                }
            }
            Ok(Some(update)) => plan.push((row, update)),
            Ok(None) => {}
            Err(error) => left.wrong.push(format!("{} = {}: {error}", rule.key(), rule.id(&row))),
        }
    }
    plan
}

/// What a candidate becomes.
async fn update(rule: &Rule, planner: &Planner, row: &Row, order: &Order) -> Result<Option<Row>, String> {
    let claim = match order.target {
        Target::Candidates => rule.claim(row, &order.token, order.now)?,
        Target::Others => rule.claim_over(row, &order.token, order.now)?,
    };
    let Planner::Actor(actor) = planner else { return Ok(Some(claim)) };
    let question = PlanRow { rule: rule.name.clone(), row: row.clone() };
    match actor.ask(question, PLAN_TIMEOUT).await {
        // What it does not say is as the rule has it: the server writes NULL into columns that a row leaves out.
        Ok(update) => Ok(update.map(|update| claim.into_iter().chain(update).collect())),
        Err(error) => Err(format!("whoever plans did not answer: {error}")),
    }
}
