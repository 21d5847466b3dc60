//! The lease while other things go on: taken, renewed in time, and noticed when it is lost.

use std::{future::Future, time::Duration};

use super::{
    Performer,
    renewal::{renew, renewing},
    trouble::Trouble,
};
use crate::{
    advance::Event,
    lease::{Claim, Lease, Tenure, claim},
    pace::{Pace, Peer},
    queue::Queue,
    store::Store,
};

impl<S: Store, Q: Queue, P: Pace> Performer<S, Q, P> {
    /// The lease's epoch, which what is written is fenced with.
    pub(super) fn fence(&self) -> Option<u64> {
        self.tenure.get().map(|tenure| tenure.epoch)
    }

    /// Takes the lease if it is free.
    pub(super) async fn take_lease(&self) -> Result<Event, Trouble> {
        self.tenure.set(None);
        let ttl_ms = millis(self.settings.lease);
        // Before the database's clock is read: the lease is reckoned from there.
        let asked_ms = self.pace.now_ms();
        let (now_ms, seen) = self.insist(async |store| store.lease().await).await?;
        let Claim::Take { epoch } = claim(now_ms, seen.as_ref(), &self.settings.holder) else {
            return Ok(Event::LeaseHeld);
        };
        let until_ms = now_ms.saturating_add_unsigned(ttl_ms);
        let lease = Lease { holder: self.settings.holder.clone(), epoch, until_ms };
        if !self.insist(async |store| store.take(seen.as_ref(), &lease).await).await? {
            return Ok(Event::LeaseHeld);
        }
        self.tenure.set(Some(Tenure::new(epoch, asked_ms, ttl_ms)));
        Ok(Event::Leased { epoch })
    }

    /// Runs `future` and keeps the lease alive meanwhile.
    pub(super) async fn renewing<T>(&self, future: impl Future<Output = T>) -> Result<T, Trouble> {
        renewing(&self.store, &self.pace, &self.tenure, future).await
    }

    /// Before something is sent that nobody can fence: is the lease certainly one's own?
    pub(super) async fn assure(&self) -> Result<(), Trouble> {
        while let Some(tenure) = self.tenure.get() {
            if tenure.holds(self.pace.now_ms()) && !tenure.is_due(self.pace.now_ms()) {
                return Ok(());
            }
            if let Err(reason) = renew(&self.store, &self.pace, &self.tenure, tenure).await? {
                if tenure.holds(self.pace.now_ms()) {
                    return Ok(());
                }
                self.pace.endure(Peer::Store, reason).await?;
            }
        }
        Ok(())
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
