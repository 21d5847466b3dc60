//! One poll: read, plan and claim. It owns its state while it is in flight.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
};

use jiff::{SignedDuration, Timestamp};
use orchestrator_catalog_rules::{
    path,
    rows::{Row, body_of, key},
    rule::Rule,
};
use orchestrator_supervise::StopToken;
use orchestrator_text::sanitize;
use tokio::time::Instant;

use crate::{
    edge::handlers::{PlanAnswers, Planner},
    priority_semaphore::{Purpose, WritePriority},
    service::{RequestError, Service},
    state_change::{ChangeResult, Planned, StateChange},
};

/// Margin for clocks that differ: another agent's lease counts as ended this long after its end
/// (CONTRACT CS05).
pub(super) const MARGIN: SignedDuration = SignedDuration::from_secs(1);
/// Maximum number of rows shown by a dry run.
const SHOWN: usize = 20;

/// Rows that a poll reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Candidates,
    /// Rows that other agents have claimed.
    HeldRows,
}

/// One poll: its parameters, and what it found.
pub(super) struct Poll {
    pub(super) target: Target,
    /// ETag at which there was nothing to do.
    pub(super) idle: Option<String>,
    /// Token of the claims; empty without a token column.
    pub(super) token: Rc<str>,
    /// Maximum number of rows to claim.
    pub(super) max_rows: usize,
    /// Keys of rows that must not be claimed.
    pub(super) excluded: HashSet<String>,
    /// Time of the request; leases begin here.
    pub(super) started: Instant,
    /// The same time by the wall clock.
    pub(super) now: Timestamp,
    /// Dry run: claims nothing.
    pub(super) dry_run: bool,
    /// Priority of the claim among the writes of the catalog.
    pub(super) priority: i32,
    /// Program that plans the claims; None: all candidates are claimed.
    pub(super) planner: Option<Rc<Planner>>,
    /// Cancels the poll, unless its write has begun.
    pub(super) stop: StopToken,
    pub(super) change: StateChange,
    pub(super) unclaimed: Unclaimed,
}

/// Candidates that were not claimed.
#[derive(Default)]
pub(super) struct Unclaimed {
    /// Number of candidates that were read.
    pub(super) found: usize,
    /// There are more candidates than wanted.
    pub(super) more: bool,
    /// Number of excluded candidates.
    pub(super) excluded: usize,
    /// Earliest end of another agent's lease.
    pub(super) next_lease_end: Option<Timestamp>,
    /// Rows whose claim could not be computed, with the reason.
    pub(super) errors: Vec<String>,
    /// Rows that a dry run would claim.
    pub(super) would_claim: Vec<String>,
    /// Keys of rows to be deferred, since their plans cannot be used.
    pub(super) faulty: Vec<String>,
    /// Rows that the program leaves, by [`left_key`].
    pub(super) left: Vec<String>,
    /// Failure of the program.
    pub(super) failure: Option<String>,
}

/// Key for the present content of the row: a changed row is asked about at once.
fn left_key(key: &str, row: &Row) -> String {
    let mut hasher = DefaultHasher::new();
    body_of(&[row]).hash(&mut hasher);
    format!("{key} {:016x}", hasher.finish())
}

impl Poll {
    /// Reads candidates, plans and claims.
    pub(super) async fn execute<S: Service>(&mut self, service: &S, rule: &Rule) -> ChangeResult {
        self.claim(service, rule).await.unwrap_or_else(|ended| ended)
    }

    /// # Errors
    /// The poll ends before its write.
    async fn claim<S: Service>(&mut self, service: &S, rule: &Rule) -> Result<ChangeResult, ChangeResult> {
        // An unresponsive server must not delay the stop.
        let answer = self.stop.run_until_cancelled(service.get(self.change.read())).await;
        let answer =
            answer.unwrap_or_else(|| Err(RequestError::Unavailable("the process is stopping".to_owned())));
        let rows = self.change.handle_read(answer, self.idle.as_deref())?;
        let mut unclaimed = Unclaimed { found: rows.len(), ..Unclaimed::default() };
        // Dropped, the program is killed.
        let plan = self.stop.run_until_cancelled(self.plan(rule, rows, &mut unclaimed)).await;
        self.unclaimed = unclaimed;
        let plan = plan.unwrap_or_default();
        let put = self.change.write(&plan)?;
        let priority = WritePriority { purpose: Purpose::Claim, priority: self.priority };
        Ok(self.change.handle_write(plan, service.put(put, priority).await))
    }

