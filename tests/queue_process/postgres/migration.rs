//! `orchestrator queue migrate` on the real binary: a queue moves to PostgreSQL and back, and the command is
//! killed on its way (CONTRACT QD18).

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use orchestrator_harness::{
    Database, Instance, Postgres, Reply, TestEnv, eventually, load::SeededRng, psql, rounds, wait_for,
};
use serde_json::Value;

use super::await_up;
use crate::site;

/// A site whose queue moves.
struct Move {
    site: TestEnv,
    dsn: String,
    /// Rows of fetcher files.
    rows: u64,
}

impl Move {
    /// Fills a queue on SQLite with `rows` rows of two fetchers, of whose paths a third was handed out
    /// before. Five jobs are in flight.
    fn new(server: &Postgres, database: &str, rows: u64) -> Self {
        let (site, dsn) = (site(), server.create_database(database));
        fs::write(site.path().join("dsn"), &dsn).expect("write the address");
        assert!(site.start().terminate().success());
        let (shared, logged) = (rows / 4, rows / 4);
        let numbers = |n: u64| {
            format!("WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n + 1 < {n})")
        };
        site.database().execute(&format!(
            "BEGIN;
             {} INSERT INTO log SELECT 'pkg' || n, 1700000000 + n / 7, 1700000100 + n, n % 3 FROM n;
             {} INSERT INTO orchestrator_attempt SELECT 1700000000 + n / 7, (1 << 32) + n, 'pkg' || n, 'f', 'pid ' || n % 40, NULL, NULL, NULL
                 FROM n;
             COMMIT",
            numbers(logged),
            numbers(logged / 4),
        ));
        let lines = |fetcher: &str, n: u64| -> String {
            (0..n).map(|n| format!("pkg{n} {n}.0 {n}.1 https://example.org/{fetcher}/{n}\n")).collect()
        };
        site.write("f.1.txt", lines("f", rows - shared));
        site.write("g.1.txt", lines("g", shared));
        let queue = Self { site, dsn, rows };
        let instance = queue.site.start();
        let database = queue.site.database();
        let stored = "SELECT count(*) FROM queue";
        let read = "SELECT count(*) FROM fetcher_runs WHERE is_complete = 1";
        // A wait has a deadline.
        for part in 1..=50 {
            let rows = rows * part / 50;
            eventually("rows of the files", || {
                database.rows(stored)[0].parse::<u64>().is_ok_and(|n| n >= rows)
            });
        }
        eventually("both files to be read", || database.rows(read) == ["2"]);
        let mut worker = queue.site.worker();
        for code in 0..5 {
            let job = worker.ready().attr_path().to_owned();
            worker.done(&job, code);
        }
        // The last hand-out of each end is in flight, too.
        assert_eq!(database.rows("SELECT count(*) FROM log WHERE finished IS NULL"), ["5"]);
        assert!(instance.terminate().success());
        queue
    }

