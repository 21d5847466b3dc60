//! A site that runs the producer only, the documents that it works on, and the jobs that have to come of them.

use std::{path::PathBuf, process::Command};

use serde_json::{Value, json};

use crate::{Faktory, Instance, MongoDb, TestEnv};

/// The database that all of this is in.
pub const DATABASE: &str = "tanglenomicon";
/// Its collection of stencils.
pub const STENCILS: &str = "arborescent_stencils";
/// Its collection of tangles.
pub const TANGLES: &str = "arborescent_tangles";

/// Stencils and tangles of a small tanglenomicon.
#[derive(Debug, Clone, Default)]
pub struct Tanglenomicon {
    /// The TCN that is complete, and the last one.
    pub completed_and_max: (i64, i64),
    /// Target, rootstocks and scions of each stencil.
    pub stencils: Vec<(i64, i64, i64)>,
    /// TCN and number of good tangles.
    pub tangles: Vec<(i64, u64)>,
}

impl Tanglenomicon {
    /// Two targets, three stencils, and enough tangles for some pages of each set.
    pub fn small() -> Self {
        Self {
            completed_and_max: (3, 5),
            stencils: vec![(4, 2, 2), (5, 2, 3), (5, 3, 2)],
            tangles: vec![(2, 11), (3, 8)],
        }
    }

    /// The `_id` of the stencil at this position.
    pub fn stencil_id(position: usize) -> String {
        format!("{:08x}{position:016x}", 0x57e)
    }

    /// The `_id` of a tangle.
    pub fn tangle_id(tcn: i64, number: u64) -> String {
        format!("{tcn:08x}{number:016x}")
    }

    /// Puts all of it into `server`.
    ///
    /// # Panics
    /// If the server does not take it.
    pub fn fill(&self, server: &MongoDb) {
        let (completed, max) = self.completed_and_max;
        let config = json!({"_id": "config", "current_completed_tcn": completed, "max_tcn": max});
        let stencils = self.stencils.iter().enumerate().map(|(position, (tcn, root, scion))| {
            let id = Self::stencil_id(position);
            json!({"_id": {"$oid": id}, "TCN": tcn, "rootstock_tcn": root, "scion_tcn": scion, "state": 0})
        });
        server.insert(DATABASE, STENCILS, &stencils.chain([config]).collect::<Vec<_>>());
        let tangles = self.tangles.iter().flat_map(|(tcn, count)| {
            (0..*count).map(move |number| {
                let id = Self::tangle_id(*tcn, number);
                json!({"_id": {"$oid": id}, "notation": id, "TCN": tcn, "is_good": true, "positivity": "neutral"})
            })
        });
        server.insert(DATABASE, TANGLES, &tangles.collect::<Vec<_>>());
    }

    /// The arguments of all jobs with pages of `page_size`, in the original's order.
    pub fn jobs(&self, page_size: u64) -> Vec<Value> {
        let pages = |tcn: i64| {
            let count = self.tangles.iter().find(|(of, _)| *of == tcn).map_or(0, |(_, count)| *count);
            (0..count).step_by(page_size as usize).map(move |first| Self::tangle_id(tcn, first))
        };
        let jobs = self.stencils.iter().flat_map(|(_, root, scion)| {
            let pairs =
                pages(*root).flat_map(|first| pages(*scion).map(move |second| (first.clone(), second)));
            pairs.map(|(first, second)| json!([first, *root, second, *scion, page_size]))
        });
        jobs.collect()
    }
}

/// A site of its own for one database and one queue, with the settings of each start.
#[derive(Debug)]
pub struct ProducerEnv {
    base: TestEnv,
    settings: Vec<String>,
}

impl ProducerEnv {
    /// For the binary at `binary`; it looks often. A user of the database's has to be given besides.
    pub fn new(binary: impl Into<PathBuf>, database: &MongoDb, queue: &Faktory) -> Self {
        Self::with_faktory_url(binary, database, &queue.url())
    }

    /// As [`ProducerEnv::new`], for a server at `url`.
    pub fn with_faktory_url(binary: impl Into<PathBuf>, database: &MongoDb, url: &str) -> Self {
        Self { base: TestEnv::new(binary), settings: Vec::new() }
            .set("producer.poll_ms=20")
            .set(&format!("producer.mongodb.uri=mongodb://127.0.0.1:{}", database.port()))
            .set(&format!("producer.faktory.url={url}"))
    }

    /// Adds `--set SECTION.KEY=VALUE` to every start.
    #[must_use]
    pub fn set(mut self, assignment: &str) -> Self {
        self.settings.extend(["--set".to_owned(), assignment.to_owned()]);
        self
    }

    /// The directory and the command line.
    pub fn base(&self) -> &TestEnv {
        &self.base
    }

    /// The command that runs the producer on this site, without starting it.
    pub fn command(&self) -> Command {
        self.base.command_of("producer", &self.settings)
    }

    /// Starts an instance and waits until its endpoint answers.
    pub fn start(&self) -> Instance {
        self.base.start_by(self.command())
    }

    /// What the producer says of itself.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn status(&self) -> Value {
        self.base.status_of("producer/stencil_producer")
    }
}
