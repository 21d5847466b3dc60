//! Clock and reports of a simulated process.

use std::{collections::BTreeSet, time::Duration};

use orchestrator_observe::LinkFailure;
use orchestrator_producer_rules::{lease::Lease, queue_state::QueueState};

use crate::{
    environment::{Environment, Peer, Progress, Stopped},
    holder::HolderState,
};

use super::SimulatedProcess;

impl Environment for SimulatedProcess {
    fn now_ms(&self) -> u64 {
        self.started_at.elapsed().as_millis() as u64
    }

    async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    async fn sleep_or_stop(&self, span: Duration) -> Result<(), Stopped> {
        tokio::time::sleep(span).await;
        let go_on = span != self.poll || (self.on_tick)(&mut self.simulation.borrow_mut());
        if go_on { Ok(()) } else { Err(Stopped) }
    }

    async fn wait_until_resumed(&self) -> Result<(), Stopped> {
        let still = (self.before_chunk)(&mut self.simulation.borrow_mut());
        if !still.is_zero() {
            tokio::time::advance(still).await;
        }
        Ok(())
    }

    fn report_failure(&self, _: Peer, _: LinkFailure) -> Duration {
        Duration::from_millis(50)
    }

    async fn back_off(&self, peer: Peer, failure: LinkFailure) -> Result<(), Stopped> {
        self.sleep(self.report_failure(peer, failure)).await;
        Ok(())
    }

    fn report_success(&self, _: Peer) {}

    fn report_progress(&self, progress: Progress) {
        assert!(progress.total.is_none_or(|total| progress.pushed <= total), "{progress:?}");
    }

    fn report_queue(&self, _: &QueueState, _: &BTreeSet<String>) {}

    fn report_undelivered(&self, _: u64) {}

    fn holder_state(&self, _: &str) -> HolderState {
        HolderState::Elsewhere
    }

    fn report_foreign_lease(&self, _: &Lease, _: u64, _: HolderState) {}

    fn set_held(&self, held: bool) {
        self.simulation.borrow_mut().held = held;
    }
}
