//! Renewals of the lease during other work.

use std::{cell::Cell, future::Future, pin::pin, time::Duration};

use futures_util::future::{Either, select};
use orchestrator_observe::LinkFailure;

use super::error::ActionError;
use orchestrator_producer_rules::lease::HeldLease;

use crate::{
    environment::{Environment, Peer},
    store::Store,
};

/// Upper bound of the delay after a failed renewal.
const RETRY: Duration = Duration::from_millis(500);

/// Runs `future` and renews the lease meanwhile.
pub(super) async fn with_renewal<T>(
    store: &impl Store,
    env: &impl Environment,
    held_lease: &Cell<Option<HeldLease>>,
    future: impl Future<Output = T>,
) -> Result<T, ActionError> {
    let mut future = pin!(future);
    loop {
        let Some(held) = held_lease.get() else { return Ok(future.await) };
        let due = pin!(env.sleep(Duration::from_millis(held.due_in_ms(env.now_ms()))));
        if let Either::Left((output, _)) = select(future.as_mut(), due).await {
            return Ok(output);
        }
        let renewal = pin!(renew(store, env, held_lease, held));
        match select(future.as_mut(), renewal).await {
            Either::Left((output, _)) => return Ok(output),
            Either::Right((renewed, _)) => {
                if let Err(failure) = renewed? {
                    // The caller backs off by itself; the renewal is repeated soon, while the lease still
                    // holds.
                    let delay = env.report_failure(Peer::Store, failure).min(RETRY);
                    let pause = pin!(env.sleep(delay));
                    if let Either::Left((output, _)) = select(future.as_mut(), pause).await {
                        return Ok(output);
                    }
                }
            }
        }
    }
}

/// Renews the lease. The inner error has the reason why the database did not answer.
pub(super) async fn renew(
    store: &impl Store,
    env: &impl Environment,
    held_lease: &Cell<Option<HeldLease>>,
    mut held: HeldLease,
) -> Result<Result<(), LinkFailure>, ActionError> {
    let asked_ms = env.now_ms();
    let renewed = tokio::select! {
        biased;
        renewed = store.renew(held.epoch, held.ttl_ms()) => renewed,
        () = env.store_overdue() => return Ok(Err("the process stops".into())),
    };
    match renewed {
        Ok(true) => {
            held.renewed(asked_ms);
            held_lease.set(Some(held));
            env.report_success(Peer::Store);
            Ok(Ok(()))
        }
        Ok(false) => Err(ActionError::LeaseLost),
        Err(error) => Ok(Err((&error).into())),
    }
}

/// Runs `future` while the lease holds. `None`: it was dropped at the end of the lease, since the queue
/// cannot fence what it would send later.
pub(super) async fn while_held<T>(
    env: &impl Environment,
    held_lease: &Cell<Option<HeldLease>>,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future = pin!(future);
    loop {
        let Some(held) = held_lease.get() else { return Some(future.await) };
        let left_ms = held.left_ms(env.now_ms());
        if left_ms == 0 {
            return None;
        }
        let end = pin!(env.sleep(Duration::from_millis(left_ms)));
        if let Either::Left((output, _)) = select(future.as_mut(), end).await {
            return Some(output);
        }
    }
}
