//! Taking and confirming the lease.

use std::future::Future;

use orchestrator_observe::millis;
use orchestrator_subsystem::DETAIL;

use super::{
    Executor,
    error::ActionError,
    renewal::{renew, with_renewal},
};
use orchestrator_producer_rules::{
    advance::Event,
    lease::{Claim, HeldLease, Lease, claim},
};

use crate::{
    completion::Deliveries,
    environment::{Environment, Peer},
    holder::HolderState,
    queue::Queue,
    store::Store,
};

impl<S: Store, Q: Queue, P: Environment> Executor<S, Q, P> {
    /// Returns the epoch that fences writes.
    pub(super) fn fence(&self) -> Option<u64> {
        self.held_lease.get().map(|held_lease| held_lease.epoch)
    }

    /// Gives up the lease, which another producer may have, and the deliveries under it.
    pub(super) fn lease_lost(&mut self) -> Event {
        self.held_lease.set(None);
        self.deliveries.iter_mut().for_each(Deliveries::give_up);
        Event::LeaseLost
    }

    /// Takes the lease if it is free.
    pub(super) async fn take_lease(&self) -> Result<Event, ActionError> {
        self.held_lease.set(None);
        // Until then another producer pushes and delivers.
        self.env.set_held(false);
        self.env.report_undelivered(0);
        let ttl_ms = millis(self.settings.lease);
        // Read before the database's clock, so that the lease never seems longer than it is.
        let asked_ms = self.env.now_ms();
        let (now_ms, seen) = self.retry_store(async |store| store.lease().await).await?;
        let state = seen.as_ref().map(|lease| self.env.holder_state(&lease.holder));
        let has_ended = state == Some(HolderState::Ended);
        let epoch = match claim(now_ms, seen.as_ref(), &self.settings.holder, has_ended) {
            Claim::Take { epoch } => epoch,
            Claim::Wait { ms } => {
                if let (Some(lease), Some(state)) = (&seen, state) {
                    self.env.report_foreign_lease(lease, ms, state);
                }
                return Ok(Event::LeaseHeld);
            }
        };
        let until_ms = now_ms.saturating_add_unsigned(ttl_ms);
        let lease = Lease { holder: self.settings.holder.clone(), epoch, until_ms };
        if !self.retry_store(async |store| store.take(seen.as_ref(), &lease).await).await? {
            return Ok(Event::LeaseHeld);
        }
        tracing::debug!(target: DETAIL, epoch, holder = ?self.settings.holder, "the lease is taken");
        self.held_lease.set(Some(HeldLease::new(epoch, asked_ms, ttl_ms)));
        Ok(Event::Leased { epoch })
    }

    /// Runs `future` and renews the lease meanwhile.
    pub(super) async fn with_renewal<T>(&self, future: impl Future<Output = T>) -> Result<T, ActionError> {
        with_renewal(&self.store, &self.env, &self.held_lease, future).await
    }

    /// Confirms before a push, which the queue cannot fence, that this process holds the lease.
    pub(super) async fn confirm_lease(&self) -> Result<(), ActionError> {
        while let Some(held_lease) = self.held_lease.get() {
            if held_lease.holds(self.env.now_ms()) && !held_lease.is_due(self.env.now_ms()) {
                return Ok(());
            }
            if let Err(reason) = renew(&self.store, &self.env, &self.held_lease, held_lease).await? {
                if held_lease.holds(self.env.now_ms()) {
                    return Ok(());
                }
                self.env.back_off(Peer::Store, reason).await?;
            }
        }
        Ok(())
    }
}
