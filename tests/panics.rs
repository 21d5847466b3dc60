//! A panic in any child heals within a second: under load from workers and fetchers, nothing is lost, and each worker has
//! at most one job doubled, as after a kill (`kill_nine.rs` says what that means). Panics that do not end are given up,
//! level by level, until the process ends with code 70.
//!
//! An injected panic hits an actor or a task between two steps, and a thread at the next work it takes in hand. Healing is
//! measured by the process's own clock: from the exit of the child until the last child of the queue has started again;
//! each starts only when the one before it is up. A start waits for commits: where the disk itself stands still meanwhile,
//! which a probe beside it shows, that time is allowed besides. `rest_for_one` decides who is started again.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use orchestrator_harness::{
    Instance, Site, Snapshot,
    load::{Crew, Dice, Disk, Disruption, Fetchers, Ledger, seeds},
    try_http, wait_for,
};
use serde_json::Value;

/// The queue's children in the order of their start.
const CHILDREN: [&str; 7] =
    ["queue_store", "sqlite", "housekeeper", "worker_socket", "reader", "watcher", "inotify"];
const HEALED_MS: u64 = 1_000;
/// Commits that a start waits for at the most; each may take as long as the disk's longest one meanwhile.
const COMMITS: u32 = 5;
/// A disk that is faster than this gives no excuse.
const STALL: Duration = Duration::from_millis(200);
/// What is measured must not share the machine with the other tests of this file.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_panic_in_any_child_of_the_queue_heals() {
    for (at, child) in CHILDREN.into_iter().enumerate() {
        panics_heal(&format!("queue/{child}"), at);
    }
}

#[test]
fn a_panic_in_the_queue_s_supervisor_heals() {
    panics_heal("queue", 0);
}

#[test]
fn a_panic_in_the_admin_endpoint_does_not_touch_the_queue() {
    panics_heal("admin", CHILDREN.len());
}

/// Makes `path` panic under load; the queue's children from number `first` on start again, the others stay.
fn panics_heal(path: &str, first: usize) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    seeds("ORCHESTRATOR_PANIC_ROUNDS", 1, |seed| {
        let mut dice = Dice::new(seed);
        let site = Site::new(env!("CARGO_BIN_EXE_orchestrator"));
        let instance = site.start();
        let fetchers = Fetchers::start(&site.input_dir(), 3, &mut dice);
        let crew = Crew::start(site.socket(), 6, &mut dice);
        wait_for("jobs to be done", || (finished(&site)? > 50).then_some(()));

        let disk = Disk::probe(site.path());
        let from = Instant::now();
        site.inject_panic(path);
        let healed = wait_for("it to heal", || {
            ask_the_housekeeper(&site);
            healed(&site, path)
        });
        let disruptions = vec![Disruption { from, to: Instant::now() }];
        assert_eq!(exit_of(&healed, path)["kind"], "panicked", "{healed:#}");
        assert!(exit_of(&healed, path)["reason"].as_str().is_some_and(|why| why.contains("injected panic")));
        assert_eq!(healed.node(path)["restarts"], 1);
        for (at, child) in CHILDREN.into_iter().enumerate() {
            let incarnation = &healed.node(&format!("queue/{child}"))["incarnation"];
            assert_eq!(*incarnation, if at < first { 1 } else { 2 }, "{child} after a panic in {path}");
        }
        let took = last_start(&healed, path) - exit_of(&healed, path)["at_ms"].as_u64().expect("a time");
        let stalled = Some(disk.longest()).filter(|longest| *longest > STALL).unwrap_or_default() * COMMITS;
        let allowed = u128::from(HEALED_MS) + stalled.as_millis();
        assert!(u128::from(took) < allowed, "{path} took {took} ms to heal, not {allowed}: {healed:#}");

        let (present, ever) = fetchers.stop();
        Ledger::await_ingest(&site, &present);
        let ledger = Ledger { present, ever, seen: crew.drain(), disruptions };
        let doubled = ledger.judge(&site);
        assert!(instance.terminate().success(), "it did not stop well; log:\n{}", site.log());
        eprintln!(
            "{path}: healed in {took} ms, longest wait for an answer {:?}, {doubled} of {} jobs doubled",
            ledger.seen.longest_wait,
            ledger.seen.handouts.len()
        );
    });
}

