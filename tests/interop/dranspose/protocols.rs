//! Every source protocol through workers with dranspose's own parsers. The parsed numbers, texts and arrays
//! are compared with the values that the messages were made from. `captures.py` creates the messages, workers
//! run `parsed.py`.

use std::{
    net::{SocketAddr, TcpStream},
    path::PathBuf,
};

use orchestrator_harness::{
    dranspose::{Deployment, Ingester, IngesterSpec, Map, Source, check_scan, run_program},
    eventually, free_port, http_tcp,
};
use serde_json::Value;

use super::{BINARY, pandabox::PandaBox};

const STREAM: &str = "detector";

/// Messages of one protocol.
struct Capture {
    /// File with a CBOR array of byte strings for each message.
    file: PathBuf,
    typ: String,
    /// The messages, if they are text.
    messages: Vec<Vec<String>>,
    /// Parts and expected parsed values of each event.
    items: Vec<Value>,
}

impl Capture {
    fn make(case: &str, deployment: &Deployment) -> Self {
        let file = deployment.path().join(format!("{case}.cbor"));
        let output = run_program("captures.py", &[case, &file.display().to_string()]);
        let mut output: Value = serde_json::from_str(&output).expect("JSON");
        let typ = output["typ"].as_str().expect("a text").to_owned();
        let messages: Option<_> = serde_json::from_value(output["messages"].take()).expect("texts or none");
        let items = serde_json::from_value(output["items"].take()).expect("a list");
        Self { file, typ, messages: messages.unwrap_or_default(), items }
    }

    /// Mapping with an event for each item, with all kinds of routes. The controller adds the first and the
    /// last event.
    fn map(&self) -> Map {
        let between = &self.items[1..self.items.len() - 1];
        let route = |(n, item): (usize, &Value)| match n % 6 {
            // Workers need an arm's header to parse its lines.
            _ if item["parsed"]["is"] == "PositionCapStart" => vec![Map::all_workers()],
            2 => vec![Map::two_workers(n, n + 1)],
            3 => vec![Map::NO_FRAME, Map::any_worker(n)],
            4 => vec![Map::all_workers()],
            5 => vec![Map::no_worker()],
            _ => vec![Map::any_worker(n)],
        };
        Map::default().with_stream(STREAM, between.iter().enumerate().flat_map(route).collect())
    }
}

/// Deployment with an ingester and two parsing workers.
struct Scans {
    deployment: Deployment,
    ingester: Ingester,
}

impl Scans {
    fn new(spec: &IngesterSpec) -> Self {
        let mut deployment = Deployment::start(BINARY).with_worker_code("parsed:Parser");
        let ingester = deployment.start_ingester(spec);
        deployment.start_workers(&["w1", "w2"]);
        Self { deployment, ingester }
    }

    /// Runs and checks a scan of the series `case`, which `send` sends.
    fn run(&self, case: &str, send: impl FnOnce(&Capture)) {
        let capture = Capture::make(case, &self.deployment);
        let scan = self.deployment.post_mapping(&capture.map());
        send(&capture);
        self.deployment.wait_for_end(&scan);
        check_scan(&self.deployment, &scan, &[(STREAM, &capture.typ, &capture.items)], true);
    }
}

/// Runs scans with a PUSH source.
fn pushed(class: &str, cases: &[&str]) {
    let mut source = Source::push();
    let scans = Scans::new(&IngesterSpec::class(class, &source.url(), STREAM));
    for case in cases {
        scans.run(case, |capture| drop(source.play(&capture.file)));
    }
}

/// Runs scans with a PUB source, whose messages are lost before the ingester subscribes.
fn published(class: &str, cases: &[&str]) {
    let mut source = Source::publish();
    let scans = Scans::new(&IngesterSpec::class(class, &source.url(), STREAM));
    for case in cases {
        scans.run(case, |capture| {
            source.await_subscriptions(1);
            source.play(&capture.file);
        });
    }
}

/// The controller does not wait for the publisher, and the ingester subscribes once it is there.
#[test]
fn a_publisher_that_binds_after_the_mapping() {
    let port = free_port();
    let url = format!("tcp://127.0.0.1:{port}");
    let scans = Scans::new(&IngesterSpec::class("ZmqSubXspressIngester", &url, STREAM));
    for _ in 0..2 {
        let mut source = None;
        scans.run("xspress", |capture| {
            let source = source.insert(Source::publish_at(port));
            source.await_subscriptions(1);
            source.play(&capture.file);
        });
    }
}

/// A header with a second part, and images.
#[test]
fn stins() {
    pushed("ZmqPullSingleIngester", &["stins", "stins"]);
}

/// Headers of nine parts and images of five parts: detector, pixels, times, appendix.
#[test]
fn eiger_legacy() {
    pushed("ZmqPullEigerLegacyIngester", &["eiger_legacy", "eiger_legacy"]);
}

/// Maps of CBOR with a tag, of definite and indefinite length, and arrays of two channels, one of them
/// compressed.
///
/// dranspose has neither such an ingester nor such a parser.
#[test]
fn eiger_v2() {
    pushed("eiger_v2", &["eiger_v2", "eiger_v2"]);
}

/// Images in one message, and in three.
#[test]
fn xspress() {
    published("ZmqSubXspressIngester", &["xspress", "xspress"]);
}

/// dranspose has no parser of this type, so its message model is used.
#[test]
fn albaem() {
    published("ZmqSubAlbaemIngester", &["albaem", "albaem"]);
}

/// Messages with several rows: each row is an event.
#[test]
fn pcap() {
    published("ZmqSubPCAPIngester", &["pcap", "pcap"]);
}

/// Pickles of all protocol versions with arrays. Heartbeats are no events.
#[test]
fn contrast() {
    published("ZmqSubContrastIngester", &["contrast", "contrast"]);
}

/// Start, traces of two channels and end of a sequence are one event. A common start is part of each event.
#[test]
fn lecroy() {
    published("ZmqSubLecroyIngester", &["lecroy_sequential", "lecroy_continuous", "lecroy_sequential"]);
}

/// Two arms with different fields in one scan, in packets of arbitrary boundaries.
#[test]
fn pandabox() {
    let mut source = PandaBox::start();
    let scans = Scans::new(&IngesterSpec::class("TcpPcapIngester", &source.url(), STREAM));
    for _ in 0..2 {
        scans.run("pandabox", |capture| source.play(capture.messages.concat().into_iter()));
    }
}

/// Posts to the port of `dranspose http_ingester`, which is open from the first mapping on.
///
/// dranspose's own ingester may drop posts right after the mapping, and then the whole series.
#[test]
fn sardana() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let scans =
        Scans::new(&IngesterSpec::http("dranspose.ingesters.http_sardana:app", address.port(), STREAM));
    for round in 0..2 {
        scans.run("sardana", |capture| {
            if round == 0 {
                eventually("the ingester to listen", || TcpStream::connect(address).is_ok());
            }
            for post in &capture.messages {
                let reply =
                    http_tcp(address, "POST", &post[0], &["Content-Type: application/json"], &post[1]);
                assert_eq!((reply.status, reply.body.as_str()), (200, "null"), "{post:?}");
            }
        });
    }
    assert!(scans.ingester.terminate(), "an orderly end, with the port open");
}
