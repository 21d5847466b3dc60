//! `hooks.db`: a webhook refuses everything while the programs change, and jobs of the queue fail meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Instant,
};

use orchestrator_harness::{
    Database, Instance, Post, Reply, TestEnv, Webhook, eventually, former_program,
    load::{Done, SeededRng, WorkerPool},
};

use crate::{
    LATER,
    installed::{Installed, Stop, assert_no_pause},
    today,
};

/// Jobs that are written before each replacement of a program.
const JOBS: usize = 60;
const WORKERS: usize = 3;
const FILE: &str = "f.1.txt.part";

/// Environment whose failed jobs are posted to a webhook.
struct Site {
    env: TestEnv,
    webhook: Webhook,
}

impl Site {
    fn new(program: &Installed, status: &'static str) -> Self {
        let env = TestEnv::new(program.path());
        let webhook = Webhook::start("/", status);
        let text = format!(
            "[links]\nretry_max_ms = 100\n[[hook]]\nname = 'failed'\non = 'queue.failed'\nurl = '{}'\n",
            webhook.url
        );
        fs::write(env.path().join("hooks.toml"), text).expect("the configuration");
        env.write(FILE, "");
        Self { env, webhook }
    }

    fn start(&self, program: &Path) -> Instance {
        let started = Instant::now();
        let mut command = self.env.command();
        command.args(["--config", "hooks.toml"]);
        let instance = Instance::spawn(command);
        instance.await_service(&self.env);
        assert_no_pause(program, started);
        // Failures before it are not told.
        eventually("a position", || self.stored("SELECT count(*) FROM position") == 1);
        instance
    }

    /// Appends jobs to the growing file, in the format of the pool's workers.
    fn append(&self, first: usize) {
        let lines = (first..first + JOBS).map(|job| format!("job{job:04} f@1 1\n"));
        self.env.append(FILE, lines.collect::<String>());
    }

    /// Number in the outbox.
    fn stored(&self, sql: &str) -> i64 {
        let outbox = Database::open(&self.env.path().join("hooks.db"));
        outbox.connection().query_row(sql, [], |row| row.get(0)).unwrap_or_default()
    }

    fn waiting(&self) -> i64 {
        self.stored("SELECT count(*) FROM waiting")
    }
}

/// Ids of the posts about each attribute path.
fn ids(posts: &[Post]) -> BTreeMap<String, Vec<String>> {
    let mut ids = BTreeMap::<_, Vec<_>>::new();
    for post in posts {
        let text = |at: &str| post.body.pointer(at).and_then(|text| text.as_str()).expect("text").to_owned();
        ids.entry(text("/data/attr_path")).or_default().push(text("/id"));
    }
    ids
}

/// Replaces the programs while jobs fail. Returns what was reported as done, and what the webhook accepted.
fn there_and_back(stop: Stop) -> (Vec<Done>, BTreeMap<String, Vec<String>>) {
    let former = former_program(LATER);
    let program = Installed::new(&former);
    let site = Site::new(&program, "503 Not now");
    let mut instance = site.start(&former);
    let pool = WorkerPool::start(&[site.env.socket()], WORKERS, &mut SeededRng::new(3));
    let mut written = 0;
    for next in [today(), &former, today()] {
        let before = site.waiting();
        site.append(written);
        eventually("failures", || site.waiting() > before);
        stop.end(instance, &site.env);
        program.replace(next);
        instance = site.start(next);
        written += JOBS;
    }
    site.append(written);
    site.env.rename(FILE, "f.1.txt");
    site.env.database().expect("SELECT is_complete FROM fetcher_runs", &["1"]);
    let dones = pool.drain().dones;
    eventually("all failures to wait", || site.waiting() >= (written + JOBS) as i64);
    let accepted = Arc::<Mutex<Vec<Post>>>::default();
    let kept = accepted.clone();
    site.webhook.answer_by(move |post| {
        kept.lock().expect("no panic").push(post.clone());
        "204 Done"
    });
    eventually("an empty outbox", || site.waiting() == 0);
    let accepted = ids(&accepted.lock().expect("no panic"));
    assert_eq!(dones.iter().map(|done| &done.job.attr).collect::<BTreeSet<_>>().len(), written + JOBS);
    Stop::Signal.end(instance, &site.env);
    (dones, accepted)
}

#[test]
fn stops_between_a_later_commit_and_today_tell_each_failed_job_once() {
    let (dones, accepted) = there_and_back(Stop::Signal);
    for done in &dones {
        let ids = accepted.get(&done.job.attr).map_or(0, Vec::len);
        assert_eq!(ids, 1, "{}", done.job.attr);
    }
}

/// A DONE whose answer a kill lost is sent again, and may be told again.
#[test]
fn kills_between_a_later_commit_and_today_tell_each_failed_job() {
    let (dones, accepted) = there_and_back(Stop::Kill);
    let lost: Vec<_> = dones.iter().filter(|done| !accepted.contains_key(&done.job.attr)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let told: usize = accepted.values().map(Vec::len).sum();
    // Three kills, each of which a worker with three jobs meets.
    assert!(told <= dones.len() + 3 * 3 * WORKERS, "{told} posts of {} jobs", dones.len());
}

/// Only today's program puts occurrences aside. The former one leaves them alone.
#[test]
fn an_occurrence_that_was_put_aside_outlives_the_way_back() {
    let former = former_program(LATER);
    let program = Installed::new(today());
    let site = Site::new(&program, "413 Too large");
    let instance = site.start(today());
    site.env.append(FILE, "first f@1 1\n");
    let mut worker = site.env.worker();
    eventually("the first job", || worker.ready() != Reply::NoJobs);
    worker.done("first", 1);
    eventually("it to be put aside", || site.stored("SELECT count(*) FROM put_aside") == 1);
    Stop::Signal.end(instance, &site.env);

    program.replace(&former);
    site.webhook.answer("204 Done");
    let before = site.webhook.posts().len();
    let instance = site.start(&former);
    site.env.append(FILE, "second f@1 1\n");
    let mut worker = site.env.worker();
    eventually("the second job", || worker.ready() != Reply::NoJobs);
    worker.done("second", 1);
    eventually("a delivery", || site.webhook.posts().len() > before && site.waiting() == 0);
    assert_eq!(ids(&site.webhook.posts()[before..]).keys().collect::<Vec<_>>(), ["second"]);
    assert_eq!(site.stored("SELECT count(*) FROM put_aside"), 1);
    Stop::Kill.end(instance, &site.env);

    program.replace(today());
    let instance = site.start(today());
    let (code, _, err) = site.env.cli(&["restart", "hooks/failed", "--reason", "the receiver is corrected"]);
    assert_eq!(code, 0, "{err}");
    eventually("it to be delivered", || {
        site.stored("SELECT count(*) FROM put_aside") == 0 && site.waiting() == 0
    });
    let posts = site.webhook.posts();
    assert_eq!(ids(&posts[posts.len() - 1..]).keys().collect::<Vec<_>>(), ["first"]);
    Stop::Signal.end(instance, &site.env);
}
