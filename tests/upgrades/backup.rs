//! A backup that one program makes under load, and that the other one restores at another place.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use orchestrator_harness::{
    Database, Instance, Reply, TestEnv, Webhook, eventually, former_program,
    load::{Done, SeededRng, WorkerPool},
};
use serde_json::Value;

use crate::{
    LATER,
    importer::{CONTENTS, Importer},
    installed::Stop,
    today,
};

const JOBS: usize = 4_000;
const WORKERS: usize = 3;
/// Answers to workers before the backup.
const ANSWERS: u64 = 400;

/// Environment whose configuration is a file.
struct Site {
    env: TestEnv,
    config: PathBuf,
}

impl Site {
    fn new(program: &Path, webhook: &Webhook) -> Self {
        let env = TestEnv::new(program);
        let config = env.path().join("orchestrator.toml");
        let path = |name: &str| env.path().join(name).display().to_string();
        let text = format!(
            "[queue]\ndatabase = '{}'\ninput_dir = '{}'\nsocket = '{}'\n
             [provenance]\ndead_letters = '{}'\nsqlite.path = '{}'\n
             [admin]\nlisten = ''\nunix_socket = '{}'\naudit_file = '{}'\n
             [links]\nretry_max_ms = 100\n
             [[hook]]\nname = 'failed'\non = 'queue.failed'\nurl = '{}'\n",
            path("queue.db"),
            path("fetchers"),
            path("worker.sock"),
            path("dead.db"),
            path("rows.db"),
            path("admin.sock"),
            path("audit"),
            webhook.url,
        );
        fs::write(&config, text).expect("the configuration");
        let lines = (0..JOBS).map(|job| format!("job{job:05} f@1 1\n"));
        env.write("f.1.txt", lines.collect::<String>());
        Self { env, config }
    }

    fn start(&self) -> Instance {
        self.env.start_with(&self.config)
    }

    /// Runs `backup` or `restore`, which must succeed.
    fn run(&self, verb: &str, directory: &Path) {
        let [directory, config] = [directory, self.config.as_path()].map(|path| path.display().to_string());
        let (code, out, err) = self.env.cli(&[verb, &directory, "--config", &config]);
        assert_eq!(code, 0, "{verb}: {out}{err}");
    }

    /// Number of stored contents.
    fn contents(&self) -> u64 {
        let (code, out, err) = self.env.cli(&["provenance", "stats", "--json"]);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<Value>(&out).expect("JSON")["content"].as_u64().expect("a count")
    }
}

/// Makes a backup by the program `from` under load, with the jobs that were done and the number of contents
/// that were stored before it.
fn backup(site: &Site, directory: &Path) -> (Vec<Done>, u64) {
    let instance = site.start();
    eventually("the position of the hooks", || {
        let outbox = Database::open(&site.env.path().join("hooks.db"));
        let number = outbox.connection().query_row("SELECT count(*) FROM position", [], |row| row.get(0));
        number.is_ok_and(|number: i64| number == 1)
    });
    let pool = WorkerPool::start(&[site.env.socket()], WORKERS, &mut SeededRng::new(5));
    let importer = Importer::start(&site.env);
    importer.await_files(2);
    eventually("some work", || pool.answers()[0] >= ANSWERS);
    let (begun, contents) = (Instant::now(), u64::from(importer.files() * CONTENTS));
    site.run("backup", directory);
    importer.finish();
    let mut dones = pool.drain().dones;
    assert_eq!(dones.len(), JOBS);
    dones.retain(|done| done.acked < begun);
    Stop::Signal.end(instance, &site.env);
    (dones, contents)
}

/// All jobs fail, so the webhook is told of each that was done before the backup.
fn moves(from: &Path, to: &Path) {
    let webhook = Webhook::start("/", "503 Not now");
    let (old, new) = (Site::new(from, &webhook), Site::new(to, &webhook));
    let directory = new.env.path().join("backup");
    let (dones, contents) = backup(&old, &directory);
    eprintln!("{} jobs and {contents} contents before the backup", dones.len());
    assert!(dones.len() > 100 && dones.len() < JOBS, "{} jobs", dones.len());

    new.run("restore", &directory);
    let before = webhook.posts().len();
    webhook.answer("204 Done");
    let instance = new.start();
    let log = new.env.database().rows("SELECT attr_path, exit_code FROM log WHERE exit_code IS NOT NULL");
    for done in &dones {
        let row = format!("{}|{}", done.job.attr, done.code);
        assert!(log.contains(&row), "{row} was done before the backup");
    }
    assert!(new.contents() >= contents, "{} of {contents} contents", new.contents());
    assert!(matches!(new.env.worker().ready(), Reply::Job { .. }), "the queue goes on");
    eventually("a post about each failure", || {
        let posts = webhook.posts();
        let paths = posts[before..].iter().filter_map(|post| post.body["data"]["attr_path"].as_str());
        let told: BTreeSet<&str> = paths.collect();
        dones.iter().all(|done| told.contains(done.job.attr.as_str()))
    });
    Stop::Signal.end(instance, &new.env);
}

#[test]
fn a_backup_of_a_later_commit_is_restored_by_today() {
    moves(&former_program(LATER), today());
}

#[test]
fn a_backup_of_today_is_restored_by_a_later_commit() {
    moves(today(), &former_program(LATER));
}
