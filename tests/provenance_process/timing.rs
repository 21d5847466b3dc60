//! Timings of every method of the provenance client: in the tree, in the metrics, and in statsd with the
//! original's name.

use std::{net::UdpSocket, time::Duration};

use orchestrator_harness::{Instance, ProvenanceEnv, eventually, http, sha1_of};
use serde_json::json;

const ORIGIN: &str = "6ceea27924608c9ae55f8592999de10cf8e00eb7";

/// Starts an instance that sends to the statsd at `host` and `port`.
fn start(env: &ProvenanceEnv, host: &str, port: u16) -> Instance {
    let mut command = env.command();
    command.env("STATSD_HOST", host).env("STATSD_PORT", port.to_string());
    command.env("STATSD_TAGS", "site:lab");
    let instance = Instance::spawn(command);
    eventually("the endpoint to answer", || env.base().cli(&["tree"]).0 == 0);
    instance
}

/// Calls each method that has a command.
fn use_all(env: &ProvenanceEnv) {
    let (content, revision) = (sha1_of(0, 1), sha1_of(2, 1));
    let rows = env.file([
        json!({"add": "content", "id": content}),
        json!({"add": "directory", "id": sha1_of(1, 1)}),
        json!({"add": "revision", "id": revision}),
        json!({"add": "origin", "url": "https://a/b"}),
        json!({"add": "location", "path": "a"}),
        json!({"add": "content_in_revision", "src": content, "dst": revision, "path": "a"}),
    ]);
    env.ask(&["import", &rows]);
    for kind in ["content", "directory", "revision", "origin"] {
        env.ask(&["get", kind, ORIGIN]);
    }
    env.ask(&["find-first", &content]);
    env.ask(&["find-all", &content]);
    env.ask(&["stats"]);
}

const METHODS: [&str; 14] = [
    "close",
    "content_add",
    "content_find_all",
    "content_find_first",
    "content_get",
    "directory_add",
    "directory_get",
    "location_add",
    "open",
    "origin_add",
    "origin_get",
    "relation_add",
    "revision_add",
    "revision_get",
];

#[test]
fn each_method_is_timed_in_metrics_and_statsd() {
    let statsd = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    statsd.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    let env = ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let instance = start(&env, "localhost", statsd.local_addr().expect("an address").port());
    use_all(&env);
    let metrics = http(&env.base().admin_socket(), "GET", "/metrics", &[], "").body;
    for method in METHODS.into_iter().filter(|method| *method != "close") {
        let series = format!(
            r#"orchestrator_provenance_call_duration_seconds_count{{path="orchestrator/provenance/rmq_client",method="{method}"}} 1"#
        );
        assert!(metrics.lines().any(|line| line == series), "{series} in {metrics}");
    }
    let client = env.base().node("provenance/rmq_client");
    let timings = client["timings"].as_array().expect("timings");
    let add = timings.iter().find(|timing| timing["value"] == "content_add").expect("content_add");
    assert_eq!(
        (&add["name"], &add["label"], &add["count"]),
        (&json!("call_duration"), &json!("method"), &json!(1))
    );
    assert!(add["us"][0].as_u64().expect("a time") > 0, "{add}");
    assert!(instance.terminate().success(), "{}", env.base().log());
    // The original has no method `stats`.
    let mut sent = Vec::new();
    let mut packet = [0; 512];
    while sent.len() < METHODS.len() + 1 {
        let length = statsd.recv(&mut packet).unwrap_or_else(|error| panic!("{error} after {sent:?}"));
        let text = std::str::from_utf8(&packet[..length]).expect("UTF-8");
        let rest = text.strip_prefix("swh_provenance_storage_rabbitmq_duration_seconds:").expect("the name");
        let (value, tags) = rest.split_once("|ms|#").expect("milliseconds and tags");
        assert!(value.parse::<f64>().expect("a number") < 20_000.0, "{text}");
        let method = tags.strip_prefix("method:").and_then(|rest| rest.strip_suffix(",site:lab"));
        sent.push(method.expect("both tags").to_owned());
    }
    sent.retain(|method| method != "stats");
    sent.sort();
    assert_eq!(sent, METHODS);
}

#[test]
fn an_unreachable_statsd_is_ignored() {
    let env = ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let instance = start(&env, "no.such.host.invalid", 8125);
    use_all(&env);
    let node = env.base().node("provenance/statsd");
    assert_eq!(node["state"], "running");
    let ready = http(&env.base().admin_socket(), "GET", "/readyz", &[], "");
    assert_eq!(ready.status, 200, "{}", ready.body);
    assert!(instance.terminate().success(), "{}", env.base().log());
}
