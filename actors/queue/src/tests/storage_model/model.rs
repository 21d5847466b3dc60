//! Naive implementation of the contract with vectors and full scans.

mod attempts;
mod bumps;
mod foreign;
mod limits;
mod tables;

use std::collections::BTreeSet;

type Log = Option<(i64, Option<i64>, Option<i64>)>;

#[derive(Debug, Clone)]
struct QueueRow {
    fetcher: usize,
    run: i64,
    attr: String,
    payload: String,
    dequeued: bool,
    last_started: Option<i64>,
    jitter: Option<i64>,
}

#[derive(Debug, Clone)]
struct Handout {
    id: i64,
    attr: String,
    fetcher: usize,
    started: i64,
    runs: Vec<i64>,
    previous: Log,
    delivered: bool,
    /// A DONE came before the record of the delivery.
    done: bool,
}

/// Answers of the store.
#[derive(Debug)]
pub(crate) enum Picked {
    Right,
    Wrong(Option<(String, String)>),
}

#[derive(Debug, Clone)]
pub(crate) struct Model {
    hold: i64,
    redeliver: bool,
    /// Fetcher names in order of creation; a fetcher that returns is created again. Indexes are the
    /// ids.
    fetchers: Vec<Option<String>>,
    runs: Vec<(usize, i64, bool)>,
    queue: Vec<QueueRow>,
    log: Vec<(String, i64, Option<i64>, Option<i64>)>,
    handouts: Vec<Handout>,
    attempts: Vec<attempts::Attempt>,
    attempts_max: usize,
    bumps: bumps::Bumps,
    limited: limits::Limited,
    /// Names of all fetchers that ever were.
    fetcher_names: Vec<String>,
    /// Runs being deleted.
    marked: Vec<(usize, i64)>,
    /// Groups whose newest row was in a deleted run: they become available before the run's end.
    coming_back: BTreeSet<(usize, String)>,
}

/// The contract's jitter hash, implemented again.
fn jitter(attr: &str) -> i64 {
    let digest = <md5::Md5 as md5::Digest>::digest(attr);
    let low = (0..4).rev().fold(0_u32, |number, at| number << 8 | u32::from(digest[at]));
    i64::from(low.cast_signed())
}

impl Model {
    pub(crate) fn new(hold: i64, redeliver: bool, attempts_max: usize, limits: Option<[u32; 2]>) -> Self {
        Self {
            hold,
            redeliver,
            fetchers: Vec::new(),
            runs: Vec::new(),
            queue: Vec::new(),
            log: Vec::new(),
            handouts: Vec::new(),
            attempts: Vec::new(),
            attempts_max,
            bumps: bumps::Bumps::default(),
            limited: limits::Limited::new(limits),
            fetcher_names: Vec::new(),
            marked: Vec::new(),
            coming_back: BTreeSet::new(),
        }
    }

    fn fetcher(&self, name: &str) -> Option<usize> {
        self.fetchers.iter().position(|known| known.as_deref() == Some(name))
    }

    fn log_of(&self, attr: &str) -> Log {
        self.log.iter().find(|row| row.0 == attr).map(|row| (row.1, row.2, row.3))
    }

    fn set_log(&mut self, attr: &str, log: Log) {
        self.log.retain(|row| row.0 != attr);
        if let Some((started, finished, code)) = log {
            self.log.push((attr.to_owned(), started, finished, code));
        }
    }

    fn set_last_started(&mut self, attr: &str, started: Option<i64>) {
        for row in self.queue.iter_mut().filter(|row| row.attr == attr) {
            row.last_started = started;
        }
    }

    pub(crate) fn is_live(&self, fetcher: &str, run: i64) -> bool {
        self.fetcher(fetcher).is_some_and(|id| self.runs.iter().any(|known| (known.0, known.1) == (id, run)))
    }

    pub(crate) fn must_wait(&self, fetcher: &str, run: i64) -> bool {
        let Some(id) = self.fetcher(fetcher) else { return false };
        let alive = self.runs.iter().any(|known| known.0 == id);
        self.marked.iter().any(|marked| marked.0 == id && (marked.1 == run || !alive))
    }

    pub(crate) fn upsert(&mut self, fetcher: &str, run: i64, complete: bool) {
        let id = self.fetcher(fetcher).unwrap_or_else(|| {
            self.fetchers.push(Some(fetcher.to_owned()));
            self.fetcher_names.push(fetcher.to_owned());
            self.fetchers.len() - 1
        });
        self.runs.retain(|known| (known.0, known.1) != (id, run));
        self.runs.push((id, run, complete));
    }

