//! Program or webhook that receives each completed TCN: at least once, with an id, and without holding up the
//! next TCN.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    thread,
    time::Duration,
};

use orchestrator_harness::{
    DATABASE, Faktory, FaktoryWorker, Instance, MongoDb, Post, ProducerEnv, STENCILS, Tanglenomicon, Webhook,
    eventually,
    load::{SeededRng, for_each_seed},
};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const CONFIG: i32 = 78;

fn filled() -> (MongoDb, Faktory, FaktoryWorker) {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    Tanglenomicon::small().fill(&database);
    let worker = FaktoryWorker::start(&queue, "arborescent");
    (database, queue, worker)
}

/// Key `orchestrator` of the configuration document.
fn records(database: &MongoDb) -> Value {
    let documents = database.documents(DATABASE, STENCILS);
    let config = documents.into_iter().find(|document| document["_id"] == "config");
    config.expect("the configuration document")["orchestrator"].clone()
}

#[test]
fn a_program_gets_each_tcn_with_its_counts_until_it_accepts_it() {
    let (database, queue, _worker) = filled();
    let small = Tanglenomicon::small();
    let site = ProducerEnv::new(BINARY, &database, &queue);
    let path = site.base().path().display().to_string();
    // Each id is refused once.
    let script = format!(
        "cat >> {path}/received; [ -e {path}/$ORCHESTRATOR_COMPLETION_ID ] || {{ touch {path}/$ORCHESTRATOR_COMPLETION_ID; echo try again; exit 7; }}"
    );
    let argv = json!(["/bin/sh", "-c", script]);
    let site = site
        .set("producer.page_size=2")
        .set("producer.until_done=true")
        .set(&format!("producer.on_complete.argv={argv}"));
    let mut instance = Instance::spawn(site.command());
    assert_eq!(instance.wait().code(), Some(0), "{}", site.base().log());
    let text = fs::read_to_string(format!("{path}/received")).expect("deliveries");
    let received: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let tcns: Vec<_> = received.iter().map(|completion| completion["tcn"].clone()).collect();
    assert_eq!(tcns, [4, 4, 5, 5], "in order, each twice: {text}");
    assert_eq!((&received[0], &received[2]), (&received[1], &received[3]), "with the same id");
    assert_ne!(received[0]["id"], received[2]["id"]);
    let first = small.jobs(2).iter().filter(|job| job[1] == 2 && job[3] == 2).count();
    assert_eq!((&received[0]["stencils"], &received[0]["jobs"]), (&json!(1), &json!(first)));
    let rest = small.jobs(2).len() - first;
    assert_eq!((&received[2]["stencils"], &received[2]["jobs"]), (&json!(2), &json!(rest)));
    for completion in &received {
        let ms = |key: &str| completion[key].as_i64().expect("a time");
        assert_eq!(ms("duration_ms"), ms("completed_ms") - ms("started_ms"), "{completion}");
    }
    assert!(received[2]["started_ms"].as_i64() >= received[0]["completed_ms"].as_i64(), "{text}");
    let log = site.base().log();
    assert!(log.contains("/bin/sh ended with exit status: 7: try again"), "{log}");
    assert_eq!(records(&database)["completions"], json!({}), "none is left");
}

/// The program refuses the first completion for its content until it has the second one.
#[test]
fn a_completion_that_is_refused_for_its_content_comes_behind_the_others() {
    let (database, queue, _worker) = filled();
    let site = ProducerEnv::new(BINARY, &database, &queue);
    let path = site.base().path().display().to_string();
    let script = format!(
        "case $ORCHESTRATOR_TCN in 4) [ -e {path}/second ] || exit 65 ;; *) touch {path}/second ;; esac; echo $ORCHESTRATOR_TCN >> {path}/received"
    );
    let argv = json!(["/bin/sh", "-c", script]);
    let site = site
        .set("links.retry_max_ms=100")
        .set("producer.until_done=true")
        .set(&format!("producer.on_complete.argv={argv}"));
    let mut instance = Instance::spawn(site.command());
    assert_eq!(instance.wait().code(), Some(0), "{}", site.base().log());
    assert_eq!(fs::read_to_string(format!("{path}/received")).expect("deliveries"), "5\n4\n");
    assert_eq!(records(&database)["completions"], json!({}), "none is left");
}

