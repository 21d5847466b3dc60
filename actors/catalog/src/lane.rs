//! Who of several rules writes next: the server takes one write of a catalog at a time, and aborts what comes beside it.

use std::{cell::RefCell, cmp::Reverse, collections::BTreeMap, rc::Rc};

use tokio::sync::oneshot;

/// What a write is for; what comes first here goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// A lease that would end.
    Renewal,
    /// A claim that ends.
    Settlement,
    /// A claim that begins.
    Claim,
}

/// One write at a time, by purpose, then by the rule's priority, then by who asked first.
#[derive(Debug, Clone, Default)]
pub struct Lane(Rc<RefCell<Queue>>);

type Turn = (Purpose, Reverse<i32>, u64);

#[derive(Debug, Default)]
struct Queue {
    taken: bool,
    asked: u64,
    waiting: BTreeMap<Turn, oneshot::Sender<()>>,
}

/// A place in the queue. One that is given up after it was called calls the next one.
struct Place {
    called: Option<oneshot::Receiver<()>>,
    lane: Rc<RefCell<Queue>>,
}

/// The right to write, until it is dropped.
#[derive(Debug)]
pub struct Pass(Rc<RefCell<Queue>>);

impl Lane {
    /// Waits for its turn.
    pub async fn enter(&self, purpose: Purpose, priority: i32) -> Pass {
        let called = {
            let mut queue = self.0.borrow_mut();
            if !queue.taken {
                queue.taken = true;
                return Pass(self.0.clone());
            }
            queue.asked += 1;
            let turn = (purpose, Reverse(priority), queue.asked);
            let (caller, called) = oneshot::channel();
            queue.waiting.insert(turn, caller);
            called
        };
        let mut place = Place { called: Some(called), lane: self.0.clone() };
        if let Some(called) = &mut place.called {
            // The caller is dropped with the queue alone, which this holds.
            let _ = called.await;
        }
        place.called = None;
        Pass(self.0.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut called) = self.called.take()
            && called.try_recv().is_ok()
        {
            call_next(&self.lane);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        call_next(&self.0);
    }
}

/// Calls whoever waits first and is still there.
fn call_next(lane: &RefCell<Queue>) {
    let mut queue = lane.borrow_mut();
    while let Some((_, next)) = queue.waiting.pop_first() {
        if next.send(()).is_ok() {
            return;
        }
    }
    queue.taken = false;
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, future::LocalBoxFuture};

    use super::*;

    fn ask(lane: &Lane, purpose: Purpose, priority: i32) -> LocalBoxFuture<'static, Pass> {
        let lane = lane.clone();
        let mut future = async move { lane.enter(purpose, priority).await }.boxed_local();
        assert!((&mut future).now_or_never().is_none(), "it is taken");
        future
    }

    #[test]
    fn leases_go_before_endings_before_claims_and_then_by_priority() {
        let lane = Lane::default();
        let first = lane.enter(Purpose::Claim, 0).now_or_never().expect("it is free");
        let mut claim = ask(&lane, Purpose::Claim, 0);
        let mut urgent = ask(&lane, Purpose::Claim, 5);
        let mut ending = ask(&lane, Purpose::Settlement, 0);
        let mut lease = ask(&lane, Purpose::Renewal, -1);
        drop(first);
        for next in [&mut lease, &mut ending, &mut urgent, &mut claim] {
            let pass = next.now_or_never().expect("its turn");
            drop(pass);
        }
        assert!(lane.enter(Purpose::Claim, 0).now_or_never().is_some(), "it is free again");
    }

    #[test]
    fn whoever_goes_away_holds_nobody_up() {
        let lane = Lane::default();
        let first = lane.enter(Purpose::Claim, 0).now_or_never().expect("it is free");
        let gone = ask(&lane, Purpose::Claim, 0);
        let called = ask(&lane, Purpose::Claim, 0);
        let mut last = ask(&lane, Purpose::Claim, 0);
        drop(gone);
        drop(first);
        // It was called, and goes away without having looked.
        drop(called);
        assert!((&mut last).now_or_never().is_some());
    }
}
