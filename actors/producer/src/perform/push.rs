//! Pushes the jobs of one stencil, in chunks, and notes each chunk that was acknowledged before the next one leaves.

use super::{Performer, renewal::renewing, trouble::Trouble};
use crate::{
    advance::{Event, Mark},
    cursor::{Cursor, Rest},
    id::Id,
    pace::{Pace, Peer, Progress},
    pages::{Grid, KeptPages, Step, rest_before},
    pair::Pair,
    queue::{Queue, QueueError, Stamp},
    stencil::{State, Stencil},
    store::Store,
    walk::Walk,
    watermark::Gate,
};

/// Jobs of a stencil's first chunk at the most; each chunk may be twice the last. So the first jobs leave early, while pages
/// are still walked.
const FIRST_CHUNK: usize = 32;

/// The pairs of one stencil, as they come.
struct Pairs {
    grid: Grid,
    roots: Walk,
    scions: Walk,
    root_tcn: i64,
    scion_tcn: i64,
    /// Pages of rootstocks so far, while they are worth keeping.
    walked: Option<Vec<Id>>,
}

impl<S: Store, Q: Queue, P: Pace> Performer<S, Q, P> {
    /// Pushes what is left of the stencil's jobs.
    pub(super) async fn push(&mut self, stencil: &Stencil) -> Result<Event, Trouble> {
        let mut pairs = self.pairs(stencil);
        if self.settings.strict {
            self.walk_all(&mut pairs).await?;
        }
        let mut cursor = stencil.cursor;
        if cursor.is_some_and(|cursor| cursor.rest == Rest::Nothing) {
            return Ok(Event::Pushed { jobs: 0, cursor });
        }
        let mut next = self.step(&mut pairs, stencil).await?;
        if next == Step::End && cursor.is_none_or(|cursor| cursor.rest == Rest::All) {
            let empty = if pairs.has_roots() { stencil.scions() } else { stencil.roots() };
            return Ok(Event::Empty(empty));
        }
        let mut jobs = 0;
        let mut size = if self.settings.strict { self.settings.chunk } else { FIRST_CHUNK };
        while let Step::Pair { .. } = next {
            size = size.min(self.settings.chunk).max(1);
            let mut chunk = Vec::with_capacity(size);
            while let (Step::Pair { root, scion }, true) = (next, chunk.len() < size) {
                chunk.push(pairs.pair(root, scion));
                next = self.step(&mut pairs, stencil).await?;
            }
            self.deliver(&chunk, &mut cursor).await?;
            jobs += chunk.len() as u64;
            if let Some(cursor) = &mut cursor {
                *cursor = cursor.advanced(chunk.len() as u64, rest_before(next));
                let mark = Mark { id: stencil.id, state: State::Started, cursor: Some(*cursor) };
                self.mark(&mark).await?;
            }
            self.progress(jobs, chunk.len() as u64, cursor.as_ref());
            size = size.saturating_mul(2);
        }
        Ok(Event::Pushed { jobs, cursor })
    }

    /// The stencil's pairs from its cursor on.
    fn pairs(&self, stencil: &Stencil) -> Pairs {
        let (roots, scions) = (stencil.roots(), stencil.scions());
        let page_size = stencil.cursor.map_or(self.settings.page_size, |cursor| cursor.page_size);
        let kept = |set, census| self.kept.get(set, page_size, census);
        let (root_tcn, scion_tcn) = (stencil.rootstock_tcn, stencil.scion_tcn);
        let Some(cursor) = stencil.cursor else {
            // The original walks anew each time.
            let (roots, scions) = (Walk::new(roots, page_size, None), Walk::new(scions, page_size, None));
            return Pairs { grid: Grid::new(), roots, scions, root_tcn, scion_tcn, walked: None };
        };
        let scions = Walk::new(scions, page_size, kept(scions, cursor.scions));
        let (grid, roots) = match cursor.rest {
            Rest::From { root, scion } => (Grid::resumed(scion), Walk::resumed(roots, page_size, root)),
            Rest::All | Rest::Nothing => {
                (Grid::new(), Walk::new(roots, page_size, kept(roots, cursor.roots)))
            }
        };
        let walked = roots.is_whole().then(Vec::new);
        Pairs { grid, roots, scions, root_tcn, scion_tcn, walked }
    }

    /// Both lists of pages completely, rootstocks first, before the first job.
    async fn walk_all(&mut self, pairs: &mut Pairs) -> Result<(), Trouble> {
        for walk in [&mut pairs.roots, &mut pairs.scions] {
            let mut pages = Vec::new();
            loop {
                // What fails here is not tried again: the walk's place is of no use afterwards.
                let next = self.renewing(walk.next(&self.store)).await?;
                match next {
                    Ok(Some(page)) => pages.push(page),
                    Ok(None) => break,
                    Err(error) => return Err(Trouble::Failed(Peer::Store, error.to_string())),
                }
            }
            let empty = pages.is_empty();
            *walk = Walk::new(walk.set(), walk.page_size(), Some(pages.into()));
            if empty {
                break;
            }
        }
        Ok(())
    }

