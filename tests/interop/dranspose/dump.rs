//! Dump files: what dranspose's own reader and its replay find in them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use orchestrator_harness::{
    Redis,
    dranspose::{Facility, Map, Part, Source, Spec, run_program, series},
    eventually,
};
use serde_json::{Value, json};

use super::{BINARY, Fixture};

fn read(file: &Path) -> Vec<Value> {
    let printed = run_program("dumped.py", &[&file.display().to_string()]);
    let files: Value = serde_json::from_str(&printed).expect("JSON");
    files[0].as_array().expect("a list").clone()
}

/// The events of a series: numbers of those that have a frame, and what was sent for them.
fn events(numbers: impl IntoIterator<Item = usize>, sent: &[Value]) -> Vec<Value> {
    let one = |(number, parts): (usize, &Value)| json!({"event": number, "streams": {"eiger": {"typ": "STINS", "parts": parts}}});
    numbers.into_iter().zip(sent).map(one).collect()
}

/// The parameter `dump_prefix` names the files; all frames are in them, wanted or not.
#[test]
fn the_prefix_is_a_parameter() {
    let mut fixture = Fixture::new();
    let prefix = format!("{}/dump-", fixture.facility.path().display());
    fixture.facility.set("dump_prefix", &prefix);
    fixture.facility.agreed();
    let file = |uuid: &str| PathBuf::from(format!("{prefix}eiger-ingester-{uuid}.cbors"));
    let slots = vec![Map::one(0), Map::HOLE, Map::nobody(), Map::two(1, 2), Map::all()];
    let scan = fixture.facility.post(&Map::default().and("eiger", slots));
    let sent = fixture.source.send(&series("dumped", 4, 70_000));
    fixture.finish(&scan, &sent);
    assert_eq!(read(&file(&scan.uuid)), events([0, 1, 3, 4, 5, 6], &sent));
    // A file for each scan.
    let second = fixture.scan(3, 0);
    assert_eq!(read(&file(&second.uuid)).len(), 5);
    assert_eq!(read(&file(&scan.uuid)).len(), 6);
    // A scan without events: the file is there all the same.
    let idle = fixture.facility.post(&Map::each("eiger", 3));
    fixture.facility.stop_scan();
    fixture.facility.finished(&idle);
    assert_eq!(fs::metadata(file(&idle.uuid)).expect("an empty file").len(), 0);
    fixture.facility.set("dump_prefix", "");
    fixture.facility.agreed();
    let silent = fixture.scan(3, 10);
    assert!(!file(&silent.uuid).exists(), "no prefix, no file");
}

/// A prefix that is set just before the map counts for that map. dranspose's own ingester opens the file before it reads the
/// parameters of the same update, so that it may miss it.
#[test]
fn a_prefix_just_before_the_map() {
    let mut fixture = Fixture::new();
    for round in 0..3 {
        let prefix = format!("{}/round-{round}-", fixture.facility.path().display());
        fixture.facility.set("dump_prefix", &prefix);
        let scan = fixture.scan(3, 10);
        assert_eq!(read(&PathBuf::from(format!("{prefix}eiger-ingester-{}.cbors", scan.uuid))).len(), 5);
    }
}

/// `DUMP_PATH` is one file for all scans, and dranspose can replay it.
#[test]
fn one_file_for_all_scans_and_its_replay() {
    let mut source = Source::push();
    let mut facility = Facility::with(Redis::start(), BINARY);
    let file = facility.path().join("all.cbors");
    let spec = Spec::stins(&source.url(), "eiger").with("DUMP_PATH", &file.display().to_string());
    let ingester = facility.ingester(&spec);
    facility.workers(&["w1", "w2"]);
    let mut wanted = Vec::new();
    for frames in [3, 5] {
        let scan = facility.post(&Map::each("eiger", frames));
        let sent = source.send(&series("replayed", frames, 1000));
        facility.finished(&scan);
        wanted.extend(events(0..frames + 2, &sent));
    }
    assert!(ingester.terminate());
    assert_eq!(read(&file), wanted);
    let (name, log) = (file.display().to_string(), facility.path().join("replay.log"));
    let program = [
        "dranspose",
        "replay",
        "-w",
        "recorder:Recorder",
        "-r",
        "recorder:Counter",
        "--nworkers",
        "1",
        "-f",
        &name,
    ];
    let directory = facility.path().display().to_string();
    let mut replay = Part::start(&program, &[("RECORDER_DIR", &directory)], &facility.programs(), &log);
    eventually("the end of the replay", || replay.ended().is_some());
    assert_eq!(replay.ended(), Some(0), "{}", replay.log());
    let noted = fs::read_to_string(facility.path().join("replay-worker-0.jsonl"))
        .unwrap_or_else(|_| panic!("{}", replay.log()));
    let noted: Vec<Value> = noted.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(noted.len(), wanted.len(), "{}", replay.log());
    for (noted, wanted) in noted.iter().zip(&wanted) {
        assert_eq!((&noted["event"], &noted["streams"]), (&wanted["event"], &wanted["streams"]));
    }
}
