//! When to look for candidates, and for rows whose holders' leases have ended, and what comes of it.

use std::{rc::Rc, time::Duration};

use futures_util::{FutureExt, future::LocalBoxFuture};
use orchestrator_supervise::sanitize;
use tokio::time::Instant;

use super::{
    Agent,
    order::{Left, Looked, MARGIN, Order, Target},
    orphan::Orphan,
    outage::at_most,
    report::Report,
};
use crate::{
    hand::Held,
    handling::{Handler, Row},
    path,
    service::{Service, Trouble},
    state_change::{Outcome, Planned, key},
    status::Count,
};

/// A rule that the server refuses is tried again after that: the table may have been changed.
const PARKED: Duration = Duration::from_secs(300);

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    /// Begins a look, if it is not under way.
    pub(super) fn look(&mut self, target: Target, now: Instant) -> Option<LocalBoxFuture<'static, Report>> {
        let wall = self.context.wall.now();
        let slot = match target {
            Target::Candidates => &mut self.looks.candidates,
            Target::Others => &mut self.looks.others,
        };
        let mut change = slot.take()?;
        let mut idle = None;
        match target {
            Target::Candidates => {
                change.ask(self.rule.query(wall, self.left_alone.len()));
                idle = self.looks.idle.take();
                self.looks.wanted = false;
            }
            Target::Others => {
                let every = self.rule.lease().unwrap_or_default() / 4;
                let every = every.clamp(Duration::from_millis(200), Duration::from_secs(30));
                self.looks.others_from = now + every;
                self.looks.soonest = None;
            }
        }
        let left_alone = self.left_alone.keys().map(str::to_owned);
        let order = Order {
            target,
            idle,
            token: if self.rule.has_token() { self.token() } else { "".into() },
            want: self.capacity().saturating_sub(self.hand.len()).min(self.batch).max(1),
            excluded: self.hand.keys().iter().cloned().chain(left_alone).collect(),
            began: now,
            now: wall,
            dry: self.rule.dry_run,
            stop: self.stop.clone(),
        };
        let (service, rule) = (self.context.service.clone(), self.rule.clone());
        let look = async move { Report::Looked(Box::new(order.carry_out(&service, &rule, change).await)) };
        Some(look.boxed_local())
    }

    fn token(&self) -> Rc<str> {
        format!("{}/{}", self.context.agent, uuid::Uuid::new_v4()).into()
    }

    /// A look has ended.
    pub(super) fn looked(&mut self, looked: Looked) {
        let Looked { order, change, outcome, left } = looked;
        let (target, now) = (order.target, Instant::now());
        self.looks.seen[target as usize] = change.seen().map(str::to_owned);
        match target {
            Target::Candidates => self.looks.candidates = Some(change),
            Target::Others => {
                self.looks.others = Some(change);
                let wait = |at| now + self.context.wall.until(path::after(at, MARGIN));
                self.looks.soonest = left.soonest.map(wait);
            }
        }
        for text in &left.wrong {
            self.board.unsettled(text.clone());
        }
        if order.dry && target == Target::Candidates && matches!(outcome, Outcome::Nothing { .. }) {
            self.board.would_claim(left.would.clone());
        }
        if !matches!(outcome, Outcome::Failed(_)) {
            self.reading.over();
            self.parked = None;
            self.board.looked(self.context.wall.now());
        }
        match outcome {
            Outcome::Idle { etag } => self.looks.idle = self.rule.is_timeless().then_some(etag),
            Outcome::Nothing { etag } if target == Target::Candidates => self.nothing(etag, &left),
            Outcome::Nothing { .. } => {}
            Outcome::Changed(change) => {
                self.board.count(Count::PassedOver, change.passed_over.len());
                // What was passed over is looked at again: it may have been changed by somebody who did not claim it.
                self.looks.wanted = true;
                if !change.passed_over.is_empty() && change.changed.is_empty() {
                    self.reading.crossed(now);
                }
                self.claimed(change.changed, &order);
            }
            Outcome::Unsettled { plan, reason } => self.unsettled(plan, &reason, &order, now),
            Outcome::Failed(trouble) => self.look_failed(trouble, target, now),
        }
    }

    /// There was nothing to claim.
    fn nothing(&mut self, etag: Option<String>, left: &Left) {
        if left.excluded == 0 && self.rule.is_timeless() {
            self.looks.idle = etag;
        }
        if left.more && !self.rule.dry_run {
            self.looks.wanted = true;
        }
    }

    /// Rows were claimed.
    pub(super) fn claimed(&mut self, rows: Vec<Planned>, order: &Order) {
        let count = rows.len();
        self.board.count(Count::Claimed, count);
        if order.target == Target::Others {
            self.board.count(Count::TakenOver, count);
        }
        if let Some((row, _)) = rows.last()
            && let Some(made) = row.get("RCT").and_then(|made| path::parse_instant(made.as_str()?))
        {
            let lag = self.context.wall.now().duration_since(made);
            self.board.lag(Duration::try_from(lag).unwrap_or_default());
        }
        let until = self.rule.lease().map(|span| order.began + span);
        for (row, claimed) in rows {
            self.take_up(row, claimed, order.token.clone(), until);
        }
    }

    pub(super) fn take_up(&mut self, row: Row, claimed: Row, token: Rc<str>, until: Option<Instant>) {
        let key = self.key_of(&row);
        self.left_alone.claimed(&key, Instant::now());
        let counts = self.rule.counts_attempts();
        let attempt = counts.then(|| self.rule.attempts(&row).saturating_add(1));
        self.hand.take(key, Held { row, claimed, token, until, attempt });
    }

    /// What tells a row apart, as text.
    pub(super) fn key_of(&self, row: &Row) -> String {
        key(row, &[self.rule.key().to_owned()])
    }

    fn unsettled(&mut self, plan: Vec<Planned>, reason: &str, order: &Order, now: Instant) {
        self.writing.failed(reason.to_owned(), now);
        self.looks.anew();
        if self.rule.has_token() {
            self.orphans.push_back(Orphan::new(order.token.clone(), plan, order.began, order.target, now));
            return;
        }
        // Nobody can tell whose they are now: that is for people.
        let keys: Vec<_> = plan.iter().map(|(row, _)| self.rule.id(row).to_string()).collect();
        self.board.unsettled(format!(
            "the claim of {} = {} may have been written, but the answer is lost ({reason}): see whether they are claimed, and \
             give claim.set a column for $token",
            self.rule.key(),
            keys.join(", ")
        ));
    }

    fn look_failed(&mut self, trouble: Trouble, target: Target, now: Instant) {
        let candidates = target == Target::Candidates;
        if candidates {
            self.looks.anew();
        } else {
            self.looks.seen[1] = None;
        }
        match trouble {
            Trouble::Concurrent => {
                self.board.count(Count::Conflicts, 1);
                self.reading.crossed(now);
            }
            Trouble::TooLarge => self.smaller(now),
            Trouble::Away(reason) | Trouble::Unsettled(reason) => self.reading.failed(reason, now),
            Trouble::Denied(reason) => self.reading.denied(reason, now),
            Trouble::Refused(reason) | Trouble::Missing(reason) => {
                let reason = sanitize(reason);
                tracing::error!(rule = self.rule.name, reason, "the rule is parked");
                self.parked = Some((reason, now + at_most(PARKED)));
            }
        }
    }

    /// The server does not take so many rows at once.
    pub(super) fn smaller(&mut self, now: Instant) {
        if self.batch > 1 {
            self.batch /= 2;
            self.largest = self.batch;
            tracing::warn!(rule = self.rule.name, rows = self.batch, "the server takes fewer rows at once");
        } else {
            self.writing.failed("the server does not even take one row at once".to_owned(), now);
        }
    }
}
