//! Hooks on the real binary: what they report arrives at least once, with one id, whatever is killed or down.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use orchestrator_harness::{
    Instance, Post, Reply, TestEnv, Webhook, eventually, load::SeededRng, rounds, wait_for,
};
use serde_json::{Value, json};

use crate::site;

/// Starts with these hooks and waits for the worker socket.
fn start(site: &TestEnv, hooks: &str) -> Instance {
    let file = site.path().join("hooks.toml");
    fs::write(&file, hooks).expect("write the configuration");
    let mut command = site.command();
    command.arg("--config").arg(file);
    let instance = Instance::spawn(command);
    instance.await_service(site);
    instance
}

/// Hook that posts failed jobs to `webhook`.
fn failures(webhook: &Webhook) -> String {
    format!("[[hook]]\nname = \"failures\"\non = \"queue.failed\"\nurl = \"{}\"\n", webhook.url)
}

/// Ids of the posts about each attribute path.
fn ids(webhook: &Webhook) -> BTreeMap<String, BTreeSet<String>> {
    let mut ids = BTreeMap::<_, BTreeSet<_>>::new();
    for post in webhook.posts() {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        assert!(
            post.head.contains(&format!("idempotency-key: {}\r\n", text(&post.body["id"]))),
            "{}",
            post.head
        );
        ids.entry(text(&post.body["data"]["attr_path"])).or_default().insert(text(&post.body["id"]));
    }
    ids
}

fn fetcher_file(site: &TestEnv, jobs: usize) {
    site.write("demo.1.txt", (0..jobs).map(|i| format!("job{i:03} 0\n")).collect::<String>());
}

#[test]
fn failed_jobs_reach_a_webhook_that_was_down_and_the_tree_names_it() {
    let site = site();
    fetcher_file(&site, 6);
    let webhook = Webhook::start("/failed?token=S3CR3T", "503 Not now");
    let instance = start(&site, &failures(&webhook));
    site.database().expect("SELECT is_complete FROM fetcher_runs", &["1"]);
    eventually("the position of the first start", || stored(&site, "SELECT count(*) FROM position") == 1);
    let mut worker = site.worker();
    let (mut job, mut failed) = (worker.ready(), BTreeSet::new());
    for code in [3, 0, -1, 0, 124] {
        let attr_path = job.attr_path().to_owned();
        job = worker.done(&attr_path, code);
        if code != 0 {
            failed.insert(attr_path);
        }
    }
    eventually("all failed jobs to wait", || site.metric("hooks/failures", "backlog") == 3);
    let link = wait_for("the reason of the link", || {
        let node = site.node("hooks/failures");
        (node["link"]["state"] == "down").then(|| node["link"].to_string())
    });
    assert!(link.contains("answered with status 503: not now") && !link.contains("S3CR3T"), "{link}");
    let (_, why, _) = site.cli(&["why", "hooks"]);
    assert!(why.contains("hooks/failures") && why.contains("status 503"), "{why}");

    assert_eq!(instance.terminate().code(), Some(0), "{}", site.log());
    webhook.answer("204 Done");
    let _instance = start(&site, &failures(&webhook));
    eventually("all failed jobs to be delivered", || {
        let done = site.metric("hooks/failures", "delivered");
        done == 3 && site.metric("hooks/failures", "backlog") == 0
    });
    let ids = ids(&webhook);
    assert_eq!(ids.keys().cloned().collect::<BTreeSet<_>>(), failed);
    assert!(ids.values().all(|ids| ids.len() == 1), "one id for all attempts: {ids:?}");
    let last = webhook.posts().pop().expect("a post").body;
    assert_eq!(last["on"], "queue.failed");
    assert_eq!((&last["data"]["exit_code"], &last["data"]["fetcher"]), (&json!(124), &json!("demo")));
    assert_eq!(last["at_ms"].as_i64(), last["data"]["finished"].as_i64().map(|secs| secs * 1_000));
}

/// The receiver refuses one occurrence for its content, and accepts the others.
#[test]
fn one_refused_occurrence_is_put_aside_and_later_ones_go_on() {
    let site = site().set("links.retry_max_ms=100");
    site.write("demo.1.txt", format!("{} 0\njob001 0\njob002 0\n", "a".repeat(20_000)));
    let webhook = Webhook::start("/", "204 Done");
    let refuses = |post: &Post| {
        let text = post.body["data"]["attr_path"].as_str().expect("an attribute path");
        if text.starts_with("aa") { "413 Too large" } else { "204 Done" }
    };
    webhook.answer_by(refuses);
    let instance = start(&site, &failures(&webhook));
    site.database().expect("SELECT is_complete FROM fetcher_runs", &["1"]);
    eventually("the position of the first start", || stored(&site, "SELECT count(*) FROM position") == 1);
    let mut worker = site.worker();
    let mut job = worker.ready();
    while let Reply::Job { attr_path, .. } = &job {
        let done = attr_path.clone();
        job = worker.done(&done, 1);
    }
    eventually("the others to arrive", || {
        site.metric("hooks/failures", "delivered") == 2 && site.metric("hooks/failures", "put_aside") == 1
    });
    instance.kill_nine();
    let _instance = start(&site, &failures(&webhook));
    let (_, why, _) = wait_for("the cause", || {
        let answer = site.cli(&["why", "hooks"]);
        answer
            .1
            .contains("occurrences put aside, since the receiver refuses their content: 1")
            .then_some(answer)
    });
    assert!(
        why.contains("answered with status 413") && why.contains("orchestrator restart hooks/failures"),
        "{why}"
    );
    assert_eq!(stored(&site, "SELECT count(*) FROM put_aside"), 1);
    let refused: Vec<_> = webhook.posts().into_iter().filter(|post| refuses(post) != "204 Done").collect();
    assert_eq!(refused.len(), 5, "attempts");
    let (data, cut) = (&refused[0].body["data"], &refused[0].body["cut"]);
    assert_eq!((data["attr_path"].as_str(), cut), (Some(&*format!("{}…", "a".repeat(4_096))), &json!(true)));
    assert!(site.log().contains("put aside, since the receiver refuses its content"), "{}", site.log());

    webhook.answer("204 Done");
    let (code, _, err) = site.cli(&["restart", "hooks/failures", "--reason", "the receiver is corrected"]);
    assert_eq!(code, 0, "{err}");
    eventually("the occurrence to be sent again", || {
        site.metric("hooks/failures", "delivered") == 1 && site.metric("hooks/failures", "put_aside") == 0
    });
    assert_eq!(webhook.posts().last().expect("a post").body["id"], refused[0].body["id"]);
}

