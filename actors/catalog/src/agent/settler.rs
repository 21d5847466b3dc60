//! Writes of settlements and of renewals, in batches, each row fenced by its claim. Decides what is written
//! and what an answer means; the agent sends it.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use orchestrator_catalog_rules::{outcome_kind::OutcomeKind, rule::Settlement};
use tokio::time::Instant;

use super::{claims::Claims, outage::Outage, rule_cx::RuleCx};
use crate::{claimed_rows::Batch, handler::Outcome, service::RequestError};

/// Longest time for which settlements are collected.
const COLLECT_MAX: Duration = Duration::from_millis(50);

/// State of a rule's writes.
pub(super) struct Settler {
    cx: Rc<RuleCx>,
    /// Rows of the next write. Halved while a rejected row is isolated.
    pub(super) batch: usize,
    /// Largest write that the server accepts, in rows.
    batch_max: usize,
    /// Settlements that are ready before are written together.
    collect_until: Option<Instant>,
    pub(super) outage: Outage,
}

impl Settler {
    pub(super) fn new(cx: Rc<RuleCx>, batch_max: usize, outage: Outage) -> Self {
        Self { cx, batch: batch_max, batch_max, collect_until: None, outage }
    }

    /// Renewals of leases of which a third has passed, and the end of the new leases.
    pub(super) fn renewals(&self, claims: &Claims, now: Instant) -> Option<(Batch, Instant)> {
        let span = self.cx.rule.lease()?;
        let ids = claims.rows.renewable(now, span, self.batch);
        let renewal = |id: u64| -> Option<(u64, Settlement)> {
            let held = claims.rows.get(id)?;
            Some((id, self.cx.rule.renew(&held.row, &held.claimed, self.cx.clock.now())?))
        };
        let renewals: Vec<_> = ids.into_iter().filter_map(renewal).collect();
        // Taken-over rows lack the plan's columns, so they need a write of their own.
        let batch = Batch::new(renewals.iter().map(|(id, renewal)| (*id, renewal)), self.batch)?;
        Some((batch, now + span))
    }

    /// Handles the response to renewals; the new leases end at `until`.
    pub(super) fn handle_renewal(
        &mut self,
        batch: &Batch,
        answer: Result<Bytes, RequestError>,
        until: Instant,
        claims: &mut Claims,
    ) {
        let now = Instant::now();
        match answer {
            Ok(body) => {
                self.outage.reset();
                match batch.split_by_response(&body) {
                    Ok((renewed, lost)) => {
                        renewed.into_iter().for_each(|id| claims.rows.renewed(id, until));
                        for id in lost {
                            // A row with an outcome is settled or lost by its own write.
                            if claims.rows.outcome(id).is_none() {
                                claims.lose(id);
                            }
                        }
                    }
                    Err(reason) => self.outage.failed(reason, now),
                }
            }
            Err(RequestError::Unauthorized(reason)) => self.outage.denied(reason, now),
            Err(RequestError::PayloadTooLarge) => self.reduce_batch(now),
            Err(error) => self.outage.failed(error.to_string(), now),
        }
    }

    /// Settlements are collected for one write: as long as the last one took, while other rows may be settled
    /// meanwhile. A write costs most servers far more than a row.
    pub(super) fn collects_until(&self, now: Instant) -> Option<Instant> {
        self.collect_until.filter(|until| *until > now)
    }

    /// Handles the response to a batch of settlements, whose write began at `begun`.
    pub(super) fn handle_settled(
        &mut self,
        batch: &Batch,
        answer: Result<Bytes, RequestError>,
        begun: Instant,
        claims: &mut Claims,
    ) {
        let now = Instant::now();
        self.collect_until = Some(now + (now - begun).min(COLLECT_MAX));
        let unknown = match answer {
            Ok(body) => {
                self.outage.reset();
                self.batch = (self.batch * 2).min(self.batch_max);
                match batch.split_by_response(&body) {
                    Ok((done, missing)) => {
                        done.into_iter().for_each(|id| claims.finish(id));
                        for id in missing {
                            if !claims.rows.missing(id) {
                                claims.lose(id);
                            }
                        }
                        return;
                    }
                    Err(reason) => reason,
                }
            }
            Err(RequestError::OutcomeUnknown(reason)) => reason,
            Err(RequestError::Unavailable(reason)) => return self.outage.failed(reason, now),
            Err(RequestError::PreconditionFailed | RequestError::Aborted) => {
                return self.outage.conflicted(now);
            }
            Err(RequestError::Unauthorized(reason)) => return self.outage.denied(reason, now),
            Err(RequestError::PayloadTooLarge) => return self.reduce_batch(now),
            Err(RequestError::Rejected(reason) | RequestError::NotFound(reason)) => {
                return self.handle_rejected(batch, &reason, claims);
            }
        };
        claims.rows.outcome_unknown(&batch.ids);
        self.outage.failed(unknown, now);
    }

    /// Handles a rejected batch. One row may be the cause, so the batch is bisected.
    fn handle_rejected(&mut self, batch: &Batch, reason: &str, claims: &mut Claims) {
        if batch.ids.len() > 1 {
            self.batch = (batch.ids.len() / 2).max(1);
            return;
        }
        self.batch = self.batch_max;
        let Some(id) = batch.ids.first().copied() else { return };
        let Some(held) = claims.rows.get(id) else { return };
        let (outcome, key) = (claims.rows.outcome(id), claims.key_of(&held.row));
        claims.report_unsettled(id, &format!(" cannot be written: {reason}"));
        if outcome == Some(OutcomeKind::Done) {
            claims.handler_finished(id, Some(Outcome::failed(reason)), Duration::ZERO);
            if claims.rows.outcome(id) == Some(OutcomeKind::Done) {
                claims.forget(id);
            }
        } else {
            // The row becomes available when its lease ends.
            claims.forget(id);
        }
        claims.deferred.refused(&key, Instant::now(), reason);
    }

    /// Halves the size of writes after 413.
    pub(super) fn reduce_batch(&mut self, now: Instant) {
        if self.batch > 1 {
            self.batch /= 2;
            self.batch_max = self.batch;
            let (rule, rows) = (&self.cx.rule.name, self.batch);
            tracing::warn!(rule, rows, "the server accepts fewer rows in one write");
        } else {
            self.outage.failed("the server rejects a write of one row as too large".to_owned(), now);
        }
    }
}
