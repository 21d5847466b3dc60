//! Dump files, read and replayed by dranspose itself.

use std::{
    fs,
    path::{Path, PathBuf},
};

use orchestrator_harness::{
    Redis,
    dranspose::{
        Deployment, DransposeProcess, IngesterSpec, Map, Source, run_program, run_with_cbor2, series,
    },
    eventually,
};
use serde_json::{Value, json};

use super::{BINARY, Fixture};

/// Events of a file, of which dranspose and the newest cbor2 read the same.
fn read(file: &Path) -> Vec<Value> {
    let file = file.display().to_string();
    let [first, second] = [run_program, run_with_cbor2].map(|run| run("dumped.py", &[&file]));
    assert_eq!(first, second);
    let files: Value = serde_json::from_str(&first).expect("JSON");
    files[0].as_array().expect("a list").clone()
}

/// Expected events: the numbers of those with a frame, and the parts that were sent.
fn events(numbers: impl IntoIterator<Item = usize>, sent: &[Value]) -> Vec<Value> {
    let one = |(number, parts): (usize, &Value)| json!({"event": number, "streams": {"eiger": {"typ": "STINS", "parts": parts}}});
    numbers.into_iter().zip(sent).map(one).collect()
}

/// The parameter `dump_prefix` names the files, which have all frames, assigned or not.
#[test]
fn the_dump_prefix_parameter_names_the_files() {
    let mut fixture = Fixture::new();
    let prefix = format!("{}/dump-", fixture.deployment.path().display());
    fixture.deployment.set_parameter("dump_prefix", &prefix);
    fixture.deployment.wait_for_parameters();
    let file = |uuid: &str| PathBuf::from(format!("{prefix}eiger-ingester-{uuid}.cbors"));
    let slots =
        vec![Map::any_worker(0), Map::NO_FRAME, Map::no_worker(), Map::two_workers(1, 2), Map::all_workers()];
    let scan = fixture.deployment.post_mapping(&Map::default().with_stream("eiger", slots));
    let sent = fixture.source.send(&series("dumped", 4, 70_000));
    fixture.finish(&scan, &sent);
    assert_eq!(read(&file(&scan.uuid)), events([0, 1, 3, 4, 5, 6], &sent));
    // A file for each scan.
    let second = fixture.scan(3, 0);
    assert_eq!(read(&file(&second.uuid)).len(), 5);
    assert_eq!(read(&file(&scan.uuid)).len(), 6);
    // A scan without events creates an empty file.
    let idle = fixture.deployment.post_mapping(&Map::of_stream("eiger", 3));
    fixture.deployment.stop_scan();
    fixture.deployment.wait_for_end(&idle);
    assert_eq!(fs::metadata(file(&idle.uuid)).expect("an empty file").len(), 0);
    fixture.deployment.set_parameter("dump_prefix", "");
    fixture.deployment.wait_for_parameters();
    let silent = fixture.scan(3, 10);
    assert!(!file(&silent.uuid).exists(), "no prefix, no file");
}

/// A prefix that is set just before a mapping applies to it.
///
/// dranspose's own ingester may miss it, because it opens the file before it reads the parameters of the
/// update.
#[test]
fn a_dump_prefix_set_before_the_mapping_applies_to_it() {
    let mut fixture = Fixture::new();
    for round in 0..3 {
        let prefix = format!("{}/round-{round}-", fixture.deployment.path().display());
        fixture.deployment.set_parameter("dump_prefix", &prefix);
        let scan = fixture.scan(3, 10);
        assert_eq!(read(&PathBuf::from(format!("{prefix}eiger-ingester-{}.cbors", scan.uuid))).len(), 5);
    }
}

/// `DUMP_PATH` is one file for all scans, and dranspose can replay it.
#[test]
fn dump_path_collects_all_scans_and_can_be_replayed() {
    let mut source = Source::push();
    let mut deployment = Deployment::start_with(Redis::start(), BINARY);
    let file = deployment.path().join("all.cbors");
    let spec = IngesterSpec::stins(&source.url(), "eiger").with("DUMP_PATH", &file.display().to_string());
    let ingester = deployment.start_ingester(&spec);
    deployment.start_workers(&["w1", "w2"]);
    let mut wanted = Vec::new();
    for frames in [3, 5] {
        let scan = deployment.post_mapping(&Map::of_stream("eiger", frames));
        let sent = source.send(&series("replayed", frames, 1000));
        deployment.wait_for_end(&scan);
        wanted.extend(events(0..frames + 2, &sent));
    }
    assert!(ingester.terminate());
    assert_eq!(read(&file), wanted);
    let (name, log) = (file.display().to_string(), deployment.path().join("replay.log"));
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
    let directory = deployment.path().display().to_string();
    let mut replay =
        DransposeProcess::start(&program, &[("RECORDER_DIR", &directory)], &deployment.programs(), &log);
    eventually("the end of the replay", || replay.ended().is_some());
    assert_eq!(replay.ended(), Some(0), "{}", replay.log());
    let noted = fs::read_to_string(deployment.path().join("replay-worker-0.jsonl"))
        .unwrap_or_else(|_| panic!("{}", replay.log()));
    let noted: Vec<Value> = noted.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(noted.len(), wanted.len(), "{}", replay.log());
    for (noted, wanted) in noted.iter().zip(&wanted) {
        assert_eq!((&noted["event"], &noted["streams"]), (&wanted["event"], &wanted["streams"]));
    }
}