#[test]
fn a_webhook_gets_the_same_id_after_kill_nine_and_does_not_hold_up_the_next_tcn() {
    let (database, queue, _worker) = filled();
    let webhook = Webhook::start("/tcn?token=S3CR3T", "500 Not now");
    let headers = tempfile_with("Authorization: Bearer T0K3N\n");
    let site = ProducerEnv::new(BINARY, &database, &queue)
        .set("producer.lease_ms=3000")
        .set(&format!("producer.on_complete.url={}", webhook.url))
        .set(&format!("producer.on_complete.headers_file={}", headers.path().display()));
    let instance = site.start();
    eventually("both TCNs to be complete", || site.status()["phase"] == "finished");
    eventually("both to be recorded", || site.status()["undelivered"] == 2);
    let link = || site.base().link("producer/on_complete");
    eventually("the refusal to be shown", || link().reason.contains("answered with status 500: not now"));
    let (code, status, err) = site.base().cli(&["producer", "status"]);
    assert!(
        code == 0 && status.contains("hook") && status.contains("on_complete: http://127.0.0.1"),
        "{status}{err}"
    );
    instance.kill_nine();
    let before = webhook.posts();
    let id = |post: &Post| post.body["id"].as_str().expect("an id").to_owned();
    assert!(before.iter().all(|post| post.body["tcn"] == 4 && id(post) == id(&before[0])), "{before:?}");
    assert!(before[0].head.to_ascii_lowercase().contains(&format!("idempotency-key: {}", id(&before[0]))));
    assert!(before[0].head.contains("Bearer T0K3N") && before[0].head.starts_with("POST /tcn?token=S3CR3T "));

    webhook.answer("204 No Content");
    let instance = site.start();
    eventually("both to be delivered", || {
        webhook.posts().iter().any(|post| post.body["tcn"] == 5) && site.status()["undelivered"] == 0
    });
    let after = webhook.posts()[before.len()..].to_vec();
    assert_eq!((id(&after[0]), &after[0].body), (id(&before[0]), &before[0].body), "as before the kill");
    assert_eq!(after.iter().map(id).collect::<BTreeSet<_>>().len(), 2, "{after:?}");
    assert_eq!(link().state, "up");
    let (code, status, err) = site.base().cli(&["producer", "status"]);
    assert!(code == 0 && !status.contains("hook") && !status.contains("on_complete"), "{status}{err}");
    assert_eq!(records(&database)["completions"], json!({}));
    assert!(instance.terminate().success());
    let log = site.base().log();
    assert!(!log.contains("S3CR3T") && !log.contains("T0K3N"), "{log}");
}

/// Kills at random times, with a webhook that refuses some of the time.
#[test]
fn kills_at_random_times_lose_no_completion_and_change_no_id() {
    for_each_seed("ORCHESTRATOR_PRODUCER_KILL_ROUNDS", 1, |seed| {
        let mut rng = SeededRng::new(seed);
        let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
        let all = Tanglenomicon {
            completed_and_max: (3, 8),
            stencils: vec![(4, 2, 2), (5, 2, 3), (6, 3, 3), (7, 3, 4), (8, 4, 4)],
            tangles: vec![(2, 4), (3, 3), (4, 5)],
        };
        all.fill(&database);
        let _worker = FaktoryWorker::start(&queue, "arborescent");
        let webhook = Webhook::start("/tcn?token=S3CR3T", "204 No Content");
        let site = ProducerEnv::new(BINARY, &database, &queue)
            .set("producer.lease_ms=3000")
            .set("producer.page_size=1")
            .set("producer.until_done=true")
            .set(&format!("producer.on_complete.url={}", webhook.url));
        for status in ["503 Busy", "204 No Content", "503 Busy"] {
            webhook.answer(status);
            let (before, mut instance) = (webhook.posts().len(), Instance::spawn(site.command()));
            eventually("a delivery, or the end", || {
                webhook.posts().len() > before || instance.ended().is_some()
            });
            thread::sleep(Duration::from_micros(rng.below(40_000) as u64));
            if instance.ended().is_none() {
                instance.kill_nine();
            }
        }
        webhook.answer("204 No Content");
        let mut instance = Instance::spawn(site.command());
        assert_eq!(instance.wait().code(), Some(0), "{}", site.base().log());
        let posts = webhook.posts();
        let mut ids: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
        for post in &posts {
            let tcn = post.body["tcn"].as_i64().expect("a TCN");
            ids.entry(tcn).or_default().insert(post.body["id"].as_str().expect("an id").to_owned());
        }
        assert_eq!(ids.keys().copied().collect::<Vec<_>>(), [4, 5, 6, 7, 8], "{posts:?}");
        assert!(ids.values().all(|ids| ids.len() == 1), "{posts:?}");
        assert_eq!(records(&database)["completions"], json!({}));
        eprintln!("seed {seed}: {} deliveries of 5 completions", posts.len());
    });
}

fn tempfile_with(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("write a file");
    file
}

/// Without `on_complete`, nothing is recorded.
#[test]
fn without_a_receiver_the_documents_stay_as_they_are() {
    let (database, queue, _worker) = filled();
    let site = ProducerEnv::new(BINARY, &database, &queue).set("producer.until_done=true");
    let mut instance = Instance::spawn(site.command());
    assert_eq!(instance.wait().code(), Some(0), "{}", site.base().log());
    let ours = records(&database);
    let keys: Vec<_> = ours.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["lease"], "{ours}");
}

#[test]
fn a_receiver_that_cannot_be_used_is_refused() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    for (set, key) in [
        ("producer.on_complete.url=ftp://S3CR3T", "producer.on_complete.url: "),
        ("producer.on_complete.argv=[\"bin/x\"]", "producer.on_complete.argv: "),
        ("producer.on_complete.ca_file=/ca.pem", "producer.on_complete.ca_file: "),
    ] {
        let site = ProducerEnv::new(BINARY, &database, &queue).set(set);
        assert_eq!(Instance::spawn(site.command()).wait().code(), Some(CONFIG), "{set}");
        let log = site.base().log();
        assert!(log.contains(key) && !log.contains("S3CR3T"), "{log}");
    }
}
