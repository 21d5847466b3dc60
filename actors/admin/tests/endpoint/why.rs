//! `GET /v1/why`: each situation is named with its evidence and the command that helps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use orchestrator_observe::{FailureKind, LinkFailure};
use orchestrator_subsystem::wire::{Cause, Why};
use orchestrator_supervise::{Command, Origin, PauseSpan, State, testing::eventually};

use crate::site::{self, Block, Site};

async fn causes(site: &Site) -> Vec<Cause> {
    let reply = site.get("/v1/why/demo").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let why: Why = serde_json::from_str(&reply.body).unwrap_or_else(|error| panic!("{error}: {reply:?}"));
    assert_eq!(why.subsystems.len(), 1);
    why.subsystems.into_iter().next().unwrap().causes
}

async fn first(site: &Site) -> Cause {
    let causes = causes(site).await;
    causes.into_iter().next().expect("a cause")
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

fn alice(reason: &str) -> Origin {
    Origin { by: "alice".to_owned(), reason: reason.to_owned() }
}

#[test]
fn nothing_is_held_up_in_a_healthy_tree() {
    site::run(|site| async move {
        assert_eq!(causes(&site).await, []);
        let reply = site.get("/v1/why").await;
        let why: Why = serde_json::from_str(&reply.body).unwrap();
        let paths: Vec<_> = why.subsystems.iter().map(|branch| branch.path.as_str()).collect();
        assert_eq!(paths, ["test/demo", "test/admin"]);
        assert_eq!(site.get("/v1/why/missing").await.error().0, 404);
    });
}

#[test]
fn without_causes_the_last_work_or_the_idle_time_is_named() {
    site::run(|site| async move {
        let branch = || async {
            let reply = site.get("/v1/why/demo").await;
            let why: Why = serde_json::from_str(&reply.body).unwrap();
            why.subsystems.into_iter().next().unwrap()
        };
        let quiet = branch().await;
        assert_eq!((quiet.last_work, quiet.activity.as_str()), (None, ""), "no child counts work");
        let vitals = site.tree.vitals("demo/store").unwrap();
        vitals.set_work_unit("row");
        vitals.record_work();
        let busy = branch().await;
        assert!(busy.activity.starts_with("last row 0."), "{busy:?}");
        let done = busy.last_work.unwrap().at_ms.unwrap();
        eventually("the branch is idle", || now_ms() > done + 1_000).await;
        let idle = branch().await;
        assert_eq!(idle.idle_since_ms, Some(done));
        assert!(
            idle.activity.starts_with("idle since ") && idle.activity.contains(": nothing waits; last row ")
        );
        vitals.set_work_waits(true);
        let waiting = branch().await;
        assert_eq!(waiting.idle_since_ms, None);
        assert!(waiting.activity.ends_with(" s ago; more work waits"), "{waiting:?}");
    });
}

#[test]
fn a_branch_that_is_not_ready_names_the_first_child_that_is_not() {
    site::run(|site| async move {
        site.link.connecting(3);
        let cause = first(&site).await;
        assert_eq!((cause.kind.as_str(), cause.path.as_str()), ("not_ready", "test/demo"));
        assert_eq!(cause.text, "not ready because of demo/store: fake to fake:1 is connecting");
        assert_eq!(cause.help, "check that fake:1 runs and is reachable");
        // A cause of a child says more.
        site.link.down("connection refused", Duration::from_secs(5));
        assert_eq!(first(&site).await.kind, "link_down");
        site.link.up();
        assert_eq!(causes(&site).await, []);
    });
}

#[test]
fn a_peer_that_is_away_explains_the_child_that_waits_for_it() {
    site::run(|site| async move {
        let vitals = site.tree.vitals("demo/store").unwrap();
        let _work = vitals.begin_work("group");
        eventually("the work is stuck", || site.tree.node("demo/store").unwrap().stuck).await;
        vitals.set_blocker("no_mapping", "no mapping", "post a mapping");
        site.link.down("connection refused", Duration::from_secs(5));
        assert_eq!(first(&site).await.kind, "link_down", "the other reason is none of the peer");
        vitals.set_fault("disk_full", "fake:1", "no space left", &[], "free space");
        assert_eq!(first(&site).await.kind, "disk_full", "the child says more about the same fault");
        eventually("a later loss", || {
            site.link.up();
            site.link.down("connection refused", Duration::from_secs(5));
            let node = site.tree.node("demo/store").unwrap();
            node.link.unwrap().since_ms.unwrap() > node.blocker.unwrap().since_ms + 1_000
        })
        .await;
        let cause = first(&site).await;
        assert_eq!((cause.kind.as_str(), cause.path.as_str()), ("link_down", "test/demo/store"));
        assert!(cause.evidence[0].starts_with("works on `group` for "), "{cause:?}");
        let reply = site.get("/readyz").await;
        assert_eq!(reply.body, "failed: test/demo/store: fake to fake:1 is down: connection refused\n");
        let _request = site.link.request_within(Duration::ZERO);
        site.link.down("time-out", Duration::from_secs(5));
        let cause = first(&site).await;
        assert_eq!((cause.kind.as_str(), cause.path.as_str()), ("unanswered", "test/demo/store"));
        assert!(cause.text.starts_with("fake at fake:1 has not answered for "), "{cause:?}");
        assert!(cause.text.ends_with(" s; time-out") && cause.since_ms.is_some(), "{cause:?}");
        assert!(cause.evidence[0].starts_with("works on `group` for "), "{cause:?}");
        assert_eq!(cause.help, "check that fake:1 runs and is reachable");
    });
}

#[test]
fn a_child_that_awaits_an_answer_names_the_peer_before_it_counts_as_silent() {
    site::run(|site| async move {
        let vitals = site.tree.vitals("demo/store").unwrap();
        let _work = vitals.begin_work("group");
        let request = site.link.request_within(Duration::from_secs(600));
        eventually("the work is stuck", || site.tree.node("demo/store").unwrap().stuck).await;
        let cause = first(&site).await;
        assert!(cause.text.starts_with("waits for fake at fake:1 for "), "{cause:?}");
        assert!(cause.evidence[0].starts_with("works on `group` for "), "{cause:?}");
        assert_eq!(
            (cause.kind.as_str(), cause.help.as_str()),
            ("stuck", "check that fake:1 runs and is reachable")
        );
        // So does a child that has no connection of its own.
        let other = site.tree.vitals("demo/source").unwrap().begin_work("pause");
        eventually("the other is stuck", || site.tree.node("demo/source").unwrap().stuck).await;
        let found = causes(&site).await.into_iter().find(|cause| cause.path == "test/demo/source");
        assert!(found.is_some_and(|cause| cause.text.starts_with("waits for fake at fake:1 for ")));
        drop((other, request));
        assert!(first(&site).await.text.starts_with("works on `group` for "));
        // A heartbeat is no answer to the work.
        let _heartbeat = site.link.watch_within(Duration::from_secs(600));
        assert!(first(&site).await.text.starts_with("works on `group` for "));
    });
}

#[test]
fn a_peer_that_answers_is_not_called_down() {
    site::run(|site| async move {
        for (kind, text) in [
            (FailureKind::Refused, "fake at fake:1 refuses: no"),
            (FailureKind::Unusable, "fake at fake:1 cannot be used: no"),
            (FailureKind::DiskFull, "fake at fake:1 has no space left: no"),
            (FailureKind::Closed, "fake to fake:1 is down: no"),
        ] {
            site.link.down(LinkFailure::new(kind, "no").with_help("GRANT"), Duration::from_secs(5));
            let cause = first(&site).await;
            assert_eq!((cause.text.as_str(), cause.help.as_str()), (text, "GRANT"));
        }
        site.link.up();
        let _request = site.link.request_within(Duration::ZERO);
        let alarm = LinkFailure::new(FailureKind::Blocked, "low on disk");
        site.link.refused("publishing", alarm, Duration::ZERO);
        let cause = first(&site).await;
        assert_eq!(cause.text, "fake at fake:1 takes no messages: low on disk");
        assert_eq!(cause.kind, "broker_alarm", "the alarm says more than the silence");
    });
}

#[test]
fn a_fault_is_one_cause_of_all_children_that_report_it() {
    site::run(|site| async move {
        site.link.down("connection refused", Duration::from_secs(5));
        let source = site.tree.vitals("demo/source").unwrap();
        source.set_fault("server_away", "fake:1", "no answer", &[], "start it");
        let found = causes(&site).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].kind.as_str(), found[0].path.as_str()), ("link_down", "test/demo/store"));
        assert_eq!(found[0].affects, ["test/demo/source"]);
        let metrics = site.get("/metrics").await.body;
        for path in ["test/demo/store", "test/demo/source"] {
            let line = format!("orchestrator_blocked{{path=\"{path}\",cause=\"link_down\"}} 1\n");
            assert!(metrics.contains(&line), "no {line} in {metrics}");
        }
        source.set_fault("server_away", "fake:2", "no answer", &[], "start it");
        let found = causes(&site).await;
        assert_eq!(found.len(), 2, "another server: {found:?}");
        assert!(
            found.iter().all(|cause| cause.affects.is_empty() && !cause.evidence.is_empty()),
            "{found:?}"
        );
        source.clear_blocker();
        site.link.up();
        assert!(!site.get("/metrics").await.body.contains("orchestrator_blocked{"));
    });
}

