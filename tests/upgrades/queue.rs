//! `queue.db`: fetchers write files, and workers take and finish jobs, while the programs change. Jobs that a
//! worker took from one program are reported to the next one.

use std::{fs, path::Path, time::Instant};

use orchestrator_harness::{
    Instance, Reply, TestEnv, assert_attempts_match_log, assert_valid_database, eventually, former_program,
    load::{Disruption, Fetchers, LoadRecord, SeededRng, WorkerPool},
};

use crate::{
    LATER, RELEASE,
    installed::{Installed, Stop, assert_no_pause},
    today,
};

const FETCHERS: usize = 3;
const WORKERS: usize = 6;
/// Answers of each program under load.
const ANSWERS: u64 = 1_000;
/// The table of groups has these jobs in a class of their own.
const LIMIT: &str = "[[queue.limit]]\nmatch = \"shared*\"\nin_flight = 4\n";

/// Environment with a limit, and the fetchers and workers of one run.
struct Site {
    env: TestEnv,
    fetchers: Fetchers,
    pool: WorkerPool,
}

impl Site {
    fn new(program: &Installed) -> Self {
        let env = TestEnv::new(program.path());
        fs::write(env.path().join("limit.toml"), LIMIT).expect("the configuration");
        let mut rng = SeededRng::new(40);
        let fetchers = Fetchers::start(&[env.input_dir()], FETCHERS, &mut rng);
        let pool = WorkerPool::start(&[env.socket()], WORKERS, &mut rng);
        Self { env, fetchers, pool }
    }

    /// Starts the installed program and lets it work.
    fn start(&self, program: &Path) -> Instance {
        let started = Instant::now();
        let mut command = self.env.command();
        command.args(["--config", "limit.toml"]);
        let instance = Instance::spawn(command);
        let before = self.pool.answers()[0];
        // The first one may be of the program before.
        eventually("two answers", || self.pool.answers()[0] >= before + 2);
        assert_no_pause(program, started);
        eventually("work", || self.pool.answers()[0] >= before + ANSWERS);
        instance
    }

    /// Drains the queue and checks what files and workers have seen. Returns the number of redelivered jobs.
    fn check(self, instance: Instance, disruptions: Vec<Disruption>) -> usize {
        let Self { env, fetchers, pool } = self;
        let (present, ever) = fetchers.stop();
        LoadRecord::await_ingest(|sql| env.database().rows(sql), &present);
        let record = LoadRecord { present, ever, seen: pool.drain(), disruptions };
        let redelivered = record.check(|sql| env.database().rows(sql));
        let (jobs, done) = (record.seen.handouts.len(), record.seen.dones.len());
        eprintln!("{jobs} jobs, {done} done, {redelivered} redelivered");
        Stop::Signal.end(instance, &env);
        assert!(assert_valid_database(&env.database_path()));
        assert_attempts_match_log(&env.database_path());
        redelivered
    }
}

/// Returns the number of redelivered jobs.
fn there_and_back(commit: &str, stop: Stop) -> usize {
    let former = former_program(commit);
    let program = Installed::new(&former);
    let site = Site::new(&program);
    let mut instance = site.start(&former);
    let mut disruptions = Vec::new();
    for next in [today(), &former, today()] {
        let from = Instant::now();
        stop.end(instance, &site.env);
        disruptions.push(Disruption { instance: 0, from, to: Instant::now() });
        program.replace(next);
        instance = site.start(next);
    }
    site.check(instance, disruptions)
}

#[test]
fn stops_between_0_2_0_and_today_lose_and_repeat_no_job() {
    assert_eq!(there_and_back(RELEASE, Stop::Signal), 0);
}

/// A kill redelivers one job of each worker at most.
#[test]
fn kills_between_0_2_0_and_today_lose_no_job() {
    there_and_back(RELEASE, Stop::Kill);
}

#[test]
fn stops_between_a_later_commit_and_today_lose_and_repeat_no_job() {
    assert_eq!(there_and_back(LATER, Stop::Signal), 0);
}

/// A kill redelivers one job of each worker at most.
#[test]
fn kills_between_a_later_commit_and_today_lose_no_job() {
    there_and_back(LATER, Stop::Kill);
}

/// 0.2.0 knows no end of a pause: it is paused until somebody resumes.
#[test]
fn a_bump_of_0_2_0_and_a_pause_of_today_stay_there_and_back() {
    let former = former_program(RELEASE);
    let program = Installed::new(&former);
    let env = TestEnv::new(program.path());
    let succeed = |arguments: &[&str]| {
        let (code, out, err) = env.cli(&[&["queue"], arguments].concat());
        assert_eq!(code, 0, "{arguments:?}: {out}{err}");
    };
    env.write("f.1.txt", (0..50).map(|job| format!("job{job} f@1 1\n")).collect::<String>());
    let instance = env.start();
    env.database().expect("SELECT is_complete FROM fetcher_runs", &["1"]);
    succeed(&["bump", "job17"]);
    Stop::Kill.end(instance, &env);

    program.replace(today());
    let instance = env.start();
    succeed(&["pause", "--until", "1h"]);
    Stop::Kill.end(instance, &env);
    for next in [former.as_path(), today()] {
        program.replace(next);
        let instance = env.start();
        assert_eq!(env.worker().ready(), Reply::NoJobs, "{}", next.display());
        Stop::Signal.end(instance, &env);
    }
    program.replace(&former);
    let instance = env.start();
    succeed(&["resume"]);
    assert_eq!(env.worker().ready().attr_path(), "job17");
    Stop::Signal.end(instance, &env);
}
