//! The original as CONTRACT SO01, SO03 and SO13 describe it, told plainly and slowly, in another shape than the product: lists
//! that are filtered and sorted again each time. It shares nothing with the code that it judges.

/// An identifier as 24 digits: their order is the database's.
pub(crate) type Hex = String;

/// A tangle: identifier, crossings, is it good?
pub(crate) type Tangle = (Hex, i64, bool);

/// A stencil.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stencil {
    pub(crate) id: Hex,
    pub(crate) tcn: i64,
    pub(crate) root: i64,
    pub(crate) scion: i64,
    pub(crate) state: i64,
}

/// The five arguments of a job.
pub(crate) type Args = (Hex, i64, Hex, i64, i64);

/// What happens while the original sleeps, or is down.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interval {
    /// Tangles that come.
    pub(crate) inserted: Vec<Tangle>,
    /// Jobs of others that the queue's server has at the next reading.
    pub(crate) jobs: u64,
}

/// The original and its database.
#[derive(Debug, Clone, Default)]
pub(crate) struct Original {
    pub(crate) tangles: Vec<Tangle>,
    pub(crate) stencils: Vec<Stencil>,
    pub(crate) completed: i64,
    pub(crate) page_size: usize,
    /// What it pushed, in order.
    pub(crate) pushed: Vec<Args>,
    /// Jobs of it that still wait in its queue: workers take them while it sleeps.
    pub(crate) waiting: usize,
    /// How often it died.
    pub(crate) deaths: usize,
}

struct Died;

impl Original {
    /// Lives through `intervals`: each sleep takes one, and each death.
    pub(crate) fn live(&mut self, jobs: u64, intervals: &[Interval]) {
        let mut clock = (jobs, intervals.iter());
        while let Some(Died) = self.process(&mut clock).err() {
            self.deaths += 1;
            if !self.pass(&mut clock) {
                return;
            }
        }
    }

    fn pass(&mut self, clock: &mut (u64, std::slice::Iter<'_, Interval>)) -> bool {
        let Some(interval) = clock.1.next() else { return false };
        self.tangles.extend(interval.inserted.iter().cloned());
        clock.0 = interval.jobs;
        self.waiting = 0;
        true
    }

    /// From the process's start to its death, or the end of time.
    fn process(&mut self, clock: &mut (u64, std::slice::Iter<'_, Interval>)) -> Result<(), Died> {
        let mut n = self.completed;
        let recovered =
            self.ids(|stencil| (stencil.state == 0 || stencil.state == 1) && stencil.tcn == n + 1);
        self.graft(recovered)?;
        loop {
            if clock.0 == 0 && self.waiting == 0 && self.open(n + 1).is_empty() {
                n += 1;
                self.completed = n;
                let open = self.open(n + 1);
                self.graft(open)?;
            }
            if !self.pass(clock) {
                return Ok(());
            }
        }
    }

    fn open(&self, t: i64) -> Vec<Hex> {
        self.ids(|stencil| stencil.state != 3 && stencil.state != 2 && stencil.tcn <= t && stencil.root != 0)
    }

    fn ids(&self, wanted: impl Fn(&Stencil) -> bool) -> Vec<Hex> {
        let mut found: Vec<&Stencil> = self.stencils.iter().filter(|stencil| wanted(stencil)).collect();
        found.sort_by_key(|stencil| (stencil.tcn, stencil.id.clone()));
        found.into_iter().map(|stencil| stencil.id.clone()).collect()
    }

    fn graft(&mut self, ids: Vec<Hex>) -> Result<(), Died> {
        for id in ids {
            let stencil = self.stencil(&id).clone();
            self.stencil(&id).state = 1;
            let roots = self.paginate(|tangle| tangle.1 == stencil.root)?;
            let scions = self.paginate(|tangle| tangle.1 == stencil.scion && tangle.2)?;
            for root in &roots {
                for scion in &scions {
                    let args =
                        (root.clone(), stencil.root, scion.clone(), stencil.scion, self.page_size as i64);
                    self.pushed.push(args);
                    self.waiting += 1;
                }
            }
            self.stencil(&id).state = 3;
        }
        Ok(())
    }

    fn stencil(&mut self, id: &Hex) -> &mut Stencil {
        self.stencils.iter_mut().find(|stencil| stencil.id == *id).expect("a stencil of ours")
    }

    /// The identifiers at positions 0, P, 2P, ... of what matches.
    fn paginate(&self, wanted: impl Fn(&Tangle) -> bool) -> Result<Vec<Hex>, Died> {
        let mut matching: Vec<Hex> =
            self.tangles.iter().filter(|tangle| wanted(tangle)).map(|tangle| tangle.0.clone()).collect();
        matching.sort();
        if matching.is_empty() {
            return Err(Died);
        }
        Ok(matching.into_iter().step_by(self.page_size).collect())
    }
}
