//! Test environment of the producer subsystem: its documents, and the jobs expected from them.

use std::{path::PathBuf, process::Command};

use serde_json::{Value, json};

use crate::{Faktory, Instance, MongoDb, TestEnv};

/// Database name.
pub const DATABASE: &str = "tanglenomicon";
/// Collection of stencils.
pub const STENCILS: &str = "arborescent_stencils";
/// Collection of tangles.
pub const TANGLES: &str = "arborescent_tangles";

/// Stencils and tangles of a small database.
#[derive(Debug, Clone, Default)]
pub struct Tanglenomicon {
    /// Completed TCN and largest TCN.
    pub completed_and_max: (i64, i64),
    /// TCN of target, rootstocks and scions of each stencil.
    pub stencils: Vec<(i64, i64, i64)>,
    /// TCN and number of good tangles.
    pub tangles: Vec<(i64, u64)>,
}

impl Tanglenomicon {
    /// Two target TCNs, three stencils, and tangles for several pages of each set.
    pub fn small() -> Self {
        Self {
            completed_and_max: (3, 5),
            stencils: vec![(4, 2, 2), (5, 2, 3), (5, 3, 2)],
            tangles: vec![(2, 11), (3, 8)],
        }
    }

    /// `_id` of the stencil at `position`.
    pub fn stencil_id(position: usize) -> String {
        format!("{:08x}{position:016x}", 0x57e)
    }

    /// `_id` of a tangle.
    pub fn tangle_id(tcn: i64, number: u64) -> String {
        format!("{tcn:08x}{number:016x}")
    }

    /// Inserts all documents into `server`.
    ///
    /// # Panics
    /// If the server refuses them.
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

    /// Arguments of all expected jobs with pages of `page_size`, in the original's order.
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

/// Environment with one database, one Faktory server and the settings of each start.
#[derive(Debug)]
pub struct ProducerEnv {
    base: TestEnv,
    settings: Vec<String>,
}

impl ProducerEnv {
    /// Creates an environment with a poll interval of 20 ms. A database user must be set in addition.
    pub fn new(binary: impl Into<PathBuf>, database: &MongoDb, queue: &Faktory) -> Self {
        Self::with_faktory_url(binary, database, &queue.url())
    }

    /// As [`ProducerEnv::new`], for a Faktory server at `url`.
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

    /// Directory, log and command line.
    pub fn base(&self) -> &TestEnv {
        &self.base
    }

    /// Command that runs the producer.
    pub fn command(&self) -> Command {
        self.base.command_of("producer", &self.settings)
    }

    /// Starts an instance and waits until its endpoint answers.
    pub fn start(&self) -> Instance {
        self.base.start_by(self.command())
    }

    /// Status of the producer, from its console.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn status(&self) -> Value {
        self.base.status_of("producer/stencil_producer")
    }
}