    /// Returns false for an unknown run (CONTRACT QD14).
    pub(crate) fn enqueue(&mut self, fetcher: &str, run: i64, lines: &[(String, String)]) -> bool {
        let Some(id) = self.fetcher(fetcher) else { return false };
        if !self.is_live(fetcher, run) {
            return false;
        }
        for (attr, payload) in lines {
            let same =
                self.queue.iter_mut().find(|row| row.fetcher == id && row.run == run && row.attr == *attr);
            match same {
                Some(row) => row.payload.clone_from(payload),
                None => {
                    let last_started = self.log_of(attr).map(|log| log.0);
                    self.queue.push(QueueRow {
                        fetcher: id,
                        run,
                        attr: attr.clone(),
                        payload: payload.clone(),
                        dequeued: false,
                        last_started,
                        jitter: Some(jitter(attr)),
                    });
                }
            }
        }
        true
    }

    /// Returns the rows that represent their groups: those without a newer one.
    fn standing(&self) -> Vec<&QueueRow> {
        let newer = |row: &QueueRow| {
            self.queue
                .iter()
                .any(|other| other.fetcher == row.fetcher && other.attr == row.attr && other.run > row.run)
        };
        self.queue.iter().filter(|row| !newer(row)).collect()
    }

    fn eligible(&self, now: i64) -> Vec<QueueRow> {
        let free = |attr: &str| match self.log_of(attr) {
            None => true,
            Some((started, finished, _)) => finished.is_some() || started + self.hold < now,
        };
        let is_next = |row: &&QueueRow| !row.dequeued && free(&row.attr) && !self.is_limited(row, now);
        let mut rows: Vec<QueueRow> = self.standing().into_iter().filter(is_next).cloned().collect();
        rows.sort_by(|a, b| {
            let by_time = a.last_started.cmp(&b.last_started).then(a.jitter.cmp(&b.jitter));
            by_time.then(a.attr.as_bytes().cmp(b.attr.as_bytes())).then(a.fetcher.cmp(&b.fetcher))
        });
        rows
    }

    pub(crate) fn peek(&self, now: i64) -> Option<(String, String, String)> {
        let row = self.eligible(now).into_iter().next()?;
        Some((self.fetchers[row.fetcher].clone()?, row.attr, row.payload))
    }

    pub(crate) fn dequeue(&mut self, now: i64, got: Option<(&str, &str)>, id: i64) -> Picked {
        if self.redeliver {
            self.release(now);
        }
        let eligible = self.eligible(now);
        let (rows, is_bumped) = self.order_by_bumps(eligible);
        match self.serve(rows, is_bumped, now, got) {
            Ok(Some(handout)) => {
                self.forget_handout(&handout.attr);
                let fetcher = self.fetchers[handout.fetcher].clone();
                self.begin_attempt(&Handout { id, ..handout.clone() }, now, fetcher);
                self.use_bump(&handout.attr, id);
                self.begin_limited(&handout.attr, handout.fetcher, now);
                self.handouts.push(Handout { id, ..handout });
                Picked::Right
            }
            Ok(None) => Picked::Right,
            Err(expected) => Picked::Wrong(expected),
        }
    }

    /// Models a dequeue by a program that keeps no record.
    pub(crate) fn dequeue_unrecorded(&mut self, now: i64, got: Option<(&str, &str)>) -> Picked {
        self.serve(self.eligible(now), false, now, got).map_or_else(Picked::Wrong, |_| Picked::Right)
    }

    fn serve(
        &mut self,
        rows: Vec<QueueRow>,
        is_bumped: bool,
        now: i64,
        got: Option<(&str, &str)>,
    ) -> Result<Option<Handout>, Option<(String, String)>> {
        for row in rows {
            if got == Some((&row.attr, &row.payload)) {
                return Ok(Some(self.take(row, now)));
            }
            if is_bumped || !self.coming_back.contains(&(row.fetcher, row.attr.clone())) {
                return Err(Some((row.attr, row.payload)));
            }
        }
        if got.is_none() { Ok(None) } else { Err(None) }
    }

    fn take(&mut self, chosen: QueueRow, now: i64) -> Handout {
        let mut runs = Vec::new();
        for row in &mut self.queue {
            if row.attr == chosen.attr && row.fetcher == chosen.fetcher && !row.dequeued {
                row.dequeued = true;
                runs.push(row.run);
            }
        }
        let previous = self.log_of(&chosen.attr);
        self.set_log(&chosen.attr, Some((now, None, None)));
        self.set_last_started(&chosen.attr, Some(now));
        Handout {
            id: 0,
            attr: chosen.attr,
            fetcher: chosen.fetcher,
            started: now,
            runs,
            previous,
            delivered: false,
            done: false,
        }
    }

