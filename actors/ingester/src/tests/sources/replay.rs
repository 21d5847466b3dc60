//! Replay of files.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use orchestrator_ingester_protocols::cbors::encode_event;

use super::support::{DEADLINE, bench_with_reader_child, item};
use crate::{
    item::Item,
    source::{Items, SourceError, SourceOptions},
    tests::captures::{ZMQ_CASES, compare, path},
};

fn options(file: &str, pace: Option<&str>) -> SourceOptions {
    let file = if file.starts_with('/') { file.to_owned() } else { path(file).display().to_string() };
    SourceOptions { file: Some(file), pace: pace.map(str::to_owned), ..SourceOptions::default() }
}

async fn all(items: Items) -> Result<Vec<Item>, SourceError> {
    let taken: Vec<_> = tokio::time::timeout(DEADLINE, items.collect()).await.expect("an end");
    taken.into_iter().collect()
}

#[test]
fn dumps_and_captures_are_played() {
    for case in ZMQ_CASES {
        let protocol = case.split_once('-').expect("protocol-case").0;
        let (dump, capture) =
            (options(&format!("{case}.cbors"), None), options(&format!("{case}.cbor"), None));
        bench_with_reader_child("replay", &dump, async |bench, mut source| {
            compare(case, all(source.run(bench.cx("golden"))).await.expect("a dump"));
        });
        bench_with_reader_child(protocol, &capture, async |bench, mut source| {
            // Each run starts at the beginning.
            for _run in 0..2 {
                compare(case, all(source.run(bench.cx("any"))).await.expect("a capture"));
            }
        });
        if case.ends_with("plain") {
            bench_with_reader_child("replay", &capture, async |bench, mut detected| {
                compare(case, all(detected.run(bench.cx("any"))).await.expect("a capture"));
            });
        }
    }
}

/// The reader thread turns to the next run whatever is left of the file.
#[test]
fn a_dropped_run_frees_the_thread_for_the_next() {
    bench_with_reader_child("replay", &options("stins-plain.cbors", None), async |bench, mut source| {
        for _run in 0..20 {
            let mut items = source.run(bench.cx("golden"));
            item(&mut items).await;
        }
        compare("stins-plain", all(source.run(bench.cx("golden"))).await.expect("a dump"));
    });
}

#[test]
fn files_that_cannot_be_played_say_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("a.txt");
    std::fs::write(&text, "hello").expect("room");
    let cut = folder.path().join("cut.cbors");
    let whole = std::fs::read(path("stins-plain.cbors")).expect("a golden file");
    std::fs::write(&cut, &whole[..whole.len() - 1]).expect("room");
    for (file, pace, advice) in [
        ("/nowhere.cbors", None, "give a readable file"),
        (text.to_str().expect("UTF-8"), None, "give a .cbors file"),
        (cut.to_str().expect("UTF-8"), None, "cut off"),
        ("stins-plain.cbors", None, "name the stream like one of [\"golden\"]"),
        ("pandabox-plain.cbor", None, "has no series"),
        ("stins-plain.cbor", Some("recorded"), "give a rate"),
    ] {
        bench_with_reader_child("replay", &options(file, pace), async |bench, mut source| {
            let stream = if file.contains("cut") { "golden" } else { "eiger" };
            let error = all(source.run(bench.cx(stream))).await.expect_err("no play").to_string();
            assert!(error.contains(advice) && error.contains("file = "), "{error}");
        });
    }
}

#[test]
fn a_file_keeps_its_pace() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("slow.cbors");
    let mut bytes = Vec::new();
    for (number, ms) in [0, 120, 60, 240].into_iter().enumerate() {
        let at = jiff::Timestamp::from_millisecond(1_700_000_000_000 + ms).expect("a time");
        encode_event(&mut bytes, number as u64, [("s", "STINS", &[][..])].into_iter(), at);
    }
    std::fs::write(&file, bytes).expect("room");
    let file = file.to_str().expect("UTF-8");
    for (pace, least, most) in
        [(Some("recorded"), 240, 20_000), (Some("20/s"), 150, 20_000), (None, 0, 20_000)]
    {
        bench_with_reader_child("replay", &options(file, pace), async |bench, mut source| {
            let begin = Instant::now();
            assert_eq!(all(source.run(bench.cx("s"))).await.expect("a dump").len(), 4);
            let took = begin.elapsed();
            let range = Duration::from_millis(least)..Duration::from_millis(most);
            assert!(range.contains(&took), "{pace:?}: {took:?}");
        });
    }
}
