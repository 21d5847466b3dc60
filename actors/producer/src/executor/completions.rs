//! Completions of TCNs: recorded with the completion itself, and removed once they are delivered (CONTRACT
//! SD13, SS07).

use super::{Executor, error::ActionError};
use orchestrator_producer_rules::stencil::{ConfigDocument, Selection};

use crate::{
    completion::{Completion, CompletionId, TcnStart},
    environment::{Environment, Stopped},
    queue::Queue,
    store::Store,
};

impl<S: Store, Q: Queue, P: Environment> Executor<S, Q, P> {
    /// Reads the configuration document, once fewer than `limit` completions are undelivered.
    pub(super) async fn read_config(&mut self, limit: usize) -> Result<ConfigDocument, ActionError> {
        loop {
            let config = self.retry_store(async |store| store.config_document().await).await?;
            if self.sync_completions(config).await? < limit {
                return Ok(config);
            }
            self.with_renewal(self.env.sleep_or_stop(self.settings.poll)).await??;
        }
    }

    /// Records the start of the next TCN, removes delivered completions and requests the delivery of the
    /// others. Returns their number.
    async fn sync_completions(&mut self, config: ConfigDocument) -> Result<usize, ActionError> {
        let Some(deliveries) = &mut self.deliveries else { return Ok(0) };
        let (delivered, fence) = (deliveries.take_delivered(), self.fence());
        for id in delivered {
            self.retry_store(async |store| store.remove_completion(id, fence).await).await?;
        }
        let state = self.retry_store(async |store| store.completion_state().await).await?;
        let tcn = config.completed_tcn.saturating_add(1);
        let is_started = state.started.is_some_and(|start| start.tcn == tcn);
        if config.completed_tcn < config.max_tcn && !is_started {
            let start = TcnStart { tcn, ms: self.clock_ms().await? };
            self.retry_store(async |store| store.start_tcn(start, fence).await).await?;
        }
        let count = state.undelivered.len();
        if let Some(deliveries) = &mut self.deliveries {
            state.undelivered.into_iter().for_each(|completion| deliveries.submit(completion));
        }
        self.env.report_undelivered(count as u64);
        Ok(count)
    }

    /// None if the completion is not to be delivered.
    pub(super) async fn completion(&self, tcn: i64) -> Result<Option<Completion>, ActionError> {
        if self.deliveries.is_none() {
            return Ok(None);
        }
        let found = self.retry_store(async |store| store.list(Selection::Complete { tcn }).await).await?;
        let stencils = found.iter().filter_map(|stencil| stencil.as_ref().ok());
        let jobs = stencils.filter_map(|stencil| stencil.cursor).map(|cursor| cursor.pushed);
        let state = self.retry_store(async |store| store.completion_state().await).await?;
        let started = state.started.filter(|start| start.tcn == tcn);
        Ok(Some(Completion {
            id: CompletionId::random(),
            tcn,
            stencils: found.len() as u64,
            jobs: jobs.fold(0, u64::saturating_add),
            started_ms: started.map(|start| start.ms),
            completed_ms: self.clock_ms().await?,
        }))
    }

    /// Waits until all completions are delivered. Returns false if the lease is lost: another producer
    /// delivers them then.
    ///
    /// # Errors
    /// [`Stopped`]. The next producer delivers what is left.
    pub(crate) async fn deliver_completions(&mut self) -> Result<bool, Stopped> {
        while self.deliveries.is_some() {
            match self.read_config(1).await {
                Ok(_) => break,
                Err(ActionError::Stopped) => return Err(Stopped),
                Err(ActionError::LeaseLost) => {
                    self.lease_lost();
                    return Ok(false);
                }
                Err(ActionError::Failed(peer, reason)) => self.env.back_off(peer, reason).await?,
            }
        }
        Ok(true)
    }

    /// Clock of the database.
    async fn clock_ms(&self) -> Result<i64, ActionError> {
        let (now_ms, _) = self.retry_store(async |store| store.lease().await).await?;
        Ok(now_ms)
    }
}