    fn release(&mut self, now: i64) {
        let expired = |handout: &Handout| handout.delivered && handout.started + self.hold < now;
        let (gone, kept): (Vec<_>, Vec<_>) = self.handouts.clone().into_iter().partition(expired);
        self.handouts = kept;
        for handout in gone {
            self.forget_bump(&handout.attr);
            if self.is_current(&handout) {
                self.restore_rows(&handout);
            }
        }
    }

    fn is_current(&self, handout: &Handout) -> bool {
        self.log_of(&handout.attr).is_some_and(|log| log.0 == handout.started && log.1.is_none())
    }

    fn restore_rows(&mut self, handout: &Handout) {
        for row in &mut self.queue {
            if row.attr == handout.attr && row.fetcher == handout.fetcher && handout.runs.contains(&row.run) {
                row.dequeued = false;
            }
        }
    }

    pub(crate) fn finish(&mut self, attr: &str, code: i64, now: i64) -> Option<i64> {
        let (started, _, _) = self.log_of(attr)?;
        self.end_limited(attr);
        self.set_log(attr, Some((started, Some(now), Some(code))));
        self.handouts.retain(|handout| handout.attr != attr || !handout.delivered);
        self.handouts
            .iter_mut()
            .filter(|handout| handout.attr == attr)
            .for_each(|handout| handout.done = true);
        self.forget_bump(attr);
        Some(now - started)
    }

    pub(crate) fn delivered(&mut self, id: i64) -> bool {
        let found = self.handouts.iter_mut().find(|handout| handout.id == id && !handout.delivered);
        let is_found = found.map(|handout| handout.delivered = true).is_some();
        self.handouts.retain(|handout| !(handout.delivered && handout.done));
        is_found
    }

    fn forget_handout(&mut self, attr: &str) {
        self.handouts.retain(|handout| handout.attr != attr);
        self.forget_bump(attr);
    }

    pub(crate) fn undo(&mut self, id: i64) -> bool {
        let Some(at) = self.handouts.iter().position(|handout| handout.id == id) else {
            return false;
        };
        let handout = self.handouts.remove(at);
        if handout.done {
            self.restore_rows(&handout);
            return true;
        }
        if !self.is_current(&handout) {
            self.forget_bump(&handout.attr);
            return false;
        }
        self.restore_bump(id);
        self.restore_rows(&handout);
        self.remove_attempt(id);
        self.end_limited(&handout.attr);
        self.set_log(&handout.attr, handout.previous);
        self.set_last_started(&handout.attr, handout.previous.map(|log| log.0));
        true
    }

    pub(crate) fn undo_undelivered(&mut self) -> usize {
        let redeliver = self.redeliver;
        self.handouts.retain(|handout| !handout.delivered || redeliver);
        let kept = |id| self.handouts.iter().any(|handout| handout.id == id && !handout.delivered);
        self.bumps.keep_used(kept);
        let ids: Vec<i64> = self.handouts.iter().filter(|handout| !handout.delivered).map(|h| h.id).collect();
        ids.into_iter().filter(|id| self.undo(*id)).count()
    }

    pub(crate) fn mark_deleted(&mut self, fetcher: &str, run: i64) -> bool {
        if !self.is_live(fetcher, run) {
            return false;
        }
        let Some(id) = self.fetcher(fetcher) else { return false };
        let hiding: Vec<String> = self
            .standing()
            .into_iter()
            .filter(|row| row.fetcher == id && row.run == run)
            .map(|row| row.attr.clone())
            .collect();
        self.coming_back.extend(hiding.into_iter().map(|attr| (id, attr)));
        self.runs.retain(|known| (known.0, known.1) != (id, run));
        self.queue.retain(|row| (row.fetcher, row.run) != (id, run));
        self.marked.push((id, run));
        true
    }

    /// Models the removal of a deleted run's last row.
    pub(crate) fn deleted(&mut self, fetcher: &str, run: i64) {
        let Some(id) = self.fetcher(fetcher) else { return };
        self.marked.retain(|marked| *marked != (id, run));
        if self.marked.is_empty() {
            self.coming_back.clear();
        }
        if !self.runs.iter().any(|known| known.0 == id) && !self.marked.iter().any(|marked| marked.0 == id) {
            self.fetchers[id] = None;
        }
    }

    pub(crate) fn marked(&self) -> usize {
        self.marked.len()
    }

    pub(crate) fn requeue(&mut self, attr: &str, now: i64) -> (usize, bool) {
        let mut rows = 0;
        for row in self.queue.iter_mut().filter(|row| row.attr == attr && row.dequeued) {
            row.dequeued = false;
            rows += 1;
        }
        self.forget_handout(attr);
        match self.log_of(attr) {
            Some((started, None, code)) => {
                self.end_limited(attr);
                self.set_log(attr, Some((started, Some(now), code)));
                (rows, true)
            }
            _ => (rows, false),
        }
    }
}
