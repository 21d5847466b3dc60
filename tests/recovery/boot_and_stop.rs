//! Start and stop of the process: order of the children, signals (CONTRACT QR50), a run without arguments,
//! and errors that prevent the start.

use std::{
    collections::BTreeSet,
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use orchestrator_harness::{Database, Instance, Reply, TestEnv, Worker, eventually, wait_for};
use rustix::process::Signal;

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

/// The children in start order, as the tree has them.
const CHILDREN: [&str; 7] =
    ["queue_console", "queue_store", "housekeeper", "worker_socket", "reader", "fetcher_watcher", "inotify"];

/// Exit codes after a second signal, and of a refused start.
const KILLED: i32 = 137;
const EX_CONFIG: i32 = 78;
/// First line of the banner.
const BANNER: &str = concat!("orchestrator ", env!("CARGO_PKG_VERSION"), "\n");

fn lines(n: usize) -> String {
    (0..n).map(|i| format!("package{i} 1.0 1.1\n")).collect()
}

/// Copies the database file alone, as a backup would, and opens the copy.
fn copy_of(database: &Path) -> Database {
    let copy = database.with_extension("copy");
    fs::copy(database, &copy).expect("a copy");
    Database::open(&copy)
}

#[test]
fn r50_a_signal_drains_checkpoints_and_removes_the_socket() {
    for signal in [Signal::TERM, Signal::INT] {
        let env = env();
        env.write("f.1.txt", lines(5_000));
        let mut instance = env.start();
        env.database().expect("SELECT count(*) FROM queue", &["5000"]);
        let mut worker = env.worker();
        let mut reply = worker.ready();
        for _ in 0..20 {
            reply = worker.done(reply.attr_path(), 3);
        }
        instance.signal(signal);
        assert_eq!(instance.wait().code(), Some(0), "{signal:?}: {}", env.log());
        assert_eq!(worker.read_to_end(), b"");
        assert!(!env.socket().exists() && !env.admin_socket().exists());
        let wal = fs::metadata(env.path().join("queue.db-wal")).map_or(0, |meta| meta.len());
        assert_eq!(wal, 0, "checkpointed");
        let copy = copy_of(&env.database_path());
        assert_eq!(copy.rows("PRAGMA integrity_check"), ["ok"]);
        assert_eq!(copy.rows("SELECT count(*) FROM queue"), ["5000"]);
        assert_eq!(copy.rows("SELECT count(*) FROM log WHERE exit_code = 3"), ["20"]);
        let in_progress = format!("SELECT is_dequeued FROM queue WHERE attr_path = '{}'", reply.attr_path());
        assert_eq!(copy.rows(&in_progress), ["1"], "the job is handed out");
        let stopped = env.log();
        assert!(stopped.contains("draining") && stopped.contains("stopped"), "{stopped}");
        assert!(!stopped.contains("did not stop in time"), "{stopped}");
    }
}

/// CONTRACT QR50: a request in progress at the signal is answered, and the answer is durable.
#[test]
fn r50_a_request_in_progress_is_answered() {
    let env = env();
    env.write("f.1.txt", "alpha 0 1\n");
    let mut instance = env.start();
    let foreign = env.database();
    foreign.expect("SELECT count(*) FROM queue", &["1"]);
    // Another writer's lock keeps the request in progress.
    foreign.execute("BEGIN IMMEDIATE");
    let mut worker = env.worker();
    worker.send(b"READY\n").unwrap();
    eventually("the request to wait", || env.link("queue/queue_store").state == "down");
    instance.signal(Signal::TERM);
    eventually("the drain to begin", || env.log().contains("draining"));
    foreign.execute("COMMIT");
    assert_eq!(worker.reply().attr_path(), "alpha");
    assert_eq!(instance.wait().code(), Some(0), "{}", env.log());
    assert_eq!(
        foreign.rows("SELECT is_dequeued, finished FROM queue JOIN log USING (attr_path)"),
        ["1|NULL"]
    );
}

/// CONTRACT QR50 under load: delivered jobs are marked, acknowledged DONEs are logged, and all other jobs are
/// due.
#[test]
fn r50_a_stop_under_load_loses_nothing() {
    const JOBS: usize = 3_000;
    let env = env();
    env.write("f.1.txt", lines(JOBS));
    let mut instance = env.start();
    let (taken, done) = thread::scope(|scope| {
        let work = || {
            let mut worker = env.worker();
            let (mut taken, mut done) = (Vec::new(), Vec::new());
            let mut reply = worker.send(b"READY\n").and_then(|()| worker.try_reply());
            while let Ok(Reply::Job { attr_path, .. }) = &reply {
                taken.push(attr_path.clone());
                let next =
                    worker.send(format!("DONE {attr_path} 4\n").as_bytes()).and_then(|()| worker.try_reply());
                if matches!(next, Ok(Reply::Job { .. } | Reply::NoJobs)) {
                    done.push(attr_path.clone());
                }
                reply = next;
            }
            (taken, done)
        };
        let workers: Vec<_> = (0..8).map(|_| scope.spawn(work)).collect();
        eventually("some work to be done", || env.metric("queue/queue_store", "finished") > 200);
        instance.signal(Signal::TERM);
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("a worker")).collect();
        let (taken, done): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
        (taken.concat(), done.concat())
    });
    assert_eq!(instance.wait().code(), Some(0), "{}", env.log());
    assert!(taken.len() < JOBS, "the stop came after the last job");
    let unique: BTreeSet<_> = taken.iter().collect();
    assert_eq!(unique.len(), taken.len(), "a job was delivered twice");
    let copy = copy_of(&env.database_path());
    let finished: BTreeSet<_> =
        copy.rows("SELECT attr_path FROM log WHERE exit_code = 4").into_iter().collect();
    assert!(done.iter().all(|attr_path| finished.contains(attr_path)), "an acknowledged DONE is missing");
    // The next instance hands out all remaining jobs.
    let _instance = env.start();
    let mut worker = env.worker();
    let mut rest = BTreeSet::new();
    let mut reply = worker.ready();
    while let Reply::Job { attr_path, .. } = &reply {
        rest.insert(attr_path.clone());
        reply = worker.ready();
    }
    assert_eq!(rest.len() + taken.len(), JOBS);
    assert!(taken.iter().all(|attr_path| !rest.contains(attr_path)));
}

