//! Pushing of one stencil: in chunks, each recorded in the cursor before the next one is pushed.

use orchestrator_observe::millis;
use orchestrator_subsystem::DETAIL;

use super::{
    Executor,
    error::ActionError,
    renewal::{while_held, with_renewal},
};
use orchestrator_producer_rules::{
    advance::{Event, StencilUpdate},
    cursor::{Cursor, Remaining},
    id::Id,
    pages::{GridStep, PageCache, PairGrid, remaining_before},
    pair::Pair,
    stencil::{State, Stencil},
    watermark::Admission,
};

use crate::{
    environment::{Environment, Peer, Progress},
    queue::{JidSeed, Queue, Unacknowledged},
    store::Store,
    walk::PageWalk,
};

/// Jobs of a stencil's first chunk. The size doubles with each chunk, so the first jobs are pushed while
/// pages are still read.
const FIRST_CHUNK: usize = 32;

/// Pairs of one stencil.
struct Pairs {
    grid: PairGrid,
    roots: PageWalk,
    scions: PageWalk,
    root_tcn: i64,
    scion_tcn: i64,
    /// Pages of rootstocks so far, if they can be cached.
    walked: Option<Vec<Id>>,
}

impl<S: Store, Q: Queue, P: Environment> Executor<S, Q, P> {
    /// Pushes the remaining jobs of a stencil in chunks. After each acknowledged chunk the cursor is written;
    /// the next chunk is pushed after that.
    pub(super) async fn push(&mut self, stencil: &Stencil) -> Result<Event, ActionError> {
        let mut pairs = self.pairs(stencil);
        if self.settings.strict {
            self.walk_all(&mut pairs).await?;
        }
        let mut cursor = stencil.cursor;
        if cursor.is_some_and(|cursor| cursor.remaining == Remaining::Nothing) {
            return Ok(Event::Pushed { jobs: 0, cursor });
        }
        let mut next = self.step(&mut pairs, stencil).await?;
        if next == GridStep::End && cursor.is_none_or(|cursor| cursor.remaining == Remaining::All) {
            let empty = if pairs.has_roots() { stencil.scions() } else { stencil.roots() };
            return Ok(Event::Empty(empty));
        }
        let mut jobs = 0;
        let mut chunk_size = if self.settings.strict { self.settings.chunk } else { FIRST_CHUNK };
        while let GridStep::Pair { .. } = next {
            chunk_size = chunk_size.min(self.settings.chunk).max(1);
            let mut chunk = Vec::with_capacity(chunk_size);
            while let (GridStep::Pair { root, scion }, true) = (next, chunk.len() < chunk_size) {
                chunk.push(pairs.pair(root, scion));
                next = self.step(&mut pairs, stencil).await?;
            }
            self.push_chunk(&chunk, &mut cursor).await?;
            jobs += chunk.len() as u64;
            if let Some(cursor) = &mut cursor {
                *cursor = cursor.advanced(chunk.len() as u64, remaining_before(next));
                let update = StencilUpdate { id: stencil.id, state: State::Started, cursor: Some(*cursor) };
                self.update_stencil(&update).await?;
            }
            self.progress(jobs, chunk.len() as u64, cursor.as_ref());
            self.observe_queue().await?;
            chunk_size = chunk_size.saturating_mul(2);
        }
        Ok(Event::Pushed { jobs, cursor })
    }

    /// Pairs from the cursor of the stencil on.
    fn pairs(&self, stencil: &Stencil) -> Pairs {
        let (roots, scions) = (stencil.roots(), stencil.scions());
        let page_size = stencil.cursor.map_or(self.settings.page_size, |cursor| cursor.page_size);
        let page_cache = |set, summary| self.page_cache.get(set, page_size, summary);
        let (root_tcn, scion_tcn) = (stencil.rootstock_tcn, stencil.scion_tcn);
        let Some(cursor) = stencil.cursor else {
            // The original reads the pages again for each stencil.
            let (roots, scions) =
                (PageWalk::new(roots, page_size, None), PageWalk::new(scions, page_size, None));
            return Pairs { grid: PairGrid::new(), roots, scions, root_tcn, scion_tcn, walked: None };
        };
        let scions = PageWalk::new(scions, page_size, page_cache(scions, cursor.scions));
        let (grid, roots) = match cursor.remaining {
            Remaining::From { root, scion } => {
                (PairGrid::resumed(scion), PageWalk::resumed(roots, page_size, root))
            }
            Remaining::All | Remaining::Nothing => {
                (PairGrid::new(), PageWalk::new(roots, page_size, page_cache(roots, cursor.roots)))
            }
        };
        let walked = roots.is_cacheable().then(Vec::new);
        Pairs { grid, roots, scions, root_tcn, scion_tcn, walked }
    }

