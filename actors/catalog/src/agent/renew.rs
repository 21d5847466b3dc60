//! Leases: made longer while rows are in hand, and given back at the stop.

use futures_util::{FutureExt, future::LocalBoxFuture};
use tokio::time::Instant;

use super::{
    Agent,
    report::{Report, Settled},
};
use crate::{
    hand::{Batch, told},
    handling::Handler,
    lane::Purpose,
    rule::{Ending, Settlement},
    service::{Reply, Service, Trouble},
    state_change::{body_of, keys_of},
    template::Meaning,
};

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    /// Makes leases longer of which a third is over.
    pub(super) fn renew(&mut self, now: Instant) -> Option<LocalBoxFuture<'static, Report>> {
        let span = self.rule.lease()?;
        let ids = self.hand.renewable(now, span, self.batch);
        let renewals: Vec<(u64, Settlement)> =
            ids.into_iter().filter_map(|id| Some((id, self.renewal(id)?))).collect();
        let path = renewals.first()?.1.path.clone();
        let (ids, updates): (Vec<_>, Vec<_>) =
            renewals.into_iter().map(|(id, renewal)| (id, renewal.update)).unzip();
        let batch = Batch { ids, path, body: body_of(&updates) };
        Some(
            self.write(batch, Purpose::Renewal)
                .map(move |settled| Report::Renewed(settled, now + span))
                .boxed_local(),
        )
    }

    fn renewal(&self, id: u64) -> Option<Settlement> {
        let held = self.hand.get(id)?;
        let now = self.context.wall.now();
        let meaning = Meaning { token: &held.token, now, row: &held.row, result: None, error: "" };
        self.rule.settle(Ending::Renewed, &held.row, &held.claimed, &meaning).ok().flatten()
    }

    /// What became of leases that were to end at `until`.
    pub(super) fn renewed(&mut self, settled: Settled, until: Instant) {
        let Settled { batch, answer } = settled;
        let now = Instant::now();
        match answer {
            Ok(Reply::Rows { body, .. }) => {
                self.writing.over();
                let renewals: Vec<_> =
                    batch.ids.iter().filter_map(|id| Some((*id, self.renewal(*id)?.update))).collect();
                let updates = renewals.iter().map(|(id, update)| (*id, update));
                match told(updates, &body, &keys_of(&batch.path)) {
                    Ok((longer, lost)) => {
                        longer.into_iter().for_each(|id| self.hand.renewed(id, until));
                        // What has ended meanwhile says itself whether it is lost.
                        let live = lost.into_iter().filter(|id| self.hand.ending(*id).is_none());
                        live.collect::<Vec<_>>().into_iter().for_each(|id| self.lose(id));
                    }
                    Err(reason) => self.writing.failed(reason, now),
                }
            }
            Ok(Reply::Unchanged { .. }) => {}
            Err(Trouble::Denied(reason)) => self.writing.denied(reason, now),
            Err(Trouble::TooLarge) => self.smaller(now),
            Err(trouble) => self.writing.failed(trouble.to_string(), now),
        }
    }

    /// It is asked to stop: nothing is begun any more.
    pub(super) fn stop(&mut self, now: Instant) {
        self.grace_ends = Some(now + self.context.grace);
        self.board.phase("stopping", None);
        for id in self.hand.unfinished(false) {
            self.end(id, Ending::Released, None, "");
        }
    }

    /// The grace period is over: what is worked on is given back.
    pub(super) fn give_back(&mut self) {
        for id in self.hand.unfinished(true) {
            if let Some(cancel) = self.cancels.remove(&id) {
                cancel.cancel();
            }
            self.end(id, Ending::Released, None, "");
        }
    }
}
