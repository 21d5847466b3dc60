//! `orchestrator why` names the cause that holds up work first, with its evidence and the command that helps.
//!
//! The prepared situations, each a test on the real binary:
//!
//! | situation | test |
//! |---|---|
//! | paused queue | [`a_paused_queue_is_named_before_its_other_causes`] |
//! | broker away | [`a_broker_that_is_away_is_named_with_the_next_attempt`] |
//! | database locked | [`a_locked_database_names_the_file_and_how_to_find_the_holder`] |
//! | lease held elsewhere | `tests/producer_process/why.rs` |
//! | full queue of jobs | `tests/producer_process/why.rs` |
//! | parked rule | `tests/catalog_process/why.rs` |
//! | slow worker | `tests/ingester_process/why.rs` |
//! | no mapping | `tests/ingester_process/why.rs` |
//! | crash loop | [`a_child_that_fails_again_and_again_is_named`] |
//! | stuck thread | [`a_thread_that_is_stuck_is_named`] |
//! | no worker | [`jobs_without_a_worker_name_the_socket`], `tests/troubles/pipeline.rs` |
//! | full disk | `tests/provenance_process/embedded/files.rs`, `tests/ingester_process/why.rs` |
//! | each of six servers frozen | `frozen.rs` |
//! | each of six servers killed | `alone/killed.rs`, and `frozen.rs` for RabbitMQ |
//! | crash loop that is over | [`a_child_that_fails_again_and_again_is_named`] |
//! | clock that jumps | `clock.rs` |
//! | reload that failed, or needs a restart | `tests/recovery/systemd_integration.rs` |
//! | between two checks of a completion | `tests/producer_process/why.rs` |
//! | subsystem that gave up | `tests/recovery/giving_up.rs` |
//! | late input | `late_input.rs` |
//! | memory above the budget | `memory.rs` |
//! | thirty-five troubles of operators, such as servers that refuse | `tests/troubles` |

mod clock;
mod frozen;
mod late_input;
mod memory;

use std::fs;

use orchestrator_harness::{Reply, TestEnv, eventually};

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

/// Waits until nothing holds up the queue, and returns the text about its work.
fn activity(env: &TestEnv) -> String {
    eventually("no cause", || env.causes("queue").is_empty());
    let text = env.why("queue");
    let activity = text.strip_prefix("queue: nothing holds up work: ");
    activity.unwrap_or_else(|| panic!("{text}")).trim_end().to_owned()
}

#[test]
fn a_working_queue_names_its_last_job_and_a_finished_one_is_idle() {
    let env = env();
    let _instance = env.start();
    let mut worker = env.worker();
    assert_eq!(worker.ready(), Reply::NoJobs);
    env.write("f.1.txt", "alpha 0 1\nbravo 0 1\n");
    eventually("the jobs that wait", || activity(&env) == "no job since the start; more work waits");
    assert!(matches!(worker.ready(), Reply::Job { .. }));
    let text = activity(&env);
    assert!(text.starts_with("last job ") && text.ends_with(" s ago; more work waits"), "{text}");
    assert!(matches!(worker.ready(), Reply::Job { .. }));
    // A second after the last job.
    eventually("it to be idle", || {
        let text = activity(&env);
        text.starts_with("idle since ") && text.contains(": nothing waits; last job ")
    });
}

#[test]
fn jobs_without_a_worker_name_the_socket() {
    let env = env();
    env.write("f.1.txt", (0..40).map(|i| format!("job{i} 0 1\n")).collect::<String>());
    let instance = env.start();
    let text = "40 jobs wait, no worker has asked since the start (0 in flight, limits leave 40 free)";
    let cause = env.first_cause("queue", text);
    assert_eq!(cause.path, "queue/queue_store");
    assert_eq!(cause.help, format!("start workers at {}", env.socket().display()));
    let mut worker = env.worker();
    let job = worker.ready().attr_path().to_owned();
    activity(&env);
    // A start knows from the database that a worker works on a job.
    assert!(instance.terminate().success());
    let _instance = env.start();
    activity(&env);
    assert!(matches!(env.worker().done(&job, 0), Reply::Job { .. }));
    activity(&env);
}

#[test]
fn jobs_that_are_all_held_name_the_first_and_how_to_end_its_hold() {
    let env = env();
    env.write("f.1.txt", "alpha 0 1\n");
    let _instance = env.start();
    let mut worker = env.worker();
    assert_eq!(worker.ready().attr_path(), "alpha");
    env.write("f.2.txt", "alpha 0 2\n");
    let cause = env.first_cause("queue", "all waiting jobs are held, the earliest until ");
    assert_eq!(cause.path, "queue/queue_store");
    assert!(cause.evidence[0].starts_with("1 job waits"), "{cause:?}");
    assert!(cause.evidence[1].starts_with("alpha was handed out at "), "{cause:?}");
    assert_eq!(cause.help, "orchestrator queue requeue alpha");
    let command: Vec<_> = cause.help.split(' ').skip(1).collect();
    assert_eq!(env.cli(&command).0, 0);
    activity(&env);
    assert_eq!(worker.ready().attr_path(), "alpha");
}

