//! Verbs of the console, and the text of their answers.

mod answers;
mod report;

use orchestrator_queue_rules::storage::{
    Adopted, FailedJob, InstanceRow, JobState, Pattern, Peeked, StaleGroup,
};
use orchestrator_subsystem::{Until, until_text, verb, verb::number};

pub(crate) use self::{answers::*, report::place};

verb! {
    "ls", Reads -> Vec<RunRow>, empty "no fetcher file in the queue\n";
    /// List the runs of all fetchers (a run is a fetcher file), with the numbers of rows and of waiting jobs
    /// of each
    ///
    /// Example: orchestrator queue ls
    pub(crate) struct Ls {}
}

verb! {
    "peek", Reads -> Vec<Peeked>, empty "no job is waiting\n";
    /// Show the next jobs without handing them out
    ///
    /// Example: orchestrator queue peek -n 3
    pub(crate) struct Peek {
        /// Number of jobs, at most 1000
        #[arg(short, default_value_t = 10, value_name = "N")]
        #[serde(default = "number::<10>")]
        pub(crate) n: u32,
        /// Show only attribute paths of this pattern: `*` stands for any characters, `?` for one
        #[arg(long = "match", value_name = "PATTERN")]
        #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        pub(crate) pattern: Option<Pattern>,
    }
}

verb! {
    "stats", Reads -> Totals;
    /// Show the numbers of rows and of jobs that are ready, held (their attribute path is in flight) or in
    /// flight
    ///
    /// Example: orchestrator queue stats --json
    pub(crate) struct Stats {}
}

verb! {
    "show", Reads -> PathReport, text |_, answer| report::show(answer);
    /// Show the runs that list an attribute path, its waiting and running job, and its past attempts
    ///
    /// Example: orchestrator queue show python3Packages.requests
    pub(crate) struct Show {
        /// Attribute path of the job
        #[arg(value_name = "ATTR")]
        pub(crate) attr_path: String,
        /// Number of attempts, at most 1000
        #[arg(short, default_value_t = 20, value_name = "N")]
        #[serde(default = "number::<20>")]
        pub(crate) n: u32,
    }
}

verb! {
    "in-flight", Reads -> Vec<RunningRow>, empty "no job is in flight\n";
    /// List the jobs in flight, longest first
    ///
    /// Example: orchestrator queue in-flight -n 10
    pub(crate) struct InFlight {
        /// Number of jobs, at most 1000
        #[arg(short, default_value_t = 100, value_name = "N")]
        #[serde(default = "number::<100>")]
        pub(crate) n: u32,
        /// List only attribute paths of this pattern: `*` stands for any characters, `?` for one
        #[arg(long = "match", value_name = "PATTERN")]
        #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        pub(crate) pattern: Option<Pattern>,
    }
}

verb! {
    "failed", Reads -> Vec<AttemptRow>, empty "no failed attempt\n";
    /// List failed attempts, newest first
    ///
    /// Example: orchestrator queue failed --code 124 --since 24h
    pub(crate) struct Failed {
        /// List only attempts with this exit code
        #[arg(long, allow_negative_numbers = true)]
        pub(crate) code: Option<i64>,
        /// List only attempts handed out since then: a duration like 24h, a time like 2026-11-23T08:00:00Z,
        /// or unix seconds
        #[arg(long, value_name = "TIME", value_parser = report::time)]
        pub(crate) since: Option<i64>,
        /// List only attribute paths of this pattern: `*` stands for any characters, `?` for one
        #[arg(long = "match", value_name = "PATTERN")]
        #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        pub(crate) pattern: Option<Pattern>,
        /// Number of attempts, at most 1000
        #[arg(short, default_value_t = 100, value_name = "N")]
        #[serde(default = "number::<100>")]
        pub(crate) n: u32,
    }
}

verb! {
    "failures", Reads -> Vec<FailedJob>, empty "no failed job\n";
    /// List failed jobs in the order of their ends, for programs that must miss none
    ///
    /// A program repeats the request with the number of the last job that it has read. At least the last
    /// 10,000 are kept.
    ///
    /// Example: orchestrator queue failures --after 1795646400000000
    pub(crate) struct Failures {
        /// List only jobs with a number above this one
        #[arg(long, default_value_t = 0, value_name = "NUMBER")]
        #[serde(default)]
        pub(crate) after: i64,
        /// Number of jobs, at most 1000
        #[arg(short, default_value_t = 100, value_name = "N")]
        #[serde(default = "number::<100>")]
        pub(crate) n: u32,
    }
}

verb! {
    "stale", Reads -> Vec<StaleGroup>, empty "every listed job was tried\n";
    /// List jobs of the fetcher files that were not handed out for some days
    ///
    /// Example: orchestrator queue stale --days 30
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
}

verb! {
    "instances", Reads -> Vec<InstanceRow>, empty "the queue is on SQLite: this process is its only instance\n";
    /// List the instances that share the queue on PostgreSQL, with their leases and sockets
    ///
    /// Example: orchestrator queue instances
    pub(crate) struct Instances {}
}

