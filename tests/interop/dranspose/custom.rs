//! Ingester classes of a site (`site_ingesters.py`), unchanged, in a Python process of our ingester.
//!
//! With `ORCHESTRATOR_INTEROP_INGESTER=python`, the tests of one stream run with dranspose's own command
//! line.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    process::Command,
};

use orchestrator_harness::{
    dranspose::{Deployment, Ingester, IngesterSpec, Map, Source, check_scan, run_program, series},
    eventually, free_port, http_tcp, wait_for,
};
use serde_json::{Value, json};

use super::{BINARY, pandabox::PandaBox};

/// Deployment with an ingester of a site's class and two workers.
struct Site {
    deployment: Deployment,
    spec: IngesterSpec,
    ingester: Ingester,
}

impl Site {
    fn new(class: &str, upstream: &str, streams: &[&str]) -> Self {
        let spec = IngesterSpec::site_class(&format!("site_ingesters:{class}"), upstream, streams);
        let mut deployment = Deployment::start(BINARY);
        let ingester = deployment.start_ingester(&spec);
        deployment.start_workers(&["w1", "w2"]);
        Self { deployment, spec, ingester }
    }

    /// Nodes of the tree below the ingester, as text.
    fn tree(&self) -> String {
        let mut command = Command::new(BINARY);
        command.args(["tree", &format!("ingester/{}", self.spec.ingester_name()), "--json"]);
        command.env("ORCHESTRATOR_SOCKET", self.deployment.path().join("admin.sock"));
        let output = command.output().expect("the binary runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Runs a whole scan of `Made` or a class that inherits from it.
    fn scan_made(&self, events: usize) {
        let scan = self.deployment.post_mapping(&Map::of_stream("made", events));
        self.deployment.wait_for_end(&scan);
        check_scan(&self.deployment, &scan, &[("made", "MADE", &made(events + 2))], true);
    }
}

/// Records of the first items of `Made`.
fn made(count: usize) -> Vec<Value> {
    serde_json::from_str(&run_program("site_ingesters.py", &["made", &count.to_string()])).expect("a list")
}

/// Records of items of one part of text.
fn texts(list: &[String]) -> Vec<Value> {
    let output = run_program("site_ingesters.py", &["texts", &json!(list).to_string()]);
    serde_json::from_str(&output).expect("a list")
}

/// A class that inherits from `Ingester` itself; empty parts, long ones, and each scan from the first item.
#[test]
fn computed_items_arrive_byte_for_byte() {
    let site = Site::new("Made", "tcp://127.0.0.1:9", &["made"]);
    for events in [40, 3, 25] {
        site.scan_made(events);
    }
}

/// A class that inherits from a shipped ingester and changes its items.
#[test]
fn a_shipped_ingester_with_changed_items() {
    let mut source = Source::push();
    let site = Site::new("Annotated", &source.url(), &["eiger"]);
    let notes = texts(&["note on 1 parts".to_owned(), "note on 2 parts".to_owned()]);
    for round in 0..3 {
        let scan = site.deployment.post_mapping(&Map::of_stream("eiger", 20));
        let sent = source.send(&series(&format!("noted-{round}"), 20, 5_000));
        let noted: Vec<Value> = sent.iter().map(|item| with_note(item, &notes)).collect();
        site.deployment.wait_for_end(&scan);
        check_scan(&site.deployment, &scan, &[("eiger", "NOTED", &noted)], true);
    }
}

/// Record of an item of `Annotated` made from `item`.
fn with_note(item: &Value, notes: &[Value]) -> Value {
    let mut parts = item.as_array().expect("parts").clone();
    parts.push(notes[parts.len() - 1][0].clone());
    json!(parts)
}

/// One class with two streams: positions over TCP and a software trigger, with events that have only one of
/// them.
#[test]
fn a_software_trigger_beside_a_position_capture() {
    let mut panda = PandaBox::start();
    let site = Site::new("CountedPositions", &panda.url(), &["positions", "trigger"]);
    for round in 0..2 {
        let lines = 30;
        let positions = (0..lines).map(Map::any_worker);
        // Each third event has no trigger, each fifth no position.
        let mut map_positions: Vec<Value> = positions.collect();
        let mut map_trigger: Vec<Value> = (0..lines).map(|n| Map::any_worker(n + 1)).collect();
        (0..lines).filter(|n| n % 5 == 1).for_each(|n| map_positions[n] = Map::NO_FRAME);
        (0..lines).filter(|n| n % 3 == 0 && n % 5 != 1).for_each(|n| map_trigger[n] = Map::NO_FRAME);
        let has_frame = |map: &[Value], n: usize| n == 0 || n == lines + 1 || !map[n - 1].is_null();
        let frames = (1..=lines).filter(|n| has_frame(&map_positions, *n)).count();
        let triggers: Vec<String> = (0..lines + 2)
            .filter(|n| has_frame(&map_trigger, *n))
            .map(|n| json!({ "trigger": n }).to_string().replace(':', ": "))
            .collect();
        let head = format!("arm_time: 2026-11-23T09:0{round}:00Z\nformat: ASCII\n\n");
        let mut pieces = vec![head];
        pieces.extend((0..frames).map(|n| format!(" {n} {round}\n")));
        pieces.push(format!("END {frames} Disarmed\n"));
        let map = Map::default().with_stream("positions", map_positions).with_stream("trigger", map_trigger);
        let scan = site.deployment.post_mapping(&map);
        panda.play(pieces.iter().cloned());
        site.deployment.wait_for_end(&scan);
        let sent =
            [("positions", "PCAP_RAW", &texts(&pieces)[..]), ("trigger", "JSON", &texts(&triggers)[..])];
        check_scan(&site.deployment, &scan, &sent, true);
    }
}

/// An HTTP application with its own ingester, whose items are posted.
#[test]
fn an_application_is_posted_to() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let spec = IngesterSpec::site_app("site_http:app", address.port(), "posted");
    let mut deployment = Deployment::start(BINARY);
    let ingester = deployment.start_ingester(&spec);
    deployment.start_workers(&["w1", "w2"]);
    eventually("the application to listen", || TcpStream::connect(address).is_ok());
    let site = Site { deployment, spec, ingester };
    for round in 0..2 {
        let scan = site.deployment.post_mapping(&Map::of_stream("posted", 10));
        let posted: Vec<String> = (0..12).map(|number| format!("text {number} of {round}")).collect();
        for text in &posted {
            assert_eq!(http_tcp(address, "POST", "/text", &[], text).status, 200);
        }
        site.deployment.wait_for_end(&scan);
        check_scan(&site.deployment, &scan, &[("posted", "POSTED", &texts(&posted))], true);
    }
    assert!(site.ingester.terminate(), "an orderly end, with the port open");
    assert!(TcpStream::connect(address).is_err(), "the application has ended");
}

/// An application that runs no ingester is a link that is down, with the reason.
#[test]
fn an_application_without_an_ingester_is_shown() {
    let spec = IngesterSpec::site_app("site_http:idle", free_port(), "posted");
    let mut deployment = Deployment::start(BINARY);
    let ingester = deployment.start_ingester(&spec);
    let site = Site { deployment, spec, ingester };
    let tree = wait_for("the reason in the tree", || {
        Some(site.tree()).filter(|tree| tree.contains("site_http:idle has started, but runs no ingester"))
    });
    assert!(tree.contains("\"down\""), "{tree}");
}

/// An exception ends its scan with a traceback in the tree; the sources are stopped, and the next scan is
/// whole.
#[test]
fn an_exception_is_shown_and_the_next_scan_is_whole() {
    let site = Site::new("Raises", "tcp://127.0.0.1:9", &["made"]);
    let file = |name: &str| site.deployment.path().join(name);
    site.scan_made(5);
    fs::write(file("raise"), "").expect("write a file");
    let scan = site.deployment.post_mapping(&Map::of_stream("made", 10));
    let tree = wait_for("the exception in the tree", || {
        Some(site.tree()).filter(|tree| tree.contains("detector is on fire"))
    });
    assert!(tree.contains("ValueError: the ") && !tree.contains('\u{1b}'), "{tree}");
    assert!(tree.contains("site_ingesters.py:") && tree.contains("in run_source"), "{tree}");
    site.deployment.wait_for_events(&scan, 4);
    site.deployment.stop_scan();
    check_scan(&site.deployment, &scan, &[("made", "MADE", &made(3))], false);
    fs::remove_file(file("raise")).expect("it exists");
    site.deployment.wait_for_end(&scan);
    site.scan_made(8);
    let lines = |name: &str| fs::read_to_string(file(name)).unwrap_or_default().lines().count();
    eventually("the class to be told of the finished scans", || lines("finished") >= 2);
    assert_eq!(lines("stopped"), 2, "of the first and of the failed scan");
}

/// A class that cannot be created is a link that is down, with the reason; unknown classes are refused.
#[test]
fn a_class_that_cannot_be_created_is_shown() {
    let spec = IngesterSpec::site_class("site_ingesters:NotStarting", "tcp://127.0.0.1:9", &["made"]);
    let mut deployment = Deployment::start(BINARY);
    let ingester = deployment.start_ingester(&spec);
    let site = Site { deployment, spec, ingester };
    let tree = wait_for("the exception in the tree", || {
        Some(site.tree()).filter(|tree| tree.contains("no licence for this detector"))
    });
    assert!(tree.contains("RuntimeError") && tree.contains("exit status: 1"), "{tree}");
    let mut command = Command::new(BINARY);
    command.args(["as", "dranspose-ingester", "--ingesterclass", "MyIngester"]);
    command.args(["--upstream_url", "tcp://a:1", "--name", "made"]);
    let output = command.output().expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("ZmqPullSingleIngester"), "{text}");
    assert!(text.contains("module:Class"), "{text}");
}
