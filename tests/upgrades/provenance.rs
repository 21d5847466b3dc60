//! Stores of provenance: a client imports rows while the programs change.

use std::{path::Path, time::Instant};

use orchestrator_harness::{
    Instance, MongoDb, Postgres, ProvenanceEnv, eventually, former_program, load::SeededRng, sha1_of,
};
use serde_json::json;

use crate::{
    RELEASE,
    importer::{CONTENTS, Importer, rows},
    installed::{Installed, Stop, assert_no_pause},
    today,
};

/// Contents whose occurrences are read in the end.
const SAMPLE: u32 = 20;
/// Files that each program imports at least.
const FILES: u32 = 2;

/// Replaces the programs during imports. `meanwhile` is called with each of them, and then the rows are
/// counted.
pub(crate) fn there_and_back(
    env: &ProvenanceEnv,
    program: &Installed,
    stop: Stop,
    mut meanwhile: impl FnMut(&ProvenanceEnv),
) {
    let former = former_program(RELEASE);
    let start = |next: &Path| -> Instance {
        let started = Instant::now();
        let instance = env.start();
        assert_no_pause(next, started);
        instance
    };
    let mut instance = start(&former);
    let importer = Importer::start(env.base());
    importer.await_files(FILES);
    meanwhile(env);
    for next in [today(), &former, today()] {
        stop.end(instance, env.base());
        program.replace(next);
        instance = start(next);
        importer.await_files(FILES);
        meanwhile(env);
    }
    let files = importer.finish();
    assert_has_rows(env, files);
    Stop::Signal.end(instance, env.base());
}

/// Checks that the rows of the first `files` files are stored, each once.
fn assert_has_rows(env: &ProvenanceEnv, files: u32) {
    for table in ["content", "revision"] {
        assert_eq!(env.count(table), u64::from(files * CONTENTS), "rows of {table}");
    }
    let all: Vec<_> = (0..files).flat_map(rows).filter(|row| row["add"] == "content_in_revision").collect();
    for row in all.iter().rev().step_by((all.len() / SAMPLE as usize).max(1)) {
        let found = env.ask(&["find-all", row["src"].as_str().expect("an id")]);
        let wanted = json!([{
            "content": row["src"], "revision": row["dst"], "path": row["path"],
            "date": "2005-03-18T01:58:31Z", "origin": null,
        }]);
        assert_eq!(found, wanted, "occurrences");
    }
}

fn sqlite(stop: Stop) {
    let program = Installed::new(&former_program(RELEASE));
    there_and_back(&ProvenanceEnv::new(program.path()), &program, stop, |_| ());
}

#[test]
fn stops_between_0_2_0_and_today_lose_no_row_in_a_file() {
    sqlite(Stop::Signal);
}

#[test]
fn kills_between_0_2_0_and_today_lose_no_row_in_a_file() {
    sqlite(Stop::Kill);
}

/// Each program refuses the same row, which is one dead letter.
#[test]
fn kills_between_0_2_0_and_today_lose_no_row_and_no_dead_letter_with_postgresql() {
    let program = Installed::new(&former_program(RELEASE));
    let dsn = Postgres::shared().create_database("there_and_back");
    let env = ProvenanceEnv::new(program.path())
        .set("provenance.writer.kind=postgres")
        .set(&format!("provenance.postgres.dsn={dsn}"));
    assert_eq!(env.base().cli(&["provenance", "init", "--dsn", &dsn]).0, 0);
    let mut rng = SeededRng::new(7);
    // The index refuses a path that it cannot compress.
    let odd: String = (0..2_704).map(|_| format!("{:02x}", rng.below(256))).collect();
    let mut times = 0;
    there_and_back(&env, &program, Stop::Kill, |env| {
        let refused = env.file([json!({"add": "location", "path_hex": odd})]);
        let (code, out, err) = env.base().cli(&["provenance", "import", &refused]);
        assert!(code == 5 && err.contains("line 1: "), "{code} {out}{err}");
        times += 1;
        let kept = env.ask(&["dead-letters"]);
        assert_eq!((kept.as_array().map(Vec::len), &kept[0]["times"]), (Some(1), &json!(times)), "{kept}");
    });
    assert_eq!(times, 4);
}

#[test]
fn stops_between_0_2_0_and_today_lose_no_row_with_mongodb() {
    let program = Installed::new(&former_program(RELEASE));
    let server = MongoDb::start();
    let env = ProvenanceEnv::new(program.path())
        .set("provenance.writer.kind=mongodb")
        .set(&format!("provenance.mongodb.uri={}", server.uri()));
    there_and_back(&env, &program, Stop::Signal, |env| {
        let id = sha1_of(0, 0);
        eventually("a row of the first file", || env.ask(&["get", "content", &id])[&id].is_string());
    });
}