/// Connects a worker that does not read its long reply, which delays the drain.
fn stalled(env: &TestEnv) -> orchestrator_harness::Worker {
    let mut worker = env.worker();
    worker.send(b"READY\n").expect("sent");
    eventually("the reply to be stuck", || env.metric("queue/queue_store", "handed_out") == 1);
    worker
}

#[test]
fn a_second_signal_exits_immediately() {
    let env = env();
    env.write("f.1.txt", format!("alpha {}\n", "x".repeat(4 << 20)));
    let mut instance = env.start();
    let worker = stalled(&env);
    instance.signal(Signal::TERM);
    eventually("the drain to begin", || env.log().contains("draining"));
    assert!(instance.ended().is_none(), "the drain did not wait for the worker");
    // Another signal, because two pending signals of one kind are merged.
    instance.signal(Signal::INT);
    assert_eq!(instance.wait().code(), Some(KILLED));
    assert!(env.log().contains("second signal"), "{}", env.log());
    drop(worker);
    let _instance = env.start();
    assert_eq!(env.worker().ready().attr_path(), "alpha", "it was not delivered");
}

#[test]
fn a_drain_ends_despite_a_worker_that_never_reads() {
    let env = env();
    env.write("f.1.txt", format!("alpha {}\n", "x".repeat(4 << 20)));
    let mut instance = env.start();
    let worker = stalled(&env);
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait().code(), Some(0), "{}", env.log());
    drop(worker);
    assert!(!env.socket().exists());
    let _instance = env.start();
    assert_eq!(env.worker().ready().attr_path(), "alpha");
}

#[test]
fn children_start_in_list_order_and_stop_in_reverse() {
    let env = env().set("telemetry.filter=debug");
    let instance = env.start();
    eventually("all to run", || env.node("queue/inotify")["state"] == "running");
    let node = env.node("queue");
    let children = node["children"].as_array().cloned().unwrap_or_default();
    let ids: Vec<_> = children.iter().filter_map(|child| child["id"].as_str()).collect();
    assert_eq!(ids, CHILDREN);
    let started: Vec<_> = children.iter().filter_map(|child| child["started_ms"].as_u64()).collect();
    assert!(started.len() == CHILDREN.len() && started.is_sorted(), "{started:?}");
    assert!(env.node("admin")["started_ms"].as_u64() <= node["started_ms"].as_u64());
    assert!(instance.terminate().success());
    let log = env.log();
    let at = |path: &str| {
        let line = format!("child ended path=\"{path}\" ");
        log.find(&line).unwrap_or_else(|| panic!("no end of {path} in\n{log}"))
    };
    let mut ends: Vec<_> =
        CHILDREN.iter().rev().map(|child| at(&format!("orchestrator/queue/{child}"))).collect();
    ends.extend([at("orchestrator/queue"), at("orchestrator/admin"), at("orchestrator")]);
    assert!(ends.is_sorted(), "{log}");
}

