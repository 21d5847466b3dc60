//! Semaphore whose permits go to the most urgent waiter first.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use orchestrator_supervise::{Pending, Reply, reply};
use parking_lot::Mutex;

/// Purpose of a write; the first variant is the most urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Renewal of a lease.
    Renewal,
    /// End of a claim.
    Settlement,
    /// New claim.
    Claim,
}

/// Priority of a waiting write: renewals before settlements before claims, then by the rule's
/// priority, then by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WritePriority {
    /// Purpose of the write.
    pub purpose: Purpose,
    /// Priority of the rule; the highest goes first.
    pub priority: i32,
}

/// Limit on concurrent requests. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct PrioritySemaphore(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    free: usize,
    arrivals: u64,
    waiting: BTreeMap<(Purpose, Reverse<i32>, u64), Reply<()>>,
}

/// A waiter. Dropped after it was woken, it passes its permit on.
struct Waiter {
    woken: Option<Pending<()>>,
    semaphore: PrioritySemaphore,
}

/// Permission for one request, returned when dropped.
#[derive(Debug)]
pub(crate) struct Permit(PrioritySemaphore);

impl PrioritySemaphore {
    pub(crate) fn new(width: usize) -> Self {
        Self(Arc::new(Mutex::new(Queue { free: width, arrivals: 0, waiting: BTreeMap::new() })))
    }

    /// Waits for a permit.
    pub(crate) async fn acquire(&self, priority: WritePriority) -> Permit {
        let woken = {
            let mut queue = self.0.lock();
            if queue.free > 0 {
                queue.free -= 1;
                return Permit(self.clone());
            }
            queue.arrivals += 1;
            let position = (priority.purpose, Reverse(priority.priority), queue.arrivals);
            let (wake, woken) = reply();
            queue.waiting.insert(position, wake);
            woken
        };
        let mut waiter = Waiter { woken: Some(woken), semaphore: self.clone() };
        if let Some(woken) = &mut waiter.woken {
            // `self` keeps the queue alive, so the sender is never dropped unsent.
            let _ = woken.await;
        }
        waiter.woken = None;
        Permit(self.clone())
    }

    /// Passes a permit to the first waiter that still waits.
    fn release(&self) {
        let mut queue = self.0.lock();
        while let Some((_, next)) = queue.waiting.pop_first() {
            if next.send(()).is_ok() {
                return;
            }
        }
        queue.free += 1;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let Some(mut woken) = self.woken.take() else { return };
        // No permit can arrive between the check and the drop.
        woken.close();
        if matches!(woken.try_recv(), Ok(Some(()))) {
            self.semaphore.release();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, future::LocalBoxFuture};

    use super::*;

    const CLAIM: WritePriority = WritePriority { purpose: Purpose::Claim, priority: 0 };

    fn ask(
        semaphore: &PrioritySemaphore,
        purpose: Purpose,
        priority: i32,
    ) -> LocalBoxFuture<'static, Permit> {
        let semaphore = semaphore.clone();
        let mut future =
            async move { semaphore.acquire(WritePriority { purpose, priority }).await }.boxed_local();
        assert!((&mut future).now_or_never().is_none(), "it is taken");
        future
    }

    #[test]
    fn renewals_precede_settlements_and_claims_and_then_priority_decides() {
        let semaphore = PrioritySemaphore::new(1);
        let first = semaphore.acquire(CLAIM).now_or_never().expect("it is free");
        let mut claim = ask(&semaphore, Purpose::Claim, 0);
        let mut urgent = ask(&semaphore, Purpose::Claim, 5);
        let mut outcome = ask(&semaphore, Purpose::Settlement, 0);
        let mut lease = ask(&semaphore, Purpose::Renewal, -1);
        drop(first);
        for next in [&mut lease, &mut outcome, &mut urgent, &mut claim] {
            let permit = next.now_or_never().expect("its turn");
            drop(permit);
        }
        assert!(semaphore.acquire(CLAIM).now_or_never().is_some(), "it is free again");
    }

    #[test]
    fn dropped_waiters_delay_nobody() {
        let semaphore = PrioritySemaphore::new(1);
        let first = semaphore.acquire(CLAIM).now_or_never().expect("it is free");
        let gone = ask(&semaphore, Purpose::Claim, 0);
        let woken = ask(&semaphore, Purpose::Claim, 0);
        let mut last = ask(&semaphore, Purpose::Claim, 0);
        drop(gone);
        drop(first);
        // Woken, and dropped before it was polled again.
        drop(woken);
        assert!((&mut last).now_or_never().is_some());
    }

    #[test]
    fn a_semaphore_has_as_many_permits_as_its_width() {
        let semaphore = PrioritySemaphore::new(4);
        let permits: Vec<_> = (0..4).filter_map(|_| semaphore.acquire(CLAIM).now_or_never()).collect();
        assert_eq!(permits.len(), 4);
        let fifth = ask(&semaphore, Purpose::Claim, 0);
        drop(permits);
        assert!(fifth.now_or_never().is_some());
        assert_eq!(semaphore.0.lock().free, 4);
    }
}
