//! Input that is late by its configured period: a cause and a metric, for the queue, an ingester and a
//! catalog.

use std::{collections::BTreeSet, net::TcpListener};

use orchestrator_harness::{Ermrest, IngesterEnv, LEASED_RULE, TestEnv, ZmtpPeer, eventually, http};
use serde_json::Value;

const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";
const STREAM: &str = "ingester/eiger-ingester/scan/stream_0";
const RULE: &str = "catalog/lab/rules/work";

/// Path and text of each cause `input_late`.
fn late(env: &TestEnv) -> BTreeSet<(String, String)> {
    let (_, out, _) = env.cli(&["why", "--json"]);
    let answer: Value = serde_json::from_str(&out).unwrap_or_default();
    let branches = answer["subsystems"].as_array().cloned().unwrap_or_default();
    let causes = branches.iter().flat_map(|branch| branch["causes"].as_array().into_iter().flatten());
    let late = causes.filter(|cause| cause["kind"] == "input_late");
    let text = |cause: &Value, key: &str| cause[key].as_str().expect("a text").to_owned();
    late.map(|cause| (text(cause, "path").replace("orchestrator/", ""), text(cause, "text"))).collect()
}

fn is_late(env: &TestEnv, path: &str, input: &str) -> bool {
    let start = format!("no input `{input}` for ");
    late(env).iter().any(|(of, text)| of == path && text.starts_with(&start))
}

/// Seconds by which an input is late, as `/metrics` says.
fn late_seconds(env: &TestEnv, path: &str, input: &str) -> Option<f64> {
    let series =
        format!("orchestrator_input_late_seconds{{path=\"orchestrator/{path}\",input=\"{input}\"}} ");
    let metrics = http(&env.admin_socket(), "GET", "/metrics", &[], "").body;
    metrics.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok())
}

#[test]
fn late_input_is_named_until_it_arrives() {
    let (server, source) = (Ermrest::start(&[]), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let upstream = format!("tcp://{}", source.local_addr().expect("its address"));
    let env = IngesterEnv::new(env!("CARGO_BIN_EXE_orchestrator"), &upstream, "");
    let base = &env.base;
    env.append(&format!(
        "expect_every = \"1s\"\n[queue]\ndatabase = {:?}\ninput_dir = {:?}\nsocket = {:?}\n\
         [[queue.expect]]\nfetcher = \"git*\"\nevery = \"1h\"\n[[queue.expect]]\nfetcher = \"none\"\nevery = \"1s\"\n\
         [[catalog]]\nname = \"lab\"\nbase = {:?}\namqp = \"\"\npoll_without_notices_secs = 0.25\n{LEASED_RULE}\
         expect_every = \"1s\"\nhandler = {{ kind = \"command\", argv = [\"/bin/true\"] }}\n",
        base.database_path(),
        base.input_dir(),
        base.socket(),
        server.url(),
    ));
    base.write("github.1.txt", "alpha 0 1\n");
    let instance = env.start();
    let all = [("queue/housekeeper", "none"), (STREAM, "eiger"), (RULE, "work")];
    for (path, input) in all {
        eventually(&format!("{path} to be late: {:?}", late(base)), || is_late(base, path, input));
        assert!(late_seconds(base, path, input) > Some(0.0), "{path}");
    }
    assert_eq!(late_seconds(base, "queue/housekeeper", "git*"), Some(0.0), "the first hour");

    // Input ends the lateness, and the next period begins.
    env.controller().start_mapping(MAPPING, &["eiger"]);
    let mut detector = ZmtpPeer::accept(&source, "PUSH").expect("the ingester connects");
    for (path, input) in [(STREAM, "eiger"), (RULE, "work")] {
        eventually("it to be late for 2 s", || late_seconds(base, path, input) > Some(2.0));
        if path == STREAM {
            detector.send(&[br#"{"htype":"header","msg_number":0,"filename":""}"#]).expect("a header");
        } else {
            server.insert_foo(1, "actionable");
        }
        eventually("it to be in time again", || late_seconds(base, path, input) < Some(2.0));
    }

    // The queue knows the last run from its database.
    assert!(instance.terminate().success());
    base.database().execute("UPDATE orchestrator_run SET added = added - 7200");
    let instance = env.start();
    eventually("the fetcher to be late", || late_seconds(base, "queue/housekeeper", "git*") > Some(3_500.0));
    assert!(is_late(base, "queue/housekeeper", "git*"));
    assert!(instance.terminate().success());
    base.write("gitlab.1.txt", "bravo 0 1\n");
    let _instance = env.start();
    eventually("the run to be stored", || base.database().rows("SELECT 1 FROM orchestrator_run").len() == 2);
    eventually("it to be in time", || late_seconds(base, "queue/housekeeper", "git*") == Some(0.0));
}
