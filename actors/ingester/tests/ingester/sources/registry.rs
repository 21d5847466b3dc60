//! What is in the registry, and what it says of places that do not fit.

use orchestrator_ingester::source::{Place, Registry};

use super::support::make;

#[test]
fn all_protocols_have_both_names() {
    let registry = Registry::standard();
    let names: Vec<&str> = registry.names().collect();
    let mut expected = [
        "ZmqPullSingleIngester",
        "ZmqPullEigerLegacyIngester",
        "ZmqSubXspressIngester",
        "ZmqSubAlbaemIngester",
        "ZmqSubPCAPIngester",
        "ZmqSubContrastIngester",
        "ZmqSubLecroyIngester",
        "TcpPcapIngester",
        "HttpSardanaIngester",
        "stins",
        "eiger_legacy",
        "xspress",
        "albaem",
        "pcap",
        "contrast",
        "lecroy",
        "pandabox",
        "sardana",
        "replay",
    ];
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn a_place_that_does_not_fit_says_what_is_missing() {
    let some = |text: &str| Some(text.to_owned());
    let none = Place::default;
    for (name, place, text) in [
        ("stins", none(), "upstream_url is missing"),
        ("stins", Place { upstream_url: some("detector"), ..none() }, "write tcp://host:port"),
        ("stins", Place { upstream_url: some("tcp://a:1"), file: some("/x"), ..none() }, "not both"),
        (
            "stins",
            Place { upstream_url: some("tcp://a:1"), listen: some("0.0.0.0:1"), ..none() },
            "listen = 0.0.0.0:1",
        ),
        (
            "stins",
            Place { upstream_url: some("tcp://a:1"), pace: some("recorded"), ..none() },
            "only a `file` has a pace",
        ),
        ("stins", Place { file: some("/x"), pace: some("fast"), ..none() }, "write recorded, or a rate"),
        ("replay", none(), "file is missing"),
        ("replay", Place { file: some("/x"), pace: some("0/s"), ..none() }, "write recorded, or a rate"),
        ("replay", Place { upstream_url: some("tcp://a:1"), ..none() }, "give `file`"),
        ("pandabox", none(), "upstream_url is missing"),
        ("TcpPcapIngester", Place { file: some("/x"), ..none() }, "give `upstream_url`"),
        ("sardana", none(), "listen is missing"),
        ("sardana", Place { listen: some("8000"), ..none() }, "write an IP address and a port"),
        ("HttpSardanaIngester", Place { upstream_url: some("tcp://a:1"), ..none() }, "give `listen`"),
    ] {
        let error = make(name, &place).map(|_| ()).expect_err("it does not fit").to_string();
        assert!(error.contains(text), "{name}: {error}");
    }
}