/// In an empty directory the program starts and prints commands for a first job, which the test executes.
#[test]
fn a_run_without_arguments_creates_var_and_prints_first_steps() {
    let env = env();
    fs::remove_dir(env.input_dir()).unwrap();
    let _port = default_port();
    let instance = Instance::spawn(env.bare_command());
    let socket = env.path().join("var/worker.sock");
    let greeting = wait_for("the greeting", || Some(env.log()).filter(|log| log.contains("take it:")));
    assert!(greeting.contains("http://127.0.0.1:7117"), "{greeting}");
    let (start, banner) = greeting.split_once(BANNER).expect("a banner");
    assert!(start.contains(" ready ") && !banner.contains("INFO"), "the banner is last: {greeting}");
    let printed = |label: &str| {
        let line = greeting.lines().find_map(|line| line.split_once(label)).expect("a line of the greeting");
        let shell = Command::new("sh").args(["-c", line.1.trim()]).current_dir(env.path()).output().unwrap();
        assert!(shell.status.success(), "{line:?}");
        String::from_utf8(shell.stdout).unwrap()
    };
    printed("a first job:");
    let database = Database::open(&env.path().join("var/queue.db"));
    database.expect("SELECT attr_path FROM queue", &["hello"]);
    assert_eq!(printed("take it:"), "JOB hello 1.0 1.1\n");
    let (code, tree, error) = env.cli(&["tree", "--url", "http://127.0.0.1:7117"]);
    assert!(code == 0 && tree.contains("worker_socket"), "{error}");
    drop(database);
    assert!(instance.terminate().success());
    assert!(TcpStream::connect("127.0.0.1:7117").is_err() && !socket.exists());
}

/// Waits for the default port, which one test at a time can use.
fn default_port() -> MutexGuard<'static, ()> {
    static PORT: Mutex<()> = Mutex::new(());
    let guard = PORT.lock().unwrap_or_else(PoisonError::into_inner);
    // A test of another module may use it for a moment.
    wait_for("the default port to be free", || TcpListener::bind("127.0.0.1:7117").ok());
    guard
}

#[test]
fn one_key_leaves_the_endpoint_on() {
    let _port = default_port();
    let broker = "provenance.amqp.url=amqp://127.0.0.1:9/%2f";
    let amqp = ["run", "--only", "provenance", "--set", "provenance.transport=amqp", "--set", broker];
    let lists = [
        (&["run", "--only", "queue", "--set", "queue.hold_secs=60"][..], None, "queue"),
        (&["run"][..], Some(("ORCHESTRATOR__QUEUE__HOLD_SECS", "60")), "queue"),
        (&amqp[..], None, "provenance"),
    ];
    for (arguments, variable, subsystem) in lists {
        let env = env();
        let mut command = env.bare_command();
        command.args(arguments).envs(variable);
        let instance = Instance::spawn(command);
        for client in ["tree", "why"] {
            eventually("the endpoint to answer", || {
                env.cli(&[client, "--url", "http://127.0.0.1:7117"]).0 == 0
            });
        }
        // The broker of the last one is down, so that it is never ready.
        let line = format!("\n  {subsystem:<12}");
        eventually("the banner", || env.log().contains(&line) && env.log().contains("open it in a browser"));
        assert!(instance.terminate().success());
    }
}

#[test]
fn without_the_default_port_the_program_runs_and_names_the_other_program() {
    let _port = default_port();
    let _busy = TcpListener::bind("127.0.0.1:7117").unwrap();
    let env = env();
    let mut command = env.bare_command();
    command.args(["run", "--set", "queue.hold_secs=60"]);
    let instance = Instance::spawn(command);
    let log = wait_for("the banner", || Some(env.log()).filter(|log| log.contains("take it:")));
    let banner = log.split_once(BANNER).expect("a banner").1;
    let owner = format!("by process {} (", std::process::id());
    assert!(banner.contains("cannot listen on 127.0.0.1:7117") && banner.contains(&owner), "{banner}");
    fs::write(env.path().join("var/fetchers/f.1.txt"), "alpha 0 1\n").unwrap();
    let mut worker = Worker::connect(&env.path().join("var/worker.sock")).unwrap();
    eventually("a job", || worker.ready() != Reply::NoJobs);
    assert!(instance.terminate().success());
}

#[test]
fn only_queue_starts_the_queue_alone() {
    let env = env();
    let mut command = env.bare_command();
    command.args(["run", "--only", "queue", "--set", "admin.listen="]);
    let instance = Instance::spawn(command);
    eventually("the worker socket", || env.path().join("var/worker.sock").exists());
    assert!(instance.terminate().success());
    let unknown = env.bare_command().args(["run", "--only", "nonsense"]).status().unwrap();
    assert_eq!(unknown.code(), Some(EX_CONFIG));
    assert!(env.log().contains("there is no such subsystem"), "{}", env.log());
}

#[test]
fn a_busy_admin_port_prevents_the_start() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    let env = env().set(&format!("admin.listen={address}"));
    let mut instance = env.spawn();
    let status = instance.wait();
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
    assert!(env.log().contains(&address) && env.log().contains("in use"), "{}", env.log());
    let owner = format!("by process {} (", std::process::id());
    assert!(env.log().contains(&owner), "{}", env.log());
    assert!(!env.socket().exists(), "the worker socket remains");
}
