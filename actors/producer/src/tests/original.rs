//! Model of the original after CONTRACT SO01, SO03 and SO13. It is simple, slow, and shares no code with the
//! producer: it filters and sorts plain lists.

/// Identifier as 24 digits, which sort as the database does.
pub(crate) type Hex = String;

/// Tangle: identifier, crossings, and whether it is good.
pub(crate) type Tangle = (Hex, i64, bool);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stencil {
    pub(crate) id: Hex,
    pub(crate) tcn: i64,
    pub(crate) root: i64,
    pub(crate) scion: i64,
    pub(crate) state: i64,
}

/// Arguments of a job.
pub(crate) type Args = (Hex, i64, Hex, i64, i64);

/// Changes during a sleep or after a crash of the original.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interval {
    pub(crate) inserted: Vec<Tangle>,
    /// Other jobs on the server at the next reading.
    pub(crate) jobs: u64,
}

/// The original and its database.
#[derive(Debug, Clone, Default)]
pub(crate) struct Original {
    pub(crate) tangles: Vec<Tangle>,
    pub(crate) stencils: Vec<Stencil>,
    pub(crate) completed: i64,
    pub(crate) page_size: usize,
    /// Pushed jobs, in order.
    pub(crate) pushed: Vec<Args>,
    /// Jobs that wait in the queue; workers complete them during each sleep.
    pub(crate) waiting: usize,
    pub(crate) crashes: usize,
}

struct Crashed;

impl Original {
    /// Runs through `intervals`; each sleep and each crash takes one.
    pub(crate) fn run(&mut self, jobs: u64, intervals: &[Interval]) {
        let mut clock = (jobs, intervals.iter());
        while let Some(Crashed) = self.process(&mut clock).err() {
            self.crashes += 1;
            if !self.next_interval(&mut clock) {
                return;
            }
        }
    }

    fn next_interval(&mut self, clock: &mut (u64, std::slice::Iter<'_, Interval>)) -> bool {
        let Some(interval) = clock.1.next() else { return false };
        self.tangles.extend(interval.inserted.iter().cloned());
        clock.0 = interval.jobs;
        self.waiting = 0;
        true
    }

    /// Runs from a start until a crash or the end of the intervals.
    fn process(&mut self, clock: &mut (u64, std::slice::Iter<'_, Interval>)) -> Result<(), Crashed> {
        let mut n = self.completed;
        let recovered =
            self.ids(|stencil| (stencil.state == 0 || stencil.state == 1) && stencil.tcn == n + 1);
        self.push(recovered)?;
        loop {
            if clock.0 == 0 && self.waiting == 0 && self.open(n + 1).is_empty() {
                n += 1;
                self.completed = n;
                let open = self.open(n + 1);
                self.push(open)?;
            }
            if !self.next_interval(clock) {
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

    fn push(&mut self, ids: Vec<Hex>) -> Result<(), Crashed> {
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
        self.stencils.iter_mut().find(|stencil| stencil.id == *id).expect("a known stencil")
    }

    /// Identifiers at positions 0, P, 2P, .. of the matching tangles.
    fn paginate(&self, wanted: impl Fn(&Tangle) -> bool) -> Result<Vec<Hex>, Crashed> {
        let mut matching: Vec<Hex> =
            self.tangles.iter().filter(|tangle| wanted(tangle)).map(|tangle| tangle.0.clone()).collect();
        matching.sort();
        if matching.is_empty() {
            return Err(Crashed);
        }
        Ok(matching.into_iter().step_by(self.page_size).collect())
    }
}