#[test]
fn a_paused_queue_is_named_before_its_other_causes() {
    let env = env();
    let _instance = env.start();
    let (code, ..) = env.cli(&["queue", "pause", "--reason", "new disk"]);
    assert_eq!(code, 0);
    let cause = env.first_cause("queue", "an operator paused hand-outs");
    assert_eq!(cause.path, "queue/queue_console");
    assert_eq!(cause.help, "orchestrator queue resume");
    assert!(
        cause.evidence[0].starts_with("pause by ") && cause.evidence[0].ends_with(": new disk"),
        "{cause:?}"
    );
    eventually("the cause behind it", || env.causes("queue").len() == 2);
    // The state outlives a restart of the child that reports it.
    let (code, ..) = env.cli(&["restart", "queue/queue_console", "--reason", "test"]);
    assert_eq!(code, 0);
    env.first_cause("queue", "an operator paused hand-outs");
    let (code, ..) = env.cli(&["queue", "resume"]);
    assert_eq!(code, 0);
    env.first_cause("queue", "no fetcher file");
}

#[test]
fn a_locked_database_names_the_file_and_how_to_find_the_holder() {
    let env = env();
    env.write("f.1.txt", "alpha 0 1\n");
    let _instance = env.start();
    let foreign = env.database();
    foreign.expect("SELECT count(*) FROM queue", &["1"]);
    foreign.execute("BEGIN IMMEDIATE");
    let reply = std::thread::scope(|scope| {
        let asking = scope.spawn(|| env.worker().ready());
        let cause = env.first_cause("queue", "in use by another process");
        assert_eq!(cause.path, "queue/queue_store");
        assert!(cause.evidence[0].starts_with("next attempt in "), "{cause:?}");
        assert_eq!(cause.help, format!("fuser -v {}", env.database_path().display()));
        foreign.execute("COMMIT");
        asking.join().expect("the worker is answered")
    });
    assert!(matches!(reply, Reply::Job { .. }), "{reply:?}");
}

#[test]
fn an_input_directory_that_is_away_is_named() {
    let env = env();
    let _instance = env.start();
    let away = env.path().join("away");
    fs::rename(env.input_dir(), &away).expect("move the directory");
    let cause = env.first_cause("queue", "input directory is gone");
    assert_eq!(cause.path, "queue/inotify");
    assert_eq!(cause.help, format!("mkdir -p {}", env.input_dir().display()));
    fs::create_dir(env.input_dir()).expect("what the help says");
    eventually("the watch", || env.causes("queue").iter().all(|cause| cause.path != "queue/inotify"));
}

#[test]
fn a_broker_that_is_away_is_named_with_the_next_attempt() {
    let env = env()
        .set("provenance.transport=amqp")
        .set("provenance.amqp.url=amqp://127.0.0.1:1")
        .set("provenance.sqlite.path=provenance.db");
    let _instance = env.spawn();
    eventually("the endpoint", || env.snapshot().is_some());
    let cause = env.first_cause("provenance", "127.0.0.1:1// is down: ");
    assert!(cause.text.starts_with("amqp to "), "{cause:?}");
    assert!(cause.evidence[0].starts_with("next attempt in "), "{cause:?}");
    assert!(
        cause.help.starts_with("rabbitmqctl status; ") && cause.help.contains("127.0.0.1:1"),
        "{cause:?}"
    );
}

#[test]
fn a_child_that_fails_again_and_again_is_named() {
    let env = env();
    let _instance = env.start();
    eventually("it runs", || env.node("queue/fetcher_watcher")["state"] == "running");
    for round in 1..=3 {
        // An actor: a thread panics at its next work, which a quiet queue may not have.
        env.inject_panic("queue/fetcher_watcher");
        let restarts = || env.node("queue/fetcher_watcher")["restarts"].as_u64();
        eventually("a restart", || restarts() == Some(round));
        eventually("it runs", || env.node("queue/fetcher_watcher")["state"] == "running");
    }
    // A failed child takes those after it along; they are no causes.
    let cause = env.first_cause("queue", "failed 3 times within a minute");
    assert_eq!(cause.path, "queue/fetcher_watcher");
    assert_eq!(cause.evidence.len(), 3, "{cause:?}");
    assert!(cause.evidence.iter().all(|exit| exit.starts_with("panicked")), "{cause:?}");
    assert_eq!(cause.help, "orchestrator crashes queue/fetcher_watcher");
    // The restart period of the queue's children is 30 s.
    eventually("the loop to be over", || !env.why("queue").contains("failed 3 times"));
    let (_, crashes, _) = env.cli(&["crashes", "queue/fetcher_watcher"]);
    assert!(crashes.contains("injected panic"), "the history stays: {crashes}");
}

#[test]
fn a_thread_that_is_stuck_is_named() {
    let env = env();
    let _instance = env.start();
    env.inject("queue/fetcher_watcher", "freeze", "drill");
    // All children of an arbiter stand still with it.
    let cause = env.first_cause("queue", "its arbiter ");
    assert!(cause.path.starts_with("queue"), "{cause:?}");
    assert!(cause.evidence[0].starts_with("no progress for "), "{cause:?}");
    assert!(cause.help.starts_with("orchestrator tree queue"), "{cause:?}");
    eventually("it thaws", || env.causes("queue").iter().all(|cause| !cause.text.contains("arbiter")));
}
