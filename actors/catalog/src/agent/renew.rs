//! Renewal of leases, and release of rows at a stop.

use bytes::Bytes;
use futures_util::{FutureExt, future::LocalBoxFuture};
use tokio::time::Instant;

use super::{Agent, request::RequestResult};
use crate::{
    claimed_rows::Batch,
    handler::Handler,
    outcome_kind::OutcomeKind,
    priority_semaphore::Purpose,
    rule::Settlement,
    service::{RequestError, Service},
};

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    /// Renews leases of which a third has passed.
    pub(super) fn renew(&mut self, now: Instant) -> Option<LocalBoxFuture<'static, RequestResult>> {
        let span = self.rule.lease()?;
        let ids = self.rows.renewable(now, span, self.batch);
        let renewals: Vec<_> = ids.into_iter().filter_map(|id| Some((id, self.renewal(id)?))).collect();
        // Taken-over rows lack the plan's columns, so they need a write of their own.
        let batch = Batch::new(renewals.iter().map(|(id, renewal)| (*id, renewal)), self.batch)?;
        let write = self.write_batch(&batch, Purpose::Renewal);
        Some(write.map(move |answer| RequestResult::Renewed(batch, answer, now + span)).boxed_local())
    }

    fn renewal(&self, id: u64) -> Option<Settlement> {
        let held = self.rows.get(id)?;
        self.rule.renew(&held.row, &held.claimed, self.context.clock.now())
    }

    /// Handles the result of a renewal; the new leases end at `until`.
    pub(super) fn handle_renewal(
        &mut self,
        batch: &Batch,
        answer: Result<Bytes, RequestError>,
        until: Instant,
    ) {
        let now = Instant::now();
        match answer {
            Ok(body) => {
                self.write_outage.reset();
                match batch.split_by_response(&body) {
                    Ok((renewed, lost)) => {
                        renewed.into_iter().for_each(|id| self.rows.renewed(id, until));
                        // A row with an outcome is settled or lost by its own write.
                        let live = lost.into_iter().filter(|id| self.rows.outcome(*id).is_none());
                        live.collect::<Vec<_>>().into_iter().for_each(|id| self.lose_claim(id));
                    }
                    Err(reason) => self.write_outage.failed(reason, now),
                }
            }
            Err(RequestError::Unauthorized(reason)) => self.write_outage.denied(reason, now),
            Err(RequestError::PayloadTooLarge) => self.reduce_batch(now),
            Err(error) => self.write_outage.failed(error.to_string(), now),
        }
    }

    /// Begins the stop: no handler starts any more, and pending rows are released.
    pub(super) fn begin_stop(&mut self, now: Instant) {
        self.grace_ends = Some(now + self.context.grace);
        self.reporter.set_phase("stopping", None);
        for id in self.rows.unfinished(false) {
            self.settle_row(id, OutcomeKind::Later, None, "");
        }
    }

    /// Releases the rows of running handlers when the grace period is over.
    pub(super) fn release_running(&mut self) {
        for id in self.rows.unfinished(true) {
            if let Some(cancel) = self.cancels.remove(&id) {
                cancel.cancel();
            }
            self.settle_row(id, OutcomeKind::Later, None, "");
        }
    }
}