#[test]
fn a_paused_child_names_the_operator_and_the_reason() {
    site::run(|site| async move {
        site.tree
            .command("demo/source", Command::Pause(PauseSpan::default()), &alice("new disk"))
            .await
            .unwrap();
        // It hides a cause behind it.
        site.link.down("connection refused", Duration::from_secs(5));
        let cause = first(&site).await;
        assert_eq!((cause.kind.as_str(), cause.path.as_str()), ("paused", "test/demo/source"));
        assert_eq!(cause.evidence, ["pause by alice: new disk"]);
        assert_eq!(cause.help, "orchestrator resume demo/source");
        assert!(cause.since_ms.is_some());
        assert_eq!(causes(&site).await.len(), 2);
    });
}

#[test]
fn a_stopped_child_names_the_operator_and_the_reason() {
    site::run(|site| async move {
        site.tree.command("demo/source", Command::Stop, &alice("")).await.unwrap();
        let cause = first(&site).await;
        assert_eq!((cause.kind.as_str(), cause.help.as_str()), ("stopped", "orchestrator start demo/source"));
        assert_eq!(cause.evidence, ["stop by alice: no reason given"]);
        site.tree.command("demo/source", Command::Start, &alice("")).await.unwrap();
        assert_eq!(causes(&site).await, []);
    });
}