    /// Reads all pages of both sets before the first job, rootstocks first.
    async fn walk_all(&mut self, pairs: &mut Pairs) -> Result<(), ActionError> {
        for walk in [&mut pairs.roots, &mut pairs.scions] {
            let mut pages = Vec::new();
            loop {
                // Not repeated after an error: strict mode starts over.
                let next = self.with_renewal(walk.next(&self.store)).await?;
                match next {
                    Ok(Some(page)) => pages.push(page),
                    Ok(None) => break,
                    Err(error) => return Err(ActionError::Failed(Peer::Store, (&error).into())),
                }
            }
            let empty = pages.is_empty();
            *walk = PageWalk::new(walk.set(), walk.page_size(), Some(pages.into()));
            if empty {
                break;
            }
        }
        Ok(())
    }

    async fn step(&mut self, pairs: &mut Pairs, stencil: &Stencil) -> Result<GridStep, ActionError> {
        loop {
            match pairs.grid.step() {
                GridStep::NeedRoot => {
                    let root = self.next_page(&mut pairs.roots).await?;
                    pairs.grid.add_root(root);
                    self.cache_root(pairs, stencil, root);
                }
                GridStep::NeedScion => {
                    let scion = self.next_page(&mut pairs.scions).await?;
                    pairs.grid.add_scion(scion);
                    self.cache_scions(pairs, stencil);
                }
                step @ (GridStep::Pair { .. } | GridStep::End) => return Ok(step),
            }
        }
    }

    async fn next_page(&self, walk: &mut PageWalk) -> Result<Option<Id>, ActionError> {
        loop {
            match self.with_renewal(walk.next(&self.store)).await? {
                Ok(page) => {
                    self.env.report_success(Peer::Store);
                    return Ok(page);
                }
                Err(error) if self.settings.strict => {
                    return Err(ActionError::Failed(Peer::Store, (&error).into()));
                }
                Err(error) => self.env.back_off(Peer::Store, (&error).into()).await?,
            }
        }
    }

    fn cache_root(&mut self, pairs: &mut Pairs, stencil: &Stencil, root: Option<Id>) {
        match (root, &mut pairs.walked, stencil.cursor) {
            (Some(root), Some(walked), _) if walked.len() < PageCache::IDS_MAX => walked.push(root),
            (None, Some(walked), Some(cursor)) => {
                let list = std::mem::take(walked).into();
                self.page_cache.insert(pairs.roots.set(), cursor.page_size, cursor.roots, list);
            }
            // The list is too long for the cache.
            (Some(_), walked @ Some(_), _) => *walked = None,
            _ => {}
        }
    }

    fn cache_scions(&mut self, pairs: &Pairs, stencil: &Stencil) {
        if let (Some(cursor), Some(list), true) =
            (stencil.cursor, pairs.grid.scions(), pairs.scions.is_cacheable())
        {
            self.page_cache.insert(pairs.scions.set(), cursor.page_size, cursor.scions, list.into());
        }
    }

