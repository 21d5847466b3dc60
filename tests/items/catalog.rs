//! Rows of a catalog.

use std::fs;

use orchestrator_harness::{CatalogEnv, Ermrest, Instance};
use serde_json::{Value, json};

use crate::{BINARY, asks};

/// Rule whose handler waits for a file of the row's number.
const RULE: &str = r#"
[[catalog.rule]]
name = "work"
table = "Foo"
filter = "state=actionable"
sort = "id"
key = "id"
limit = 16
concurrency = 1
attempts_column = "attempts"
max_attempts = 3
backoff = { first_ms = 600000, max_ms = 600000 }
handler = { kind = "command", argv = ["sh", "-c", '''id=$(grep -o '"id": *[0-9]*' | grep -o '[0-9]*$'); while ! [ -e DIR/$id ]; do sleep 0.05; done; exit $(cat DIR/$id)'''], timeout_secs = 77 }
claim.set = { state = "claimed", claimed_by = "$token", lease_until = "$now+20s", attempts = "$row.attempts+1" }
done = { state = "complete", claimed_by = "$null", lease_until = "$null" }
fail = { state = "actionable", claimed_by = "$null", lease_until = "$null", error = "$error" }
dead = { state = "dead", claimed_by = "$null", lease_until = "$null", error = "$error" }
"#;

/// Starts with some rows, whose handlers wait for [`end`].
fn started(server: &Ermrest, rows: &Value) -> (CatalogEnv, Instance) {
    let env = CatalogEnv::new(BINARY, server);
    let directory = env.base().path().display().to_string();
    let env = env.key("poll_secs = 3600").rule(&RULE.replace("DIR", &directory));
    server.insert("Foo", rows, "");
    let instance = env.start();
    (env, instance)
}

/// Lets the handler of a row end with an exit code.
fn end(env: &CatalogEnv, row: u32, code: u32) {
    fs::write(env.base().path().join(row.to_string()), code.to_string()).expect("write the exit code");
}

#[test]
fn a_row_is_followed_from_its_claim_to_its_end() {
    let server = Ermrest::start(&[]);
    let rows = json!([{ "id": 1, "state": "actionable" }, { "id": 2, "state": "actionable" }]);
    let (env, _instance) = started(&server, &rows);
    let site = env.base();
    let runs = ["claimed, attempt 1 of 3, its command runs, for 77 s at most", "token ", "its lease ends at"];
    asks(site, "the handler of a row runs", "catalog/lab/work/1", 0, &runs);
    let waits = ["waits for a handler", "all 1 handlers of the rule run", "1 since ", "raise `concurrency`"];
    asks(site, "a claimed row waits for a handler", "2", 1, &waits);
    end(&env, 1, 0);
    let done = [
        "row catalog/lab/work/1: done",
        "it is claimed once it meets the filter state=actionable",
        "state is \"complete\"",
    ];
    asks(site, "a row is done", "1", 0, &done);
    end(&env, 2, 65);
    asks(site, "a row is dead", "work/2", 0, &["dead after 1 attempts", "error is "]);
    asks(
        site,
        "there is no such row",
        "catalog/lab/work/3",
        2,
        &["nothing is known of", "searched Foo by id"],
    );
}

#[test]
fn a_failed_row_is_tried_again_later() {
    let server = Ermrest::start(&[]);
    let (env, _instance) = started(&server, &json!([{ "id": 1, "state": "actionable" }]));
    end(&env, 1, 3);
    let deferred = [
        "attempt 1 of 3 failed; it is tried again later",
        "it is not claimed until",
        "next chance: not before",
    ];
    asks(env.base(), "a row failed and is tried again later", "catalog/lab/work/1", 1, &deferred);
}

#[test]
fn rows_that_are_not_claimed_here_say_why() {
    let mut server = Ermrest::start(&[]);
    let rows = json!([
        { "id": 1, "state": "claimed", "claimed_by": "elsewhere/7", "lease_until": "2099-01-01T00:00:00Z" },
        { "id": 2, "state": "draft" },
    ]);
    let (env, _instance) = started(&server, &rows);
    let site = env.base();
    let another =
        ["claimed by another agent", "the token elsewhere/7", "next chance: not before 2099-01-01T00:00:00Z"];
    asks(site, "another agent has claimed the row", "catalog/lab/work/1", 1, &another);
    let unmet =
        ["no candidate: it is claimed once it meets the filter state=actionable", "state is \"draft\""];
    asks(site, "the row does not meet the filter", "catalog/lab/work/2", 0, &unmet);
    let (code, _, err) = site.cli(&["catalog", "pause", "work", "--reason", "new schema"]);
    assert_eq!(code, 0, "{err}");
    server.insert("Foo", &json!([{ "id": 3, "state": "actionable" }]), "");
    let paused = [
        "a candidate, not claimed yet",
        "an operator paused the rule",
        "new schema",
        "do: orchestrator catalog resume work",
    ];
    asks(site, "the rule of a candidate is paused", "catalog/lab/work/3", 1, &paused);
    server.kill_nine();
    let away = ["no answer about catalog/lab/work/3", "gave no answer: Foo by id: ", "Connection refused"];
    asks(site, "the server of a row is away", "catalog/lab/work/3", 1, &away);
}

#[test]
fn a_candidate_waits_for_the_next_poll() {
    let server = Ermrest::start(&[]);
    let env = CatalogEnv::new(BINARY, &server).rule(&format!("{RULE}dry_run = true\n"));
    server.insert("Foo", &json!([{ "id": 1, "state": "actionable" }]), "");
    let _instance = env.start();
    let polls = [
        "a candidate, not claimed yet",
        "the rule polls at",
        "do: orchestrator catalog run-once work",
        "next chance: at",
    ];
    asks(env.base(), "a candidate waits for the next poll", "catalog/lab/work/1", 0, &polls);
}

#[test]
fn a_row_that_is_a_job_shows_the_job_too() {
    let server = Ermrest::start(&[]);
    let rule = RULE.lines().filter(|line| !line.starts_with("handler")).collect::<Vec<_>>().join("\n");
    let handler = "handler = { kind = \"queue\", attr_path = \"img/$row.id\", payload = \"x\" }\n";
    let env = CatalogEnv::new(BINARY, &server).rule(&format!("{rule}\n{handler}"));
    server.insert("Foo", &json!([{ "id": 1, "state": "actionable" }]), "");
    let mut command = env.base().command();
    command.arg("--config").arg(env.write());
    let _instance = env.base().start_by(command);
    let chain = [
        "row catalog/lab/work/1: claimed, attempt 1 of 3, it is a job of the queue",
        "job queue/img/1: waits at position 1",
    ];
    asks(env.base(), "a row is a job of the queue", "catalog/lab/work/1", 1, &chain);
    let mut worker = env.base().worker();
    assert_eq!(worker.ready().attr_path(), "img/1");
    let working = ["it is a job of the queue", "job queue/img/1: in progress: the worker on connection"];
    let answer = asks(env.base(), "a worker has the job of a row", "catalog/lab/work/1", 0, &working);
    assert_eq!(answer["found"].as_array().map(Vec::len), Some(2), "{answer}");
    worker.done("img/1", 0);
    asks(env.base(), "a row is done", "catalog/lab/work/1", 0, &["row catalog/lab/work/1: done"]);
}
