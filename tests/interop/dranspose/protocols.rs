//! Every source protocol through workers that understand it: what comes out of dranspose's own parser of that type, numbers, texts
//! and arrays, is compared with what the source's messages were made of. `captures.py` makes them, `parsed.py` is what the
//! workers run.

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

/// A series of one protocol.
struct Capture {
    /// A CBOR array of byte strings for each message.
    file: PathBuf,
    typ: String,
    /// The messages again, where they are text.
    messages: Vec<Vec<String>>,
    /// Of each event the parts, and what dranspose's parser is to make of them.
    items: Vec<Value>,
}

impl Capture {
    fn make(case: &str, deployment: &Deployment) -> Self {
        let file = deployment.path().join(format!("{case}.cbor"));
        let told = run_program("captures.py", &[case, &file.display().to_string()]);
        let mut told: Value = serde_json::from_str(&told).expect("JSON");
        let typ = told["typ"].as_str().expect("a text").to_owned();
        let messages: Option<_> = serde_json::from_value(told["messages"].take()).expect("texts or none");
        let items = serde_json::from_value(told["items"].take()).expect("a list");
        Self { file, typ, messages: messages.unwrap_or_default(), items }
    }

    /// A map with an event for each item; the controller adds those of the first and the last. It has all kinds of routes.
    fn map(&self) -> Map {
        let between = &self.items[1..self.items.len() - 1];
        let route = |(n, item): (usize, &Value)| match n % 6 {
            // Who does not know an arm's header cannot read its lines.
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

/// An ingester, and two workers that understand what they get.
struct Line {
    deployment: Deployment,
    ingester: Ingester,
}

impl Line {
    fn new(spec: &IngesterSpec) -> Self {
        let mut deployment = Deployment::start(BINARY).with_worker_code("parsed:Parser");
        let ingester = deployment.start_ingester(spec);
        deployment.start_workers(&["w1", "w2"]);
        Self { deployment, ingester }
    }

    /// A scan for the series `case`, which `send` sends, and its judgement.
    fn scan(&self, case: &str, send: impl FnOnce(&Capture)) {
        let capture = Capture::make(case, &self.deployment);
        let scan = self.deployment.post_mapping(&capture.map());
        send(&capture);
        self.deployment.wait_for_end(&scan);
        check_scan(&self.deployment, &scan, &[(STREAM, &capture.typ, &capture.items)], true);
    }
}

/// Scans with a source that waits for whom it sends to.
fn pushed(class: &str, cases: &[&str]) {
    let mut source = Source::push();
    let line = Line::new(&IngesterSpec::class(class, &source.url(), STREAM));
    for case in cases {
        line.scan(case, |capture| drop(source.play(&capture.file)));
    }
}

/// Scans with a source that publishes: what it sends before the ingester listens is lost.
fn published(class: &str, cases: &[&str]) {
    let mut source = Source::publish();
    let line = Line::new(&IngesterSpec::class(class, &source.url(), STREAM));
    for case in cases {
        line.scan(case, |capture| {
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

/// Nine parts of a header and five of an image, each where the parser looks for it: detector, pixels, times, appendix.
#[test]
fn eiger_legacy() {
    pushed("ZmqPullEigerLegacyIngester", &["eiger_legacy", "eiger_legacy"]);
}

/// Images in one message, and in three.
#[test]
fn xspress() {
    published("ZmqSubXspressIngester", &["xspress", "xspress"]);
}

/// dranspose has no parser of this type: its model of a message reads the one part.
#[test]
fn albaem() {
    published("ZmqSubAlbaemIngester", &["albaem", "albaem"]);
}

/// Messages with several rows: each row is an event.
#[test]
fn pcap() {
    published("ZmqSubPCAPIngester", &["pcap", "pcap"]);
}

/// Pickles of all protocols with arrays in them, and a heartbeat in between that is no event.
#[test]
fn contrast() {
    published("ZmqSubContrastIngester", &["contrast", "contrast"]);
}

/// Start, traces of two channels and end of each sequence are one event; with one start for all, that one is in each.
#[test]
fn lecroy() {
    published("ZmqSubLecroyIngester", &["lecroy_sequential", "lecroy_continuous", "lecroy_sequential"]);
}

/// Two arms in one scan, with other fields each, in packets that end anywhere.
#[test]
fn pandabox() {
    let mut source = PandaBox::start();
    let line = Line::new(&IngesterSpec::class("TcpPcapIngester", &source.url(), STREAM));
    for _ in 0..2 {
        line.scan("pandabox", |capture| source.play(capture.messages.concat().into_iter()));
    }
}

/// Posts to the address that `dranspose http_ingester` would serve. The port is open from the first mapping on.
///
/// dranspose's own ingester may throw away what is posted right behind the map, and then the whole series with it.
#[test]
fn sardana() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let line = Line::new(&IngesterSpec::http("dranspose.ingesters.http_sardana:app", address.port(), STREAM));
    for round in 0..2 {
        line.scan("sardana", |capture| {
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
    assert!(line.ingester.terminate(), "an orderly end, with the port open");
}
