//! Does what the rules say: one action, over any database, queue and clock. It waits for a peer that is away, keeps the lease
//! alive whatever takes long, and answers with what happened.

mod push;
mod renewal;
mod tenancy;
mod trouble;

use std::{cell::Cell, time::Duration};

use self::{renewal::renewing, trouble::Trouble};
use crate::{
    advance::{Action, Event, Mark},
    cursor::Census,
    lease::Tenure,
    pace::{Pace, Peer, Stopped},
    pages::KeptPages,
    queue::Queue,
    reading::Reading,
    stencil::{State, Stencil},
    store::{Store, StoreError},
    watermark::{Level, WaterMarks},
};

/// How it works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// As the original: no lease, no cursors, one try.
    pub strict: bool,
    /// The queue that jobs are pushed to.
    pub queue: String,
    /// Tangles of a page, where no cursor has pinned another.
    pub page_size: u32,
    /// Jobs that are pushed at once.
    pub chunk: usize,
    /// Bounds of the queue's length.
    pub marks: WaterMarks,
    /// Time between two ticks.
    pub poll: Duration,
    /// Who takes the lease: unique to this process's life.
    pub holder: String,
    /// How long a lease lasts without being renewed.
    pub lease: Duration,
}

/// Carries out actions.
#[derive(Debug)]
pub struct Performer<S, Q, P> {
    settings: Settings,
    store: S,
    queue: Q,
    pace: P,
    tenure: Cell<Option<Tenure>>,
    kept: KeptPages,
    level: Level,
}

impl<S: Store, Q: Queue, P: Pace> Performer<S, Q, P> {
    /// Nothing is asked of anybody yet.
    pub fn new(settings: Settings, store: S, queue: Q, pace: P) -> Self {
        let level = Level::new(settings.marks);
        Self { settings, store, queue, pace, tenure: Cell::new(None), kept: KeptPages::default(), level }
    }

    /// Carries out `action`. [`Action::Finish`] and [`Action::Halt`] are not its business: they answer [`Event::Started`].
    ///
    /// # Errors
    /// [`Stopped`]; what was begun is durable as far as it came.
    pub async fn perform(&mut self, action: Action) -> Result<Event, Stopped> {
        match self.attempt(action).await {
            Ok(event) => Ok(event),
            Err(Trouble::Stopped) => Err(Stopped),
            Err(Trouble::LeaseLost) => {
                self.tenure.set(None);
                Ok(Event::LeaseLost)
            }
            Err(Trouble::Failed(peer, reason)) => {
                self.pace.endure(peer, reason).await?;
                Ok(Event::Failed)
            }
        }
    }

    /// Gives the lease up, so that another producer need not wait for its end. Nothing is tried again.
    pub async fn leave(&mut self) {
        if let Some(tenure) = self.tenure.take() {
            // It ends by itself otherwise.
            let _ = self.store.renew(tenure.epoch, 0).await;
        }
    }

    /// The clock and the people's side.
    pub fn pace(&self) -> &P {
        &self.pace
    }

    async fn attempt(&mut self, action: Action) -> Result<Event, Trouble> {
        match action {
            Action::TakeLease => self.take_lease().await,
            Action::ReadLedger => self.insist(async |store| store.ledger().await).await.map(Event::Ledger),
            Action::List(selection) => {
                self.insist(async |store| store.list(selection).await).await.map(Event::Listed)
            }
            Action::CountStencils(selection) => {
                self.insist(async |store| store.count(selection).await).await.map(Event::Counted)
            }
            Action::ReadQueue => {
                let reading = self.read_queue().await?;
                self.level.read(reading.length(&self.settings.queue));
                Ok(Event::Read(reading))
            }
            Action::Survey(stencil) => self.survey(&stencil).await,
            Action::Mark(mark) => self.mark(&mark).await.map(|()| Event::Written),
            Action::Push(stencil) => self.push(&stencil).await,
            Action::Complete { from, to } => {
                let fence = self.fence();
                self.insist(async |store| store.complete(from, to, fence).await).await?;
                Ok(Event::Written)
            }
            Action::Sleep => {
                self.renewing(self.pace.wait(self.settings.poll)).await??;
                self.renewing(self.pace.go()).await??;
                Ok(Event::Slept)
            }
            Action::Finish | Action::Halt(_) => Ok(Event::Started),
        }
    }

    /// Counts a stencil's sets. One without headroom is looked at in every tick, and one of its sets may be large: so there is a
    /// look for any tangle first.
    async fn survey(&self, stencil: &Stencil) -> Result<Event, Trouble> {
        let (roots, scions) = (stencil.roots(), stencil.scions());
        if stencil.state == State::NoHeadroom {
            let some = async |set| self.insist(async |store| store.page(set, None, 0).await).await;
            // What is there is not counted while the other is not.
            let one = Census { count: 1, greatest: None };
            if some(roots).await?.is_none() {
                return Ok(Event::Surveyed { roots: Census::default(), scions: one });
            }
            if some(scions).await?.is_none() {
                return Ok(Event::Surveyed { roots: one, scions: Census::default() });
            }
        }
        let roots = self.insist(async |store| store.census(roots).await).await?;
        let scions = self.insist(async |store| store.census(scions).await).await?;
        Ok(Event::Surveyed { roots, scions })
    }

    async fn mark(&self, mark: &Mark) -> Result<(), Trouble> {
        let fence = self.fence();
        self.insist(async |store| store.mark(mark, fence).await).await
    }

    /// Asks the database until it answers; strict: once.
    async fn insist<T>(&self, ask: impl AsyncFn(&S) -> Result<T, StoreError>) -> Result<T, Trouble> {
        loop {
            let reason = match self.renewing(ask(&self.store)).await? {
                Ok(answer) => {
                    self.pace.answered(Peer::Store);
                    return Ok(answer);
                }
                Err(StoreError::Fenced) => return Err(Trouble::LeaseLost),
                Err(error) => error.to_string(),
            };
            if self.settings.strict {
                return Err(Trouble::Failed(Peer::Store, reason));
            }
            self.pace.endure(Peer::Store, reason).await?;
        }
    }

    async fn read_queue(&mut self) -> Result<Reading, Trouble> {
        loop {
            let asked = self.queue.read();
            let reason = match renewing(&self.store, &self.pace, &self.tenure, asked).await? {
                Ok(reading) => {
                    self.pace.answered(Peer::Queue);
                    return Ok(reading);
                }
                Err(error) => error.to_string(),
            };
            if self.settings.strict {
                return Err(Trouble::Failed(Peer::Queue, reason));
            }
            self.pace.endure(Peer::Queue, reason).await?;
        }
    }
}
