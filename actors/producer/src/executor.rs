//! Executor of the state machine's actions, over any database, queue and clock. It retries while a peer is
//! unavailable, and renews the lease during long actions.

mod completions;
mod error;
mod lease;
mod push;
mod renewal;

use std::{cell::Cell, collections::BTreeSet, time::Duration};

use orchestrator_observe::LinkFailure;
use orchestrator_supervise::Outbox;

use self::{error::ActionError, renewal::with_renewal};
use orchestrator_producer_rules::{
    advance::{Action, Event, StencilUpdate},
    cursor::SetSummary,
    lease::HeldLease,
    pages::PageCache,
    queue_state::QueueState,
    stencil::{Selection, State, Stencil},
    watermark::{QueueLevel, WaterMarks},
};

use crate::{
    completion::{Deliveries, Delivery, UNDELIVERED_MAX},
    environment::{Environment, Peer, Stopped},
    queue::Queue,
    store::{Store, StoreError},
};

/// Parameters of an executor.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Strict mode: no lease, no cursors, no retries.
    pub strict: bool,
    /// Queues that receive the jobs.
    pub queues: BTreeSet<String>,
    /// Tangles of a page, for stencils without a cursor.
    pub page_size: u32,
    /// Jobs of a chunk.
    pub chunk: usize,
    /// Bounds of the queue's length.
    pub marks: WaterMarks,
    /// Interval between two ticks.
    pub poll: Duration,
    /// Holder of the lease, unique to an incarnation.
    pub holder: String,
    /// Duration of the lease without a renewal.
    pub lease: Duration,
}

/// Executor of actions.
#[derive(Debug)]
pub(crate) struct Executor<S, Q, P> {
    settings: Settings,
    store: S,
    queue: Q,
    env: P,
    held_lease: Cell<Option<HeldLease>>,
    page_cache: PageCache,
    level: QueueLevel,
    deliveries: Option<Deliveries>,
    /// Time of the last reading of the queue, by the environment's clock.
    queue_read_ms: Cell<u64>,
    /// TCN of the last report on stencils that are left out.
    left_out_of: Option<i64>,
}

impl<S: Store, Q: Queue, P: Environment> Executor<S, Q, P> {
    /// The executor has no lease yet.
    pub(crate) fn new(settings: Settings, store: S, queue: Q, env: P) -> Self {
        let level = QueueLevel::new(settings.marks);
        Self {
            settings,
            store,
            queue,
            env,
            held_lease: Cell::new(None),
            page_cache: PageCache::default(),
            level,
            deliveries: None,
            queue_read_ms: Cell::new(0),
            left_out_of: None,
        }
    }

    /// Records completed TCNs and requests their delivery through `requests`. For the default rules only.
    #[must_use]
    pub(crate) fn delivering(self, requests: Outbox<Delivery>) -> Self {
        Self { deliveries: Some(Deliveries::new(requests)), ..self }
    }

    /// Executes `action`. The caller handles [`Action::Finish`] and [`Action::Halt`]; here they return
    /// [`Event::Started`].
    ///
    /// # Errors
    /// [`Stopped`]. Acknowledged chunks are recorded by then.
    pub(crate) async fn execute(&mut self, action: Action) -> Result<Event, Stopped> {
        match self.attempt(action).await {
            Ok(event) => Ok(event),
            Err(ActionError::Stopped) => Err(Stopped),
            Err(ActionError::LeaseLost) => Ok(self.lease_lost()),
            Err(ActionError::Failed(peer, reason)) => {
                self.env.back_off(peer, reason).await?;
                Ok(Event::Failed)
            }
        }
    }

    /// Releases the lease, without retries, so that another producer can take it at once.
    pub(crate) async fn release_lease(&mut self) {
        if let Some(held_lease) = self.held_lease.take() {
            // After an error the lease ends by itself.
            let _ = self.store.renew(held_lease.epoch, 0).await;
        }
    }

    pub(crate) fn env(&self) -> &P {
        &self.env
    }

