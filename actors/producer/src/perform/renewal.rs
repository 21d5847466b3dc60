//! Renewals of the lease beside other work.

use std::{cell::Cell, future::Future, pin::pin, time::Duration};

use futures_util::future::{Either, select};

use super::trouble::Trouble;
use crate::{
    lease::Tenure,
    pace::{Pace, Peer},
    store::Store,
};

/// Longest delay before a renewal that failed is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Runs `future` and keeps the lease alive meanwhile.
pub(super) async fn renewing<T>(
    store: &impl Store,
    pace: &impl Pace,
    tenure: &Cell<Option<Tenure>>,
    future: impl Future<Output = T>,
) -> Result<T, Trouble> {
    let mut future = pin!(future);
    loop {
        let Some(held) = tenure.get() else { return Ok(future.await) };
        let due = pin!(pace.timer(Duration::from_millis(held.due_in_ms(pace.now_ms()))));
        if let Either::Left((output, _)) = select(future.as_mut(), due).await {
            return Ok(output);
        }
        let renewal = pin!(renew(store, pace, tenure, held));
        match select(future.as_mut(), renewal).await {
            Either::Left((output, _)) => return Ok(output),
            Either::Right((renewed, _)) => {
                if let Err(reason) = renewed? {
                    // Whoever needs the database waits for it; here it is only tried again soon.
                    let delay = pace.missed(Peer::Store, reason).min(RETRY);
                    let pause = pin!(pace.timer(delay));
                    if let Either::Left((output, _)) = select(future.as_mut(), pause).await {
                        return Ok(output);
                    }
                }
            }
        }
    }
}

/// Renews; the inner error says why the database did not answer.
pub(super) async fn renew(
    store: &impl Store,
    pace: &impl Pace,
    tenure: &Cell<Option<Tenure>>,
    mut held: Tenure,
) -> Result<Result<(), String>, Trouble> {
    let asked_ms = pace.now_ms();
    match store.renew(held.epoch, held.ttl_ms()).await {
        Ok(true) => {
            held.renewed(asked_ms);
            tenure.set(Some(held));
            pace.answered(Peer::Store);
            Ok(Ok(()))
        }
        Ok(false) => Err(Trouble::LeaseLost),
        Err(error) => Ok(Err(error.to_string())),
    }
}
