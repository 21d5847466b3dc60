//! Order of the requests to a catalog: so many at a time, and the most urgent one next.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Purpose of a write; the first one here goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// A lease that would end.
    Renewal,
    /// A claim that ends.
    Settlement,
    /// A claim that begins.
    Claim,
}

/// Place of a write in the order: by purpose, then by the rule's priority, then by who asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Purpose of the write.
    pub purpose: Purpose,
    /// Priority of the rule; the highest goes first.
    pub priority: i32,
}

/// Limit on requests under way. Clones share it.
#[derive(Debug, Clone)]
pub struct Lane(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    free: usize,
    asked: u64,
    waiting: BTreeMap<(Purpose, Reverse<i32>, u64), oneshot::Sender<()>>,
}

/// A place in the queue. One that is given up after it was called calls the next one.
struct Place {
    called: Option<oneshot::Receiver<()>>,
    lane: Lane,
}

/// The right to one request, until it is dropped.
#[derive(Debug)]
pub struct Pass(Lane);

impl Lane {
    /// A lane for `width` requests at a time.
    pub fn new(width: usize) -> Self {
        Self(Arc::new(Mutex::new(Queue { free: width, asked: 0, waiting: BTreeMap::new() })))
    }

    /// Waits for its turn.
    pub async fn enter(&self, turn: Turn) -> Pass {
        let called = {
            let mut queue = self.0.lock();
            if queue.free > 0 {
                queue.free -= 1;
                return Pass(self.clone());
            }
            queue.asked += 1;
            let place = (turn.purpose, Reverse(turn.priority), queue.asked);
            let (caller, called) = oneshot::channel();
            queue.waiting.insert(place, caller);
            called
        };
        let mut place = Place { called: Some(called), lane: self.clone() };
        if let Some(called) = &mut place.called {
            // The caller is dropped with the queue alone, which this holds.
            let _ = called.await;
        }
        place.called = None;
        Pass(self.clone())
    }

    /// Gives a pass on to the first in the queue that is still there.
    fn call_next(&self) {
        let mut queue = self.0.lock();
        while let Some((_, next)) = queue.waiting.pop_first() {
            if next.send(()).is_ok() {
                return;
            }
        }
        queue.free += 1;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut called) = self.called.take()
            && called.try_recv().is_ok()
        {
            self.lane.call_next();
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.call_next();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, future::LocalBoxFuture};

    use super::*;

    const CLAIM: Turn = Turn { purpose: Purpose::Claim, priority: 0 };

    fn ask(lane: &Lane, purpose: Purpose, priority: i32) -> LocalBoxFuture<'static, Pass> {
        let lane = lane.clone();
        let mut future = async move { lane.enter(Turn { purpose, priority }).await }.boxed_local();
        assert!((&mut future).now_or_never().is_none(), "it is taken");
        future
    }

    #[test]
    fn leases_go_before_endings_before_claims_and_then_by_priority() {
        let lane = Lane::new(1);
        let first = lane.enter(CLAIM).now_or_never().expect("it is free");
        let mut claim = ask(&lane, Purpose::Claim, 0);
        let mut urgent = ask(&lane, Purpose::Claim, 5);
        let mut ending = ask(&lane, Purpose::Settlement, 0);
        let mut lease = ask(&lane, Purpose::Renewal, -1);
        drop(first);
        for next in [&mut lease, &mut ending, &mut urgent, &mut claim] {
            let pass = next.now_or_never().expect("its turn");
            drop(pass);
        }
        assert!(lane.enter(CLAIM).now_or_never().is_some(), "it is free again");
    }

    #[test]
    fn whoever_goes_away_holds_nobody_up() {
        let lane = Lane::new(1);
        let first = lane.enter(CLAIM).now_or_never().expect("it is free");
        let gone = ask(&lane, Purpose::Claim, 0);
        let called = ask(&lane, Purpose::Claim, 0);
        let mut last = ask(&lane, Purpose::Claim, 0);
        drop(gone);
        drop(first);
        // It was called, and goes away without having looked.
        drop(called);
        assert!((&mut last).now_or_never().is_some());
    }

    #[test]
    fn a_wider_lane_has_so_many_at_a_time() {
        let lane = Lane::new(4);
        let passes: Vec<_> = (0..4).filter_map(|_| lane.enter(CLAIM).now_or_never()).collect();
        assert_eq!(passes.len(), 4);
        let fifth = ask(&lane, Purpose::Claim, 0);
        drop(passes);
        assert!(fifth.now_or_never().is_some());
        assert_eq!(lane.0.lock().free, 4);
    }
}