    async fn attempt(&mut self, action: Action) -> Result<Event, ActionError> {
        match action {
            Action::TakeLease => self.take_lease().await,
            Action::ReadConfig => self.read_config(UNDELIVERED_MAX).await.map(Event::ConfigRead),
            Action::List(selection) => {
                let listed = self.retry_store(async |store| store.list(selection).await).await?;
                self.report_left_out(selection).await?;
                Ok(Event::Listed(listed))
            }
            Action::CountStencils(selection) => {
                self.retry_store(async |store| store.count(selection).await).await.map(Event::Counted)
            }
            Action::ReadQueue => {
                let queue_state = self.read_queue().await?;
                self.level.read(queue_state.total_length(&self.settings.queues));
                Ok(Event::QueueRead(queue_state))
            }
            Action::SummarizeSets(stencil) => self.summarize_sets(&stencil).await,
            Action::UpdateStencil(update) => self.update_stencil(&update).await.map(|()| Event::Written),
            Action::Push(stencil) => self.push(&stencil).await,
            Action::Complete { from, to } => {
                let (completion, fence) = (self.completion(to).await?, self.fence());
                self.retry_store(async |store| store.complete(from, to, completion.as_ref(), fence).await)
                    .await?;
                Ok(Event::Written)
            }
            Action::Sleep => {
                self.with_renewal(self.env.sleep_or_stop(self.settings.poll)).await??;
                self.with_renewal(self.env.wait_until_resumed()).await??;
                Ok(Event::Slept)
            }
            Action::Finish | Action::Halt(_) => Ok(Event::Started),
        }
    }

    /// Counts the stencils that the default rules leave out, once for each TCN.
    async fn report_left_out(&mut self, listed: Selection) -> Result<(), ActionError> {
        let Selection::Unfinished { tcn } = listed else { return Ok(()) };
        if self.left_out_of != Some(tcn) {
            let count = self.retry_store(async |store| store.count(Selection::LeftOut { tcn }).await).await?;
            self.left_out_of = Some(tcn);
            self.env.report_left_out(tcn, count);
        }
        Ok(())
    }

    /// Summarizes a stencil's sets. A stencil without jobs is checked at every tick, so its sets are counted
    /// only if both have a tangle.
    async fn summarize_sets(&self, stencil: &Stencil) -> Result<Event, ActionError> {
        let (roots, scions) = (stencil.roots(), stencil.scions());
        if stencil.state == State::NoHeadroom {
            let some = async |set| self.retry_store(async |store| store.page(set, None, 0).await).await;
            // The other set may be large, so it is not counted.
            let one = SetSummary { count: 1, greatest: None };
            if some(roots).await?.is_none() {
                return Ok(Event::SetsSummarized { roots: SetSummary::default(), scions: one });
            }
            if some(scions).await?.is_none() {
                return Ok(Event::SetsSummarized { roots: one, scions: SetSummary::default() });
            }
        }
        let roots = self.retry_store(async |store| store.set_summary(roots).await).await?;
        let scions = self.retry_store(async |store| store.set_summary(scions).await).await?;
        Ok(Event::SetsSummarized { roots, scions })
    }

    async fn update_stencil(&self, update: &StencilUpdate) -> Result<(), ActionError> {
        let fence = self.fence();
        self.retry_store(async |store| store.update_stencil(update, fence).await).await
    }

    /// Repeats a request until the database answers; once in strict mode.
    async fn retry_store<T>(&self, ask: impl AsyncFn(&S) -> Result<T, StoreError>) -> Result<T, ActionError> {
        loop {
            let asked = async {
                tokio::select! {
                    biased;
                    answer = self.with_renewal(ask(&self.store)) => answer,
                    () = self.env.store_overdue() => Err(ActionError::Stopped),
                }
            };
            let reason = match asked.await? {
                Ok(answer) => {
                    self.env.report_success(Peer::Store);
                    return Ok(answer);
                }
                Err(StoreError::Fenced) => return Err(ActionError::LeaseLost),
                Err(error) => LinkFailure::from(&error),
            };
            if self.settings.strict {
                return Err(ActionError::Failed(Peer::Store, reason));
            }
            self.env.back_off(Peer::Store, reason).await?;
        }
    }

    async fn read_queue(&mut self) -> Result<QueueState, ActionError> {
        loop {
            let asked = self.queue.read();
            let reason = match with_renewal(&self.store, &self.env, &self.held_lease, asked).await? {
                Ok(queue_state) => {
                    self.env.report_success(Peer::Queue);
                    self.queue_read_ms.set(self.env.now_ms());
                    self.env.report_queue(&queue_state, &self.settings.queues);
                    return Ok(queue_state);
                }
                Err(error) => LinkFailure::from(&error),
            };
            if self.settings.strict {
                return Err(ActionError::Failed(Peer::Queue, reason));
            }
            self.env.back_off(Peer::Queue, reason).await?;
        }
    }
}
