//! Verbs of the console, and the text of their answers.

mod answers;
mod report;

use clap::Args;
use orchestrator_subsystem::{
    Verb,
    verb::{messages, number},
};
use orchestrator_supervise::Effect;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::answers::*;
use crate::storage::{Peeked, StaleGroup};

messages!(Ls, Peek, Stats, Show, InFlight, Failed, Stale, Bump, Requeue, Pause, Resume);

/// List the runs of all fetchers (a run is a fetcher file), with the number of rows of each
///
/// Example: orchestrator queue ls
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ls {}

impl Verb for Ls {
    const NAME: &'static str = "ls";
    const EFFECT: Effect = Effect::Reads;
    const EMPTY: &'static str = "no fetcher file in the queue\n";
    type Answer = Vec<RunRow>;
}

/// Show the next jobs without handing them out
///
/// Example: orchestrator queue peek -n 3
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Peek {
    /// Number of jobs, at most 1000
    #[arg(short, default_value_t = 10, value_name = "N")]
    #[serde(default = "number::<10>")]
    pub(crate) n: u32,
}

impl Verb for Peek {
    const NAME: &'static str = "peek";
    const EFFECT: Effect = Effect::Reads;
    const EMPTY: &'static str = "no job is waiting\n";
    type Answer = Vec<Peeked>;
}

/// Show the numbers of rows and of jobs that are ready, held (their attribute path is in flight) or in flight
///
/// Example: orchestrator queue stats --json
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stats {}

impl Verb for Stats {
    const NAME: &'static str = "stats";
    const EFFECT: Effect = Effect::Reads;
    type Answer = Totals;
}

/// Show the waiting job, the running job and the past attempts of an attribute path
///
/// Example: orchestrator queue show python3Packages.requests
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Show {
    /// Attribute path of the job
    #[arg(value_name = "ATTR")]
    pub(crate) attr_path: String,
    /// Number of attempts, at most 1000
    #[arg(short, default_value_t = 20, value_name = "N")]
    #[serde(default = "number::<20>")]
    pub(crate) n: u32,
}

impl Verb for Show {
    const NAME: &'static str = "show";
    const EFFECT: Effect = Effect::Reads;
    type Answer = PathReport;

    fn text(&self, answer: &PathReport) -> String {
        report::show(answer)
    }
}

/// List the jobs in flight, longest first
///
/// Example: orchestrator queue in-flight -n 10
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InFlight {
    /// Number of jobs, at most 1000
    #[arg(short, default_value_t = 100, value_name = "N")]
    #[serde(default = "number::<100>")]
    pub(crate) n: u32,
}

impl Verb for InFlight {
    const NAME: &'static str = "in-flight";
    const EFFECT: Effect = Effect::Reads;
    const EMPTY: &'static str = "no job is in flight\n";
    type Answer = Vec<RunningRow>;
}

/// List failed attempts, newest first
///
/// Example: orchestrator queue failed --code 124 --since 24h
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Failed {
    /// List only attempts with this exit code
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) code: Option<i64>,
    /// List only attempts handed out since then: a duration like 24h, a time like 2026-11-23T08:00:00Z, or unix seconds
    #[arg(long, value_name = "TIME", value_parser = report::time)]
    pub(crate) since: Option<i64>,
    /// Number of attempts, at most 1000
    #[arg(short, default_value_t = 100, value_name = "N")]
    #[serde(default = "number::<100>")]
    pub(crate) n: u32,
}

impl Verb for Failed {
    const NAME: &'static str = "failed";
    const EFFECT: Effect = Effect::Reads;
    const EMPTY: &'static str = "no failed attempt\n";
    type Answer = Vec<AttemptRow>;
}

/// List jobs of the fetcher files that were not handed out for some days
///
/// Example: orchestrator queue stale --days 30
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stale {
    /// Minimum number of days since the last hand-out
    #[arg(long, default_value_t = 30)]
    #[serde(default = "number::<30>")]
    pub(crate) days: u32,
    /// Number of jobs, at most 1000
    #[arg(short, default_value_t = 100, value_name = "N")]
    #[serde(default = "number::<100>")]
    pub(crate) n: u32,
}

impl Verb for Stale {
    const NAME: &'static str = "stale";
    const EFFECT: Effect = Effect::Reads;
    const EMPTY: &'static str = "every listed job was tried\n";
    type Answer = Vec<StaleGroup>;
}

/// Put a waiting job before all others, for its next hand-out
///
/// Example: orchestrator queue bump python3Packages.requests
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bump {
    /// Attribute path of the job
    #[arg(value_name = "ATTR")]
    pub(crate) attr_path: String,
}

impl Verb for Bump {
    const NAME: &'static str = "bump";
    type Answer = Bumped;

    fn text(&self, _: &Bumped) -> String {
        format!("{} is next\n", self.attr_path)
    }
}

/// Make a job available again, even if a worker has it; the worker is not stopped
///
/// Example: orchestrator queue requeue python3Packages.requests
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Requeue {
    /// Attribute path of the job
    #[arg(value_name = "ATTR")]
    pub(crate) attr_path: String,
}

impl Verb for Requeue {
    const NAME: &'static str = "requeue";
    type Answer = Requeued;

    fn text(&self, answer: &Requeued) -> String {
        match answer.requeued {
            0 => format!("nothing to requeue: no worker has {}\n", self.attr_path),
            n => format!("{n} requeued\n"),
        }
    }
}

/// Stop handing out jobs until `resume`; workers get NOJOBS, and their DONE lines still count
///
/// Example: orchestrator queue pause --reason "new disk"
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pause {
    /// Reason, recorded in the audit log and shown by `orchestrator why`
    #[arg(long, default_value = "", value_name = "TEXT")]
    #[serde(default)]
    pub(crate) reason: String,
}

impl Verb for Pause {
    const NAME: &'static str = "pause";
    const EFFECT: Effect = Effect::Pauses;
    type Answer = Paused;

    fn text(&self, _: &Paused) -> String {
        "paused: no job is handed out\n".to_owned()
    }
}

/// Resume handing out jobs
///
/// Example: orchestrator queue resume
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resume {
    /// Reason, recorded in the audit log
    #[arg(skip)]
    #[serde(default)]
    pub(crate) reason: String,
}

impl Verb for Resume {
    const NAME: &'static str = "resume";
    const EFFECT: Effect = Effect::Resumes;
    type Answer = Paused;

    fn text(&self, _: &Paused) -> String {
        "resumed: jobs are handed out\n".to_owned()
    }
}