/// Number in the database of the outbox.
fn stored(site: &TestEnv, sql: &str) -> i64 {
    let outbox = orchestrator_harness::Database::open(&site.path().join("hooks.db"));
    outbox.connection().query_row(sql, [], |row| row.get(0)).unwrap_or_default()
}

#[test]
fn kills_lose_no_failed_job_whose_end_was_answered() {
    let mut rng = SeededRng::new(1);
    let site = site();
    fetcher_file(&site, 600);
    let webhook = Webhook::start("/", "204 Done");
    let mut instance = start(&site, &failures(&webhook));
    eventually("the position of the first start", || stored(&site, "SELECT count(*) FROM position") == 1);
    let mut failed = BTreeSet::new();
    for round in 0..rounds("ORCHESTRATOR_KILL_ROUNDS", 3) {
        webhook.answer(if round % 2 == 0 { "204 Done" } else { "500 Not now" });
        let mut worker = site.worker();
        let mut job = worker.ready();
        for _ in 0..rng.below(40) {
            let Reply::Job { attr_path, .. } = &job else { break };
            let done = attr_path.clone();
            // The answer means that the end is recorded.
            job = worker.done(&done, 1);
            failed.insert(done);
        }
        instance.kill_nine();
        instance = start(&site, &failures(&webhook));
    }
    webhook.answer("204 Done");
    eventually("all failed jobs to be delivered", || {
        failed.iter().all(|job| ids(&webhook).contains_key(job))
    });
    assert!(ids(&webhook).values().all(|ids| ids.len() == 1), "one id for all attempts");
    eventually("an empty outbox", || stored(&site, "SELECT count(*) FROM waiting") == 0);
}

#[test]
fn a_program_is_told_which_subsystem_was_given_up_until_it_succeeds() {
    let site =
        site().set("provenance.sqlite.path=provenance.db").set("provenance.dead_letters=dead-letters.db");
    let path = site.path().display();
    let script = format!(
        "cat >> {path}/received; [ -e {path}/$ORCHESTRATOR_OCCURRENCE_ID ] || {{ touch {path}/$ORCHESTRATOR_OCCURRENCE_ID; echo try again; exit 7; }}"
    );
    let program = json!(["/bin/sh", "-c", script]);
    let _instance =
        start(&site, &format!("[[hook]]\nname = \"ops\"\non = \"subsystem.gave_up\"\nargv = {program}\n"));
    // A panic during the first start ends the process.
    eventually("all children to run", || site.snapshot().is_some_and(|tree| tree.runs()));
    site.exceed_restarts("provenance");
    eventually("the second attempt to succeed", || site.metric("hooks/ops", "delivered") == 1);
    assert_eq!(site.metric("hooks/ops", "failed"), 1);
    let received = fs::read_to_string(site.path().join("received")).expect("deliveries");
    let received: Vec<Value> =
        received.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(received[0], received[1]);
    let data = &received[0]["data"];
    assert_eq!((&received[0]["on"], &data["child"]), (&json!("subsystem.gave_up"), &json!("provenance")));
    assert!(data["reason"].as_str().is_some_and(|reason| reason.contains("injected panic")), "{data}");
    assert!(site.log().contains("/bin/sh ended with exit status: 7: try again"), "{}", site.log());
}

#[test]
fn mistakes_of_hooks_are_told_before_the_start() {
    let site = site();
    let file = site.path().join("hooks.toml");
    let hook = |name: &str, rest: &str| format!("[[hook]]\nname = \"{name}\"\n{rest}\n");
    for (text, said) in [
        (hook("a", "on = \"queue.lost\"\nurl = \"http://x\""), "hook.a.on"),
        (hook("a", "on = \"queue.failed\""), "nothing receives the occurrences: set argv or url"),
        (hook("a", "on = \"queue.failed\"\nurl = \"ftp://S3CR3T\""), "hook.a.url"),
        (hook("outbox", "on = \"queue.failed\"\nargv = [\"true\"]"), "the name is taken"),
        (hook("a", "argv = [\"true\"]"), "hook.a.on"),
    ] {
        fs::write(&file, text).expect("write the configuration");
        let (code, out, err) = site.cli(&["check", "--config", "hooks.toml"]);
        let said_all = format!("{out}{err}");
        assert!(code == 78 && said_all.contains(said) && !said_all.contains("S3CR3T"), "{code}: {said_all}");
    }
}