    fn arguments(&self, from: &str, to: &str, schema: &str) -> Vec<String> {
        let schema = format!("queue.postgres.schema={schema}");
        [
            "queue",
            "migrate",
            "--from",
            from,
            "--to",
            to,
            "--set",
            &schema,
            "--set",
            "queue.postgres.instance=one",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// Starts the migration and kills it as soon as `done` reaches `at`.
    fn kill(&self, arguments: &[String], at: u64, done: impl Fn() -> u64) {
        let mut command = self.site.bare_command();
        command.args(arguments);
        let mut running = Instance::spawn(command);
        while done() < at {
            // Each wait has a deadline, and the log tells that the command gets on before it writes rows.
            let before = (self.site.log().len(), done());
            wait_for("progress of the migration", || {
                let ended = running.ended();
                assert!(ended.is_none(), "it ended before {at}: {ended:?}; log: {}", self.site.log());
                ((self.site.log().len(), done()) != before).then_some(())
            });
        }
        running.kill_nine();
        let reached = done();
        // Nothing counts as done once the target is a queue.
        assert!(reached >= at, "it was killed in the middle: {reached}");
    }

    /// Runs the migration and returns the checksum of all tables.
    fn finish(&self, arguments: &[String]) -> String {
        let begun = Instant::now();
        let (code, out, err) = self.site.cli(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(code, 0, "{out}{err}");
        let checksum = out.lines().find_map(|line| line.strip_prefix("all")).expect("a checksum").trim();
        eprintln!("{} of {} rows in {:?}\n{err}{out}", arguments[3], self.rows, begun.elapsed());
        checksum.to_owned()
    }

    /// Numbers of copied rows: while the log is copied, and the rows of files.
    fn points(&self, rng: &mut SeededRng) -> [u64; 2] {
        let below = |rng: &mut SeededRng, rows: u64| rng.below(usize::try_from(rows).expect("a size")) as u64;
        [1 + below(rng, self.rows / 5), self.rows / 2 + below(rng, self.rows / 2)]
    }

    fn start_with(&self, settings: &[&str]) -> Instance {
        let mut command = self.site.command();
        settings.iter().for_each(|setting| {
            command.args(["--set", setting]);
        });
        Instance::spawn(command)
    }

    /// Runs a queue until it ends by itself, and returns its log.
    fn refused(&self, settings: &[&str]) -> String {
        let before = self.site.log().len();
        let status = self.start_with(settings).wait();
        assert!(!status.success());
        self.site.log()[before..].to_owned()
    }

    /// Answers of a queue: jobs in flight, the next jobs, failures.
    fn answers(&self, settings: &[&str]) -> Vec<Value> {
        let instance = self.start_with(settings);
        instance.await_service(&self.site);
        await_up(&self.site, "queue/queue_store");
        let mut answers =
            [&["in-flight"][..], &["peek", "-n", "300"], &["failures", "--after", "0"], &["stats"]]
                .map(|question| super::shared::answer(&self.site, question));
        for job in answers[0].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            // The time since the hand-out, and what only a shared queue has.
            assert!(job.remove("seconds").is_some());
            job.remove("instance");
        }
        assert!(instance.terminate().success());
        answers.to_vec()
    }
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or(0)
}

#[test]
fn d18_a_queue_goes_there_and_back_and_kills_on_the_way_lose_nothing() {
    let server = Postgres::shared();
    let queue = Move::new(server, "moved", rounds("ORCHESTRATOR_QUEUE_MIGRATE_ROWS", 40_000));
    let mut rng = SeededRng::new(rounds("ORCHESTRATOR_SEED", 1));
    let (site, dsn) = (&queue.site, &queue.dsn);
    let source = format!("sqlite:{}", site.database_path().display());
    let postgres = ["queue.store=postgres", "queue.postgres.dsn_file=dsn", "queue.postgres.instance=one"];
    let before = fs::read(site.database_path()).expect("the database");

    let there = queue.arguments(&source, "postgres:dsn", "orchestrator_queue");
    let done = || {
        let copied = "SELECT (SELECT count(*) FROM orchestrator_queue.log) + (SELECT count(*) FROM orchestrator_queue.listing)
            FROM orchestrator_queue.property WHERE name = 'migration'";
        psql(dsn, copied).map_or(0, |copied| number(&copied))
    };
    for at in queue.points(&mut rng) {
        queue.kill(&there, at, done);
    }
    let refused = queue.refused(&postgres);
    let finish = format!("has an unfinished migration: finish it with orchestrator {}", there.join(" "));
    assert!(refused.contains(&finish), "{refused}");
    let checksum = queue.finish(&there);
    let (code, _, err) = site.cli(&there.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(code == 1 && err.contains("the schema orchestrator_queue has rows in fetcher"), "{err}");

    let returned = site.path().join("returned.db");
    let back = queue.arguments("postgres:dsn", "sqlite:returned.db", "orchestrator_queue");
    let done = || done_in_file(&returned);
    for at in queue.points(&mut rng) {
        queue.kill(&back, at, done);
    }
    let refused = queue.refused(&["queue.database=returned.db"]);
    let finish = format!("has an unfinished migration: finish it with orchestrator {}", back.join(" "));
    assert!(refused.contains(&finish), "{refused}");
    assert_eq!(queue.finish(&back), checksum);
    assert!(fs::read(site.database_path()).expect("the database") == before, "the source has changed");

    // All three answer the same, and a worker can report a job that another store handed out.
    let answers = queue.answers(&[]);
    assert_eq!(answers, queue.answers(&postgres));
    assert_eq!(answers, queue.answers(&["queue.database=returned.db"]));
    let in_flight = answers[0][0]["attr_path"].as_str().expect("a job in flight").to_owned();
    let instance = queue.start_with(&postgres);
    instance.await_service(site);
    assert!(matches!(site.worker().done(&in_flight, 7), Reply::Job { .. }));
    let show = super::shared::answer(site, &["show", &in_flight]);
    assert_eq!(show["attempts"][0]["exit_code"], 7, "{show}");
    let (code, _, err) = site.cli(&back.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(code == 1 && err.contains("is in use by the instance one"), "{err}");
    assert!(instance.terminate().success());
}

#[test]
fn d18_a_dump_of_one_store_fills_the_other_one() {
    let server = Postgres::shared();
    let queue = Move::new(server, "dumped", 2_000);
    let site = &queue.site;
    let database = format!("queue.database={}", site.database_path().display());
    let run = |arguments: &[&str]| site.cli(&[&["queue"], arguments, &["--set", &database]].concat());
    let shared = [
        "--set",
        "queue.store=postgres",
        "--set",
        "queue.postgres.dsn_file=dsn",
        "--set",
        "queue.postgres.instance=one",
    ];

    let instance = site.start();
    let (code, _, err) = run(&["dump", "queue.jsonl"]);
    assert!(code == 1 && err.contains("is used by a running instance"), "{err}");
    assert!(!site.path().join("queue.jsonl").exists());
    assert!(instance.terminate().success());
    let (code, dumped, err) = run(&["dump", "queue.jsonl"]);
    assert_eq!(code, 0, "{err}");
    let text = fs::read_to_string(site.path().join("queue.jsonl")).expect("the dump");
    let rows = |text: &str| {
        text.lines().filter(|line| line.starts_with("{\"table\"")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(rows(&text).iter().filter(|line| line.starts_with("{\"table\":\"row\"")).count(), 2_000);
    let (code, _, err) = run(&["dump", "queue.jsonl"]);
    assert!(code == 1 && err.contains("file queue.jsonl: File exists"), "{err}");

    fs::write(site.path().join("cut.jsonl"), &text[..text.len() - 10]).expect("write the dump");
    let (code, _, err) = run(&[&["load", "cut.jsonl"][..], &shared].concat());
    assert!(
        code == 1 && err.contains("dump cut.jsonl: line ") && err.contains("make the dump again"),
        "{err}"
    );
    let (code, loaded, err) = run(&[&["load", "queue.jsonl"][..], &shared].concat());
    assert_eq!(code, 0, "{err}");
    let sums = |text: &str| text.lines().skip(1).take(10).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(sums(&dumped), sums(&loaded));
    let (code, _, err) = run(&[&["load", "queue.jsonl"][..], &shared].concat());
    assert!(code == 1 && err.contains("has rows in fetcher"), "{err}");
    let (code, _, err) = run(&[&["dump", "again.jsonl"][..], &shared].concat());
    assert_eq!(code, 0, "{err}");
    let again = fs::read_to_string(site.path().join("again.jsonl")).expect("the dump");
    assert_eq!(rows(&again), rows(&text));
    let settings: Vec<&str> = shared.iter().copied().filter(|word| *word != "--set").collect();
    assert_eq!(queue.answers(&[]), queue.answers(&settings));
}

fn done_in_file(path: &Path) -> u64 {
    if !path.exists() {
        return 0;
    }
    let copied =
        "SELECT (SELECT count(*) FROM log) + (SELECT count(*) FROM queue) FROM orchestrator_migration";
    let database = Database::open(path);
    database.connection().busy_timeout(Duration::from_millis(100)).expect("a busy time-out");
    let found = database.connection().query_row(copied, [], |row| row.get::<_, i64>(0));
    found.map_or(0, i64::unsigned_abs)
}

#[test]
fn d18_what_is_no_pair_of_stores_is_a_usage_error() {
    let site = site();
    for (from, to) in
        [("sqlite:a.db", "sqlite:b.db"), ("postgres:dsn", "postgres:dsn"), ("a.db", "postgres:dsn")]
    {
        let (code, _, err) = site.cli(&["queue", "migrate", "--from", from, "--to", to]);
        assert_eq!(code, 2, "{err}");
    }
    let (code, _, err) = site.cli(&["queue", "migrate", "--from", "sqlite:a.db", "--to", "postgres:dsn"]);
    assert!(code == 1 && err.contains("database a.db: it does not exist"), "{err}");
}
