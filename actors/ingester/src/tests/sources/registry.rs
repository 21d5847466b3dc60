//! Names in the registry, and errors about options that do not fit.

use crate::{
    IngesterConfig, OnGap, StreamConfig,
    source::{Registry, SourceOptions},
};

use super::support::make;

#[test]
fn all_protocols_have_both_names() {
    let registry = Registry::standard();
    let names: Vec<&str> = registry.names().collect();
    let mut expected = [
        "ZmqPullSingleIngester",
        "ZmqPullEigerLegacyIngester",
        "StinsParallelIngester",
        "Stream1ParallelIngester",
        "stins_parallel",
        "eiger_legacy_parallel",
        "ZmqSubXspressIngester",
        "ZmqSubAlbaemIngester",
        "ZmqSubPCAPIngester",
        "ZmqSubContrastIngester",
        "ZmqSubLecroyIngester",
        "TcpPcapIngester",
        "HttpSardanaIngester",
        "stins",
        "eiger_legacy",
        "eiger_v2",
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
fn invalid_options_name_the_key_and_the_remedy() {
    let some = |text: &str| Some(text.to_owned());
    let none = SourceOptions::default;
    for (name, options, text) in [
        ("stins", none(), "upstream_url is missing"),
        ("stins", SourceOptions { upstream_url: some("detector"), ..none() }, "write tcp://host:port"),
        ("stins", SourceOptions { upstream_url: some("tcp://a:1"), file: some("/x"), ..none() }, "not both"),
        (
            "stins",
            SourceOptions { upstream_url: some("tcp://a:1"), listen: some("0.0.0.0:1"), ..none() },
            "listen = 0.0.0.0:1",
        ),
        (
            "stins",
            SourceOptions { upstream_url: some("tcp://a:1"), pace: some("recorded"), ..none() },
            "only a `file` has a pace",
        ),
        (
            "stins",
            SourceOptions { file: some("/x"), pace: some("fast"), ..none() },
            "write full, recorded, or a rate",
        ),
        ("stins_parallel", SourceOptions { file: some("/x"), ..none() }, "use the source stins"),
        ("replay", none(), "file is missing"),
        (
            "replay",
            SourceOptions { file: some("/x"), pace: some("0/s"), ..none() },
            "write full, recorded, or a rate",
        ),
        ("replay", SourceOptions { upstream_url: some("tcp://a:1"), ..none() }, "give `file`"),
        ("pandabox", none(), "upstream_url is missing"),
        ("TcpPcapIngester", SourceOptions { file: some("/x"), ..none() }, "give `upstream_url`"),
        ("sardana", none(), "listen is missing"),
        ("sardana", SourceOptions { listen: some("8000"), ..none() }, "write an IP address and a port"),
        ("HttpSardanaIngester", SourceOptions { upstream_url: some("tcp://a:1"), ..none() }, "give `listen`"),
    ] {
        let error = make(name, &options).map(|_| ()).expect_err("it does not fit").to_string();
        assert!(error.contains(text), "{name}: {error}");
    }
}

#[test]
fn a_source_that_numbers_events_is_the_only_stream() {
    let stream = |name: &str, source: &str| StreamConfig {
        name: name.to_owned(),
        source: source.to_owned(),
        upstream_url: Some("tcp://detector:9999".to_owned()),
        ..StreamConfig::default()
    };
    let check = |stream: Vec<StreamConfig>, on_gap| {
        let config = IngesterConfig { name: "one".to_owned(), on_gap, stream, ..IngesterConfig::default() };
        IngesterConfig::check(&[config], &Registry::standard())
    };
    let shared = stream("eiger", "StinsParallelIngester");
    assert_eq!(check(vec![shared.clone()], OnGap::Count), [""; 0]);
    let both = check(vec![stream("pcap", "stins"), shared.clone()], OnGap::Count);
    let aligned = check(vec![shared], OnGap::Align);
    for (found, key, advice) in
        [(both, "stream.1.source", "their own ingester"), (aligned, "stream.0.source", "set on_gap to count")]
    {
        assert!(found.len() == 1 && found[0].contains(key) && found[0].contains(advice), "{found:?}");
    }
}