    /// Pushes a chunk until all of it is acknowledged. Each attempt has new jids, because a job whose reply
    /// was lost may be queued. Two jobs with one jid keep the set of working jobs from becoming empty.
    async fn push_chunk(&mut self, chunk: &[Pair], cursor: &mut Option<Cursor>) -> Result<(), ActionError> {
        let mut remaining: Vec<Pair> = Vec::new();
        loop {
            let unacknowledged = if remaining.is_empty() { chunk } else { &remaining };
            self.wait_for_admission(unacknowledged.len()).await?;
            let jid_seed = cursor.map(|cursor| JidSeed { epoch: cursor.epoch, attempt: cursor.attempt });
            let pushing = while_held(&self.env, &self.held_lease, self.queue.push(unacknowledged, jid_seed));
            let pushed = with_renewal(&self.store, &self.env, &self.held_lease, pushing).await?;
            // Jobs without an acknowledgement may be queued, too.
            self.level.pushed(unacknowledged.len() as u64);
            let Unacknowledged { positions, reason } = match pushed {
                Some(Ok(())) => {
                    self.env.report_success(Peer::Queue);
                    let (epoch, jobs) = (jid_seed.map(|seed| seed.epoch), unacknowledged.len());
                    let first = unacknowledged.first().map(tracing::field::debug);
                    tracing::debug!(target: DETAIL, epoch, jobs, first, "a chunk of jobs is acknowledged");
                    return Ok(());
                }
                None => {
                    // The lease has ended: it is renewed or lost before the next attempt.
                    next_attempt(cursor);
                    continue;
                }
                Some(Err(failed)) => failed,
            };
            if self.settings.strict {
                return Err(ActionError::Failed(Peer::Queue, reason.into()));
            }
            let left: Vec<Pair> =
                positions.iter().filter_map(|at| unacknowledged.get(*at).copied()).collect();
            if left.is_empty() {
                return Ok(());
            }
            if left.len() < unacknowledged.len() {
                // The server answers, so the delay must not grow.
                self.env.report_success(Peer::Queue);
            }
            remaining = left;
            next_attempt(cursor);
            self.env.back_off(Peer::Queue, reason.into()).await?;
        }
    }

    /// Waits until `jobs` may be pushed: not paused, room in the queue, and the lease held.
    async fn wait_for_admission(&mut self, jobs: usize) -> Result<(), ActionError> {
        let jobs = jobs as u64;
        let mut length_is_read = false;
        loop {
            self.with_renewal(self.env.wait_until_resumed()).await??;
            let admission = self.level.admit(jobs);
            if admission == Admission::Push {
                self.env.set_held(false);
                return self.confirm_lease().await;
            }
            // Below the low mark there may be no room for a whole chunk, either.
            if length_is_read || admission == Admission::Wait {
                self.env.set_held(true);
                self.with_renewal(self.env.sleep_or_stop(self.settings.poll)).await??;
            }
            self.read_length().await?;
            length_is_read = true;
            if self.level.admit(jobs) != Admission::Push {
                self.level.hold();
            }
        }
    }

    async fn read_length(&mut self) -> Result<(), ActionError> {
        let length = self.read_queue().await?.total_length(&self.settings.queues);
        self.level.read(length);
        Ok(())
    }

    /// Reads the queue if the last reading is older than an interval, so that the rate of completion is known
    /// during a long push.
    async fn observe_queue(&mut self) -> Result<(), ActionError> {
        let interval_ms = millis(self.settings.poll);
        let age_ms = self.env.now_ms().saturating_sub(self.queue_read_ms.get());
        if self.settings.strict || age_ms < interval_ms { Ok(()) } else { self.read_length().await }
    }

    fn progress(&self, jobs: u64, fresh: u64, cursor: Option<&Cursor>) {
        let pushed = cursor.map_or(jobs, |cursor| cursor.pushed);
        self.env.report_progress(Progress { pushed, fresh, total: cursor.map(Cursor::total) });
    }
}

/// Gives the jobs of the next attempt other jids.
fn next_attempt(cursor: &mut Option<Cursor>) {
    if let Some(cursor) = cursor {
        cursor.attempt = cursor.attempt.saturating_add(1);
    }
}

impl Pairs {
    fn pair(&self, root_id: Id, scion_id: Id) -> Pair {
        let (root_tcn, scion_tcn) = (self.root_tcn, self.scion_tcn);
        Pair { root_id, root_tcn, scion_id, scion_tcn, page_size: self.roots.page_size() }
    }

    fn has_roots(&self) -> bool {
        self.roots.has_started()
    }
}