#[test]
fn a_child_that_was_started_again_and_ended_by_itself_is_no_cause() {
    site::run(|site| async move {
        for command in [Command::Stop, Command::Start] {
            site.tree.command("demo/brief", command, &alice("")).await.unwrap();
        }
        eventually("the task has ended", || site.tree.node("demo/brief").unwrap().state == State::Stopped)
            .await;
        assert_eq!(causes(&site).await, []);
    });
}

#[test]
fn a_pause_names_its_operator_after_a_restart() {
    site::run(|site| async move {
        for command in [Command::Pause(PauseSpan::default()), Command::Restart] {
            site.tree.command("demo/source", command, &alice("new disk")).await.unwrap();
        }
        assert_eq!(first(&site).await.evidence, ["pause by alice: new disk"]);
    });
}

#[test]
fn a_link_that_is_down_gives_the_peers_reason_and_the_next_attempt() {
    site::run(|site| async move {
        site.link.down("connection refused", Duration::from_secs(5));
        let cause = first(&site).await;
        assert_eq!((cause.kind.as_str(), cause.path.as_str()), ("link_down", "test/demo/store"));
        assert_eq!(cause.text, "fake to fake:1 is down: connection refused");
        assert!(cause.evidence[0].starts_with("next attempt in "), "{cause:?}");
        assert_eq!(cause.help, "check that fake:1 runs and is reachable");
        site.link.up();
        assert_eq!(causes(&site).await, []);
    });
}

#[test]
fn a_stuck_child_names_the_work() {
    site::run(|site| async move {
        site.store.tell(Block(Duration::from_secs(3))).unwrap();
        eventually("the store is stuck", || site.tree.node("demo/store").unwrap().stuck).await;
        let cause = first(&site).await;
        assert_eq!((cause.kind.as_str(), cause.path.as_str()), ("stuck", "test/demo/store"));
        assert!(cause.text.starts_with("works on `Block` for "), "{cause:?}");
        eventually("the store works again", || !site.tree.node("demo/store").unwrap().stuck).await;
    });
}

#[test]
fn a_child_that_fails_again_and_again_is_a_crash_loop() {
    site::run(|site| async move {
        for round in 1..=3 {
            eventually("the store runs", || site.tree.node("demo/store").unwrap().state == State::Running)
                .await;
            site.tree.command("demo/store", Command::Panic, &alice("chaos")).await.unwrap();
            eventually("the store runs again", || {
                let store = site.tree.node("demo/store").unwrap();
                store.restarts == round && store.state == State::Running
            })
            .await;
        }
        let cause = first(&site).await;
        assert_eq!((cause.kind.as_str(), cause.path.as_str()), ("crash_loop", "test/demo/store"));
        assert!(cause.text.starts_with("failed 3 times within a minute: panicked"), "{cause:?}");
        assert_eq!(cause.help, "orchestrator crashes demo/store");
    });
}

#[test]
fn a_subsystem_reports_its_own_cause_until_it_works_again() {
    site::run(|site| async move {
        let vitals = site.tree.vitals("demo/store").unwrap();
        vitals.set_blocker("no_mapping", "no mapping in Redis", "post a mapping to the controller");
        let cause = first(&site).await;
        assert_eq!((cause.kind.as_str(), cause.text.as_str()), ("no_mapping", "no mapping in Redis"));
        assert_eq!(cause.help, "post a mapping to the controller");
        let began = cause.since_ms;
        let facts: Vec<_> = (0..9).map(|n| format!("fact {n}\n")).collect();
        vitals.set_blocker_with("no_mapping", "still no mapping in Redis\u{1b}[2J", &facts, "post\n");
        let cause = first(&site).await;
        assert_eq!(
            cause.evidence,
            [r"fact 0\n", r"fact 1\n", r"fact 2\n", r"fact 3\n"],
            "bounded and escaped"
        );
        assert_eq!(cause.help, r"post\n");
        assert_eq!(cause.since_ms, began, "the same cause goes on");
        assert!(!cause.text.contains('\u{1b}'), "{cause:?}");
        vitals.clear_blocker();
        assert_eq!(causes(&site).await, []);
    });
}