    /// Plans the claims, and records in `unclaimed` the candidates that are not claimed.
    async fn plan(&self, rule: &Rule, rows: Vec<Row>, unclaimed: &mut Unclaimed) -> Vec<Planned> {
        match self.planner.as_ref().filter(|_| self.target == Target::Candidates) {
            Some(planner) => self.plan_by_program(rule, planner, rows, unclaimed).await,
            None => {
                let rows = self.wanted(rule, rows, unclaimed);
                let claim = |row: &Row| match self.target {
                    Target::Candidates => rule.claim(row, &self.token, self.now),
                    Target::HeldRows => rule.take_over_claim(row, &self.token, self.now),
                };
                let claims = rows.into_iter().filter_map(|row| {
                    let claim = claim(&row);
                    self.checked(rule, row, claim, unclaimed)
                });
                claims.collect()
            }
        }
    }

    /// Asks the program about each row.
    async fn plan_by_program(
        &self,
        rule: &Rule,
        planner: &Planner,
        mut rows: Vec<Row>,
        unclaimed: &mut Unclaimed,
    ) -> Vec<Planned> {
        if !rows.is_empty() {
            // One row that the program cannot read must not hide the others.
            let first = planner.failures() % rows.len();
            rows.rotate_left(first);
        }
        let rows = self.wanted(rule, rows, unclaimed);
        let PlanAnswers { answers, failure } = planner.plan(&rows).await;
        unclaimed.more |= failure.is_none() && answers.len() < rows.len();
        unclaimed.failure = failure;
        let key_name = [rule.key().to_owned()];
        let mut plan = Vec::new();
        for (row, answer) in rows.into_iter().zip(answers) {
            let claim = match answer {
                Ok(Some(answer)) => rule.planned_claim(&row, &answer, &self.token, self.now),
                Ok(None) => {
                    unclaimed.left.push(left_key(&key(&row, &key_name), &row));
                    continue;
                }
                Err(reason) => Err(reason),
            };
            if claim.is_err() {
                unclaimed.faulty.push(key(&row, &key_name));
            }
            plan.extend(self.checked(rule, row, claim, unclaimed));
        }
        plan
    }

    /// Rows that may be claimed, at most `max_rows`.
    fn wanted(&self, rule: &Rule, rows: Vec<Row>, unclaimed: &mut Unclaimed) -> Vec<Row> {
        let key_name = [rule.key().to_owned()];
        let mut wanted = Vec::new();
        for row in rows {
            let key = key(&row, &key_name);
            let is_left = || self.planner.is_some() && self.excluded.contains(&left_key(&key, &row));
            if self.excluded.contains(&key) || is_left() {
                unclaimed.excluded += 1;
                continue;
            }
            if self.target == Target::HeldRows {
                // A lease that cannot be parsed is left to operators.
                let Some(end) = rule.lease_end(&row) else { continue };
                if path::saturating_add(end, MARGIN) > self.now {
                    unclaimed.next_lease_end =
                        Some(unclaimed.next_lease_end.map_or(end, |next_lease_end| next_lease_end.min(end)));
                    continue;
                }
            }
            if wanted.len() == self.max_rows {
                unclaimed.more = true;
                break;
            }
            wanted.push(row);
        }
        wanted
    }

    /// None in a dry run, or if the claim cannot be computed.
    fn checked(
        &self,
        rule: &Rule,
        row: Row,
        claim: Result<Row, String>,
        unclaimed: &mut Unclaimed,
    ) -> Option<Planned> {
        match claim {
            Ok(_) if self.dry_run => {
                if unclaimed.would_claim.len() < SHOWN {
                    unclaimed.would_claim.push(sanitize(rule.id(&row).to_string()));
                }
            }
            Ok(claim) => return Some((row, claim)),
            Err(error) => unclaimed.errors.push(format!("{} = {}: {error}", rule.key(), rule.id(&row))),
        }
        None
    }
}