/// More panics than the queue may have, and then more than the root may have.
#[test]
fn a_storm_escalates_and_ends_with_code_70() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let site = Site::new(env!("CARGO_BIN_EXE_orchestrator"));
    site.write("f.1.txt", "alpha 0 1\n");
    let mut instance = site.start();

    // Five restarts in thirty seconds are the queue's own business, the sixth is the root's.
    for restarts in 1..=5 {
        site.inject_panic("queue/inotify");
        wait_for("a restart", || (restarts_of(&site, "queue/inotify")? == restarts).then_some(()));
        assert_eq!(restarts_of(&site, "queue"), Some(0), "the queue's supervisor copes with {restarts}");
    }
    assert_eq!(site.node("queue/inotify")["budget_left"], 0);
    site.inject_panic("queue/inotify");
    let tree = wait_for("the queue to be started afresh", || healed(&site, "queue"));
    assert_eq!(tree.node("queue")["restarts"], 1);
    assert_eq!(exit_of(&tree, "queue")["kind"], "failed");
    let why = exit_of(&tree, "queue")["reason"].as_str().expect("a reason").to_owned();
    assert!(why.contains("more than 5 restarts in 30s") && why.contains("queue/inotify"), "{why}");
    assert_eq!(site.worker().ready().attr_path(), "alpha", "it serves as before");

    // The root takes three in a minute; the one above was the first.
    for restarts in 2..=3 {
        site.inject_panic("queue");
        wait_for("a restart", || (restarts_of(&site, "queue")? == restarts).then_some(()));
        wait_for("the queue to be up", || healed(&site, "queue"));
    }
    site.inject_panic("queue");
    assert_eq!(instance.wait().code(), Some(70));
    let log = site.log();
    for wanted in ["supervisor gives up", "more than 3 restarts in 60s", "the root supervisor gave up"] {
        assert!(log.contains(wanted), "no {wanted:?} in the log:\n{log}");
    }
    assert!(!site.socket().exists(), "the rest was drained and the worker socket removed");

    // Nothing of this is left in the database.
    let again: Instance = site.start();
    assert_eq!(site.worker().done("alpha", 0), orchestrator_harness::Reply::NoJobs);
    assert!(again.terminate().success());
}

/// Without `admin.chaos` nobody can make a child panic.
#[test]
fn panics_are_refused_without_chaos() {
    let site = Site::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.chaos=false");
    let _instance = site.start();
    let reply = try_http(&site.admin_socket(), "POST", "/v1/actors/queue/reader/panic", &[], "{}");
    let reply = reply.expect("an answer");
    assert_eq!(reply.status, 409, "{}", reply.body);
    assert!(reply.body.contains("admin.chaos"), "{}", reply.body);
    assert_eq!(restarts_of(&site, "queue/reader"), Some(0));
}

/// The whole tree, if everything runs and `path` has been started again.
fn healed(site: &Site, path: &str) -> Option<Snapshot> {
    let tree = site.snapshot()?;
    (tree.runs() && tree.node(path)["restarts"].as_u64()? > 0).then_some(tree)
}

fn restarts_of(site: &Site, path: &str) -> Option<u64> {
    site.snapshot()?.node(path)["restarts"].as_u64()
}

/// Jobs finished so far, once the store counts them.
fn finished(site: &Site) -> Option<u64> {
    let tree = site.snapshot()?;
    let sqlite = tree.node("queue/sqlite");
    let figure = sqlite["figures"].as_array()?.iter().find(|figure| figure["name"] == "finished")?;
    figure["value"].as_u64()
}

/// When the last child of `path`, or of the supervisor that it is a child of, was started.
fn last_start(tree: &Snapshot, path: &str) -> u64 {
    let whole = if path == "admin" { "admin" } else { "queue" };
    let starts = tree.branch(whole).into_iter().filter_map(|node| node["started_ms"].as_u64());
    starts.max().expect("a start")
}

fn exit_of<'a>(tree: &'a Snapshot, path: &str) -> &'a Value {
    &tree.node(path)["last_exit"]
}

/// The housekeeper has work in hand only when somebody asks, or the log has grown.
fn ask_the_housekeeper(site: &Site) {
    // It may be the one that is away.
    let _ = try_http(&site.admin_socket(), "POST", "/v1/consoles/queue/queue_store/ls", &[], "{}");
}
