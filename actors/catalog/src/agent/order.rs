//! One look, from the order to its outcome: it belongs to nobody while it is under way.

use std::{collections::HashSet, rc::Rc};

use jiff::{SignedDuration, Timestamp};
use orchestrator_supervise::{StopToken, sanitize};
use tokio::time::Instant;

use crate::{
    handling::Row,
    lane::{Purpose, Turn},
    path,
    rule::Rule,
    service::{Service, Trouble},
    state_change::{Outcome, Planned, StateChange, Step, key},
};

/// Clocks differ: a lease of somebody else has ended only that long after its end.
pub(super) const MARGIN: SignedDuration = SignedDuration::from_secs(1);
/// Of rows that would be claimed, so many are shown.
const SHOWN: usize = 20;

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
        rule: &Rule,
        mut change: StateChange,
    ) -> Looked {
        let mut left = Left::default();
        let mut step = change.begin(self.idle.clone());
        let outcome = loop {
            step = match step {
                // A server that does not answer does not hold up the stop.
                Step::Get(get) => match self.stop.run_until_cancelled(service.get(get)).await {
                    Some(answer) => change.answered(answer),
                    None => break Outcome::Failed(Trouble::Away("the process stops".to_owned())),
                },
                Step::Plan(rows) => change.planned(self.plan(rule, rows, &mut left)),
                Step::Put(put) => {
                    let turn = Turn { purpose: Purpose::Claim, priority: rule.priority };
                    change.answered(service.put(put, turn).await)
                }
                Step::Done(outcome) => break outcome,
            };
        };
        Looked { order: self, change, outcome, left }
    }
    /// Says what becomes of candidates, and notes in `left` which of them are not claimed.
    fn plan(&self, rule: &Rule, rows: Vec<Row>, left: &mut Left) -> Vec<Planned> {
        let key_name = [rule.key().to_owned()];
        let mut plan = Vec::new();
        for row in rows {
            if self.excluded.contains(&key(&row, &key_name)) {
                left.excluded += 1;
                continue;
            }
            if self.target == Target::Others {
                // A lease that cannot be read is left to people.
                let Some(end) = rule.lease_end(&row) else { continue };
                if path::after(end, MARGIN) > self.now {
                    left.soonest = Some(left.soonest.map_or(end, |soonest| soonest.min(end)));
                    continue;
                }
            }
            if plan.len() == self.want {
                left.more = true;
                break;
            }
            let claim = match self.target {
                Target::Candidates => rule.claim(&row, &self.token, self.now),
                Target::Others => rule.claim_over(&row, &self.token, self.now),
            };
            match claim {
                Ok(_) if self.dry => {
                    if left.would.len() < SHOWN {
                        left.would.push(sanitize(rule.id(&row).to_string()));
                    }
                }
                Ok(claim) => plan.push((row, claim)),
                Err(error) => left.wrong.push(format!("{} = {}: {error}", rule.key(), rule.id(&row))),
            }
        }
        plan
    }
}
