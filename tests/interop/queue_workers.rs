//! Programs of others work on our database and our socket, live and after us: Python with its own, older
//! SQLite reads and writes while we run, goes on with our file and gives it back, and a shell worker does its
//! rounds with socat. The programs are in `tests/interop/`; they know the contract and nothing of ours.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::Path,
    process::{Child, Command, Stdio},
};

use orchestrator_harness::{
    Reply, TestEnv, Worker, assert_valid_database, eventually,
    load::{Fetchers, LoadRecord, SeededRng, WorkerPool, for_each_seed},
};

fn site() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

/// Starts one of the programs.
fn start(interpreter: &str, program: &str, arguments: &[&str]) -> Child {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(program);
    let mut command = Command::new(interpreter);
    command.arg(path).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap_or_else(|error| panic!("{interpreter}, which tests/run installs: {error}"))
}

/// Gives the program its input and waits for its end: the lines that it printed.
fn finish(mut child: Child, input: &str) -> Vec<String> {
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("give it its input");
    let output = child.wait_with_output().expect("wait for its end");
    assert!(output.status.success(), "it failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

fn python(program: &str, database: &Path, arguments: &[&str], input: &str) -> Vec<String> {
    let database = database.display().to_string();
    finish(start("python3", program, &[&[database.as_str()], arguments].concat()), input)
}

/// Every job there is, without reporting any done.
fn take_all(worker: &mut Worker) -> Vec<String> {
    let mut jobs = Vec::new();
    while let Reply::Job { attr_path, payload } = worker.ready() {
        jobs.push(format!("{attr_path} {payload}"));
    }
    jobs
}

#[test]
fn python_reads_and_writes_the_database_under_load() {
    let site = site();
    let mut rng = SeededRng::new(1);
    let instance = site.start();
    let fetchers = Fetchers::start(&[site.input_dir()], 2, &mut rng);
    let crew = WorkerPool::start(&[site.socket()], 4, &mut rng);
    eventually("rows", || site.database().queue().len() > 100);

    let path = site.database_path().display().to_string();
    let reader = start("python3", "reader.py", &[&path]);
    // Rows of a fetcher and paths of its own, so that nobody else's account is mixed up.
    let statements = "INSERT INTO fetchers (name) VALUES ('foreign') ON CONFLICT DO NOTHING\n\
        INSERT INTO log VALUES ('foreign', 100, NULL, NULL) ON CONFLICT DO UPDATE SET started = started + 1\n\
        UPDATE log SET finished = started + 1, exit_code = 0 WHERE attr_path = 'foreign'\n\
        DELETE FROM log WHERE attr_path = 'foreign'\n\
        DELETE FROM fetchers WHERE name = 'foreign'\n";
    // SQLite's write lock is not fair: beside a store that never pauses a writer may fail. On a fast machine
    // its transactions end before the store owes a pause, so the writer repeats until there was one.
    eventually("a pause for the writer", || {
        let wrote = python("writer.py", &site.database_path(), &["20"], statements);
        assert!(wrote[0].ends_with(" 100"), "{wrote:?}");
        site.metric("queue/queue_store", "paused_for_other_writers") > 0
    });

    let (present, ever) = fetchers.stop();
    LoadRecord::await_ingest(|sql| site.database().rows(sql), &present);
    let seen = crew.drain();
    let looked = finish(reader, "");
    let (looks, most) = looked[0].split_once(' ').expect("two metrics");
    assert!(looks.parse::<u32>().expect("a metric") > 1 && most.parse::<u32>().expect("a metric") > 100);
    LoadRecord { present, ever, seen, disruptions: Vec::new() }.check(|sql| site.database().rows(sql));
    assert!(!site.log().contains("ERROR"), "{}", site.log());
    assert!(instance.terminate().success());
    assert!(assert_valid_database(&site.database_path()));
}

#[test]
fn rows_written_by_python_count_at_the_next_request() {
    let site = site();
    site.write("f.100.txt", "alpha 0 1\nbravo 0 1\ncharlie 0 1\n");
    let instance = site.start();
    let mut worker = site.worker();
    let write = |statements: &str| {
        let printed = python("writer.py", &site.database_path(), &[], statements);
        let version = printed[0].split(' ').next().expect("a version").to_owned();
        assert!(assert_valid_database(&site.database_path()), "after SQLite {version} wrote");
    };
    eventually("three rows", || site.database().queue().len() == 3);

    // In flight by another's word: held. Started long ago: last. A new row: first, as it was never started.
    write(
        "INSERT INTO log VALUES ('alpha', unixepoch(), NULL, NULL)\n\
         INSERT INTO log VALUES ('bravo', 100, 101, 0)\n\
         INSERT INTO log VALUES ('charlie', 99, 100, 0)\n\
         INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload, order_jitter) VALUES (1, 100, 'delta', '7 8', 5)\n",
    );
    assert_eq!(worker.ready(), Reply::Job { attr_path: "delta".into(), payload: "7 8".into() });
    assert_eq!(worker.ready().attr_path(), "charlie");
    assert_eq!(worker.ready().attr_path(), "bravo");
    assert_eq!(worker.ready(), Reply::NoJobs, "alpha is held");
    write("UPDATE log SET finished = unixepoch(), exit_code = 3 WHERE attr_path = 'alpha'\n");
    assert_eq!(worker.ready().attr_path(), "alpha");

    // A newer run of the same fetcher, and a row that is given back, taken away, renamed.
    write(
        "INSERT INTO fetcher_runs VALUES (1, 200, 1)\n\
         INSERT INTO queue VALUES (1, 200, 'charlie', '1 2', 0, NULL, 6)\n\
         UPDATE log SET finished = started WHERE attr_path IN ('charlie', 'delta')\n\
         UPDATE queue SET is_dequeued = 0 WHERE attr_path = 'delta'\n",
    );
    let both = [worker.ready(), worker.ready()].map(|reply| reply.attr_path().to_owned());
    assert_eq!(BTreeSet::from(both), BTreeSet::from(["charlie".to_owned(), "delta".to_owned()]));
    write(
        "INSERT INTO queue VALUES (1, 200, 'echo', '1 2', 0, NULL, 7)\nDELETE FROM queue WHERE attr_path = 'echo'\n",
    );
    assert_eq!(worker.ready(), Reply::NoJobs);
    write(
        "INSERT INTO queue VALUES (1, 200, 'golf', '1 2', 0, NULL, 7)\n\
         UPDATE queue SET attr_path = 'hotel' WHERE attr_path = 'golf'\n",
    );
    assert_eq!(worker.ready().attr_path(), "hotel");
    assert!(instance.terminate().success());
}

/// Fills a queue by files, workers and foreign log rows; stopped, it leaves some jobs done, some in flight,
/// some due.
fn history(site: &TestEnv, rng: &mut SeededRng) {
    for fetcher in ["one", "two", "three"] {
        for run in [100, 200, 300] {
            let picked = (0..60).filter(|_| rng.chance(40)).map(|i| format!("attr{i} {fetcher}@{run} 1\n"));
            let lines = picked.collect::<String>()
                + &format!("old {fetcher} 1\nover {fetcher} 1\nheld {fetcher} 1\n");
            site.write(&format!("{fetcher}.{run}.txt"), lines);
        }
    }
    let instance = site.start();
    // Finished long ago, in flight with a hold that is over, and with one that has three minutes left.
    python(
        "writer.py",
        &site.database_path(),
        &[],
        "INSERT INTO log VALUES ('old', 5, 6, 0)\n\
         INSERT INTO log VALUES ('over', unixepoch() - 50000, NULL, NULL)\n\
         INSERT INTO log VALUES ('held', unixepoch() - 43020, NULL, NULL)\n",
    );
    let mut worker = site.worker();
    for _ in 0..20 {
        if let Reply::Job { attr_path, .. } = worker.ready()
            && rng.chance(60)
        {
            worker.done(&attr_path, 0);
        }
    }
    assert!(instance.terminate().success());
}

#[test]
fn python_and_the_queue_take_turns_on_one_database() {
    for_each_seed("ORCHESTRATOR_INTEROP_ROUNDS", 3, |seed| {
        let mut rng = SeededRng::new(seed);
        let site = site();
        history(&site, &mut rng);
        assert!(!site.path().join("queue.db-wal").exists(), "stopped, it is a plain file");

        // The same next jobs, each on its own copy: theirs from the copy, ours from the file afterwards.
        python("takeover.py", &site.database_path(), &["5", "done"], "");
        python("takeover.py", &site.database_path(), &["3"], "");
        let copy = site.path().join("copy.db");
        fs::copy(site.database_path(), &copy).expect("copy the database");
        let theirs = python("takeover.py", &copy, &["1000"], "");
        let instance = site.start();
        let ours = take_all(&mut site.worker());
        assert_eq!(ours, theirs);
        assert!(ours.len() > 20 && !ours.iter().any(|job| job.starts_with("held ")), "{ours:?}");
        assert!(
            ours.iter().any(|job| job.starts_with("old ")) && ours.iter().any(|job| job.starts_with("over "))
        );

        // Everything done: paths that two fetchers list come a second time, on both sides.
        let done = "UPDATE log SET finished = unixepoch(), exit_code = 0 WHERE finished IS NULL\n";
        python("writer.py", &copy, &[], done);
        python("writer.py", &site.database_path(), &[], done);
        let theirs: BTreeSet<String> = python("takeover.py", &copy, &["1000"], "").into_iter().collect();
        let ours: BTreeSet<String> = take_all(&mut site.worker()).into_iter().collect();
        assert_eq!(ours, theirs);
        assert!(instance.terminate().success());
        assert!(assert_valid_database(&site.database_path()));
    });
}

#[test]
fn a_shell_worker_takes_and_finishes_all_jobs() {
    let site = site();
    let _instance = site.start();
    let lines: BTreeSet<String> = (0..12).map(|i| format!("pkg{i} 0.{i} {}", "1".repeat(i))).collect();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    site.write("shell.1.txt.part", &text);
    site.rename("shell.1.txt.part", "shell.1.txt");
    eventually("all rows", || site.database().queue().len() == lines.len());

    let socket = site.socket().display().to_string();
    // Two at a time, as in production six.
    let workers = [start("bash", "bash_worker.sh", &[&socket]), start("bash", "bash_worker.sh", &[&socket])];
    let jobs: Vec<String> = workers.into_iter().flat_map(|worker| finish(worker, "")).collect();
    assert_eq!(jobs.len(), lines.len(), "each once");
    let trimmed = |line: &String| line.trim_end().to_owned();
    assert_eq!(jobs.iter().map(trimmed).collect::<BTreeSet<_>>(), lines.iter().map(trimmed).collect());
    let log: BTreeSet<String> = site
        .database()
        .rows("SELECT attr_path, exit_code FROM log WHERE finished >= started")
        .into_iter()
        .collect();
    let code = |job: &String| {
        let (attr, payload) = job.split_once(' ').expect("a payload");
        format!("{attr}|{}", payload.trim_end().len())
    };
    assert_eq!(log, jobs.iter().map(code).collect());
    assert_eq!(site.worker().ready(), Reply::NoJobs);
}