    /// The next pair, or the end.
    async fn step(&mut self, pairs: &mut Pairs, stencil: &Stencil) -> Result<Step, Trouble> {
        loop {
            match pairs.grid.step() {
                Step::NeedRoot => {
                    let root = self.next_page(&mut pairs.roots).await?;
                    pairs.grid.add_root(root);
                    self.note_root(pairs, stencil, root);
                }
                Step::NeedScion => {
                    let scion = self.next_page(&mut pairs.scions).await?;
                    pairs.grid.add_scion(scion);
                    self.note_scions(pairs, stencil);
                }
                step @ (Step::Pair { .. } | Step::End) => return Ok(step),
            }
        }
    }

    async fn next_page(&self, walk: &mut Walk) -> Result<Option<Id>, Trouble> {
        loop {
            match self.renewing(walk.next(&self.store)).await? {
                Ok(page) => {
                    self.pace.answered(Peer::Store);
                    return Ok(page);
                }
                Err(error) if self.settings.strict => {
                    return Err(Trouble::Failed(Peer::Store, error.to_string()));
                }
                Err(error) => self.pace.endure(Peer::Store, error.to_string()).await?,
            }
        }
    }

    fn note_root(&mut self, pairs: &mut Pairs, stencil: &Stencil, root: Option<Id>) {
        match (root, &mut pairs.walked, stencil.cursor) {
            (Some(root), Some(walked), _) if walked.len() < KeptPages::IDS_MAX => walked.push(root),
            (None, Some(walked), Some(cursor)) => {
                let list = std::mem::take(walked).into();
                self.kept.keep(pairs.roots.set(), cursor.page_size, cursor.roots, list);
            }
            // A list too long to be kept.
            (Some(_), walked @ Some(_), _) => *walked = None,
            _ => {}
        }
    }

    fn note_scions(&mut self, pairs: &Pairs, stencil: &Stencil) {
        if let (Some(cursor), Some(list), true) =
            (stencil.cursor, pairs.grid.scions(), pairs.scions.is_whole())
        {
            self.kept.keep(pairs.scions.set(), cursor.page_size, cursor.scions, list.into());
        }
    }

    /// Sends a chunk until the server has acknowledged all of it, each time under other jids: what became of jobs whose reply
    /// was lost is not known, and two jobs under one jid block the server's count of those in workers' hands.
    async fn deliver(&mut self, chunk: &[Pair], cursor: &mut Option<Cursor>) -> Result<(), Trouble> {
        let mut rest: Vec<Pair> = Vec::new();
        loop {
            let todo = if rest.is_empty() { chunk } else { &rest };
            self.ready(todo.len()).await?;
            let stamp = cursor.map(|cursor| Stamp { epoch: cursor.epoch, attempt: cursor.attempt });
            let pushing = self.queue.push(todo, stamp);
            let pushed = renewing(&self.store, &self.pace, &self.tenure, pushing).await?;
            // Also what is not known to be taken may be in the queue.
            self.level.pushed(todo.len() as u64);
            let (reason, left) = match pushed {
                Ok(()) => {
                    self.pace.answered(Peer::Queue);
                    return Ok(());
                }
                Err(QueueError::Away(reason)) => (reason, None),
                Err(QueueError::NotTaken { positions, reason }) => {
                    let left: Vec<Pair> = positions.iter().filter_map(|at| todo.get(*at).copied()).collect();
                    (reason, Some(left))
                }
            };
            if self.settings.strict {
                return Err(Trouble::Failed(Peer::Queue, reason));
            }
            if let Some(left) = left {
                if left.is_empty() {
                    return Ok(());
                }
                if left.len() < todo.len() {
                    // It is there: the wait before the next try does not grow.
                    self.pace.answered(Peer::Queue);
                }
                rest = left;
            }
            if let Some(cursor) = cursor {
                cursor.attempt = cursor.attempt.saturating_add(1);
            }
            self.pace.endure(Peer::Queue, reason).await?;
        }
    }

    /// Waits until `jobs` may be sent: not paused, room in the queue, the lease in hand.
    async fn ready(&mut self, jobs: usize) -> Result<(), Trouble> {
        let jobs = jobs as u64;
        let mut measured = false;
        loop {
            self.renewing(self.pace.go()).await??;
            let gate = self.level.gate(jobs);
            if gate == Gate::Open {
                self.pace.hold(false);
                return self.assure().await;
            }
            // Also below the low mark there may be no room for a whole chunk.
            if measured || gate == Gate::Wait {
                self.pace.hold(true);
                self.renewing(self.pace.wait(self.settings.poll)).await??;
            }
            self.measure().await?;
            measured = true;
            if self.level.gate(jobs) != Gate::Open {
                self.level.full();
            }
        }
    }

    async fn measure(&mut self) -> Result<(), Trouble> {
        let length = self.read_queue().await?.length(&self.settings.queue);
        self.level.read(length);
        Ok(())
    }

    fn progress(&self, jobs: u64, fresh: u64, cursor: Option<&Cursor>) {
        let pushed = cursor.map_or(jobs, |cursor| cursor.pushed);
        self.pace.tell(Progress { pushed, fresh, total: cursor.map(Cursor::total) });
    }
}

impl Pairs {
    fn pair(&self, root_id: Id, scion_id: Id) -> Pair {
        let (root_tcn, scion_tcn) = (self.root_tcn, self.scion_tcn);
        Pair { root_id, root_tcn, scion_id, scion_tcn, page_size: self.roots.page_size() }
    }

    fn has_roots(&self) -> bool {
        self.roots.has_begun()
    }
}