verb! {
    "adopt", Changes -> Adopted, text |_, answer| report::adopted(answer);
    /// Move a fetcher with its runs to this instance, from another one that shares the queue on PostgreSQL
    ///
    /// Copy its files to this instance first: runs without a file are deleted. They are read within 3 s, and
    /// are not read any more at the instance that had the fetcher.
    ///
    /// Example: orchestrator queue adopt github
    pub(crate) struct Adopt {
        /// Fetcher, the stem of its file names
        #[arg(value_name = "FETCHER")]
        pub(crate) fetcher: String,
        /// Reason, recorded in the audit log
        #[arg(long, default_value = "", value_name = "TEXT")]
        #[serde(default)]
        pub(crate) reason: String,
    }
}

verb! {
    "bump", Changes -> BumpAnswer, text |verb, _| format!("{} is next\n", verb.attr_path);
    /// Put a waiting job before all others, for its next hand-out
    ///
    /// Example: orchestrator queue bump python3Packages.requests
    pub(crate) struct Bump {
        /// Attribute path of the job
        #[arg(value_name = "ATTR")]
        pub(crate) attr_path: String,
    }
}

verb! {
    "requeue", Changes -> RequeueAnswer, text |verb, answer| {
        match answer.requeued {
            0 => format!("nothing to requeue: no worker has {}\n", verb.attr_path),
            n => format!("{n} requeued\n"),
        }
    };
    /// Make a job available again, even if a worker has it; the worker is not stopped
    ///
    /// Example: orchestrator queue requeue python3Packages.requests
    pub(crate) struct Requeue {
        /// Attribute path of the job
        #[arg(value_name = "ATTR")]
        pub(crate) attr_path: String,
    }
}

verb! {
    "bump-all", Changes -> BumpedAll, text |_, answer| report::bumped(answer);
    /// Put the waiting jobs of a pattern before all others, for their next hand-outs; at most 32 jobs are
    /// bumped at a time
    ///
    /// Example: orchestrator queue bump-all 'python3Packages.*'
    pub(crate) struct BumpAll {
        /// Pattern of attribute paths: `*` stands for any characters, `?` for one
        #[arg(value_name = "PATTERN")]
        #[serde(rename = "match")]
        #[schemars(with = "String")]
        pub(crate) pattern: Pattern,
        /// Reason, recorded in the audit log
        #[arg(long, default_value = "", value_name = "TEXT")]
        #[serde(default)]
        pub(crate) reason: String,
    }
}

verb! {
    "requeue-all", Changes -> RequeuedAll, text |_, answer| report::requeued(*answer);
    /// Make all jobs of a filter available again, also those that workers have; the workers are not stopped
    ///
    /// Only the last hand-out of an attribute path counts. Many jobs are requeued after the answer, between
    /// requests of workers.
    ///
    /// Example: orchestrator queue requeue-all failed --code 124 --since 24h
    pub(crate) struct RequeueAll {
        /// State of the jobs
        #[arg(value_parser = report::job_state(), value_name = "STATE")]
        pub(crate) state: JobState,
        /// Requeue only jobs with this exit code
        #[arg(long, allow_negative_numbers = true)]
        pub(crate) code: Option<i64>,
        /// Requeue only jobs handed out since then: a duration like 24h, a time like 2026-11-23T08:00:00Z, or
        /// unix seconds
        #[arg(long, value_name = "TIME", value_parser = report::time)]
        pub(crate) since: Option<i64>,
        /// Requeue only jobs handed out until then: a time, or a duration like 2h for at least two hours ago
        #[arg(long, value_name = "TIME", value_parser = report::time)]
        pub(crate) until: Option<i64>,
        /// Requeue only attribute paths of this pattern: `*` stands for any characters, `?` for one
        #[arg(long = "match", value_name = "PATTERN")]
        #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        pub(crate) pattern: Option<Pattern>,
        /// Reason, recorded in the audit log
        #[arg(long, default_value = "", value_name = "TEXT")]
        #[serde(default)]
        pub(crate) reason: String,
    }
}

verb! {
    "pause", Pauses -> Paused, text |_, answer| format!("paused{}: no job is handed out\n", until_text(answer.until_ms));
    /// Stop handing out jobs until `resume`; workers get NOJOBS, and their DONE lines still count
    ///
    /// Example: orchestrator queue pause --until 30m --reason "new disk"
    pub(crate) struct Pause {
        /// Resume then: a duration (30m, 1d, 2w), or a time of day or date and time in the instance's time
        /// zone (18:00)
        #[arg(long, value_name = "TIME|DURATION")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) until: Option<Until>,
        /// Reason, recorded in the audit log and shown by `orchestrator why`
        #[arg(long, default_value = "", value_name = "TEXT")]
        #[serde(default)]
        pub(crate) reason: String,
    }
}

verb! {
    "resume", Resumes -> Paused, text |_, _| "resumed: jobs are handed out\n".to_owned();
    /// Resume handing out jobs
    ///
    /// Example: orchestrator queue resume
    pub(crate) struct Resume {
        /// Reason, recorded in the audit log
        #[arg(skip)]
        #[serde(default)]
        pub(crate) reason: String,
    }
}
