//! Provenance with the embedded transport and the SQLite store: imports and queries over kills.

mod files;

use std::fs;

use orchestrator_harness::{
    Database, Postgres, ProvenanceEnv, eventually, load::SeededRng, load::for_each_seed, sha1_of,
};
use serde_json::{Value, json};

const CONTENT: &str = "20329687bb9c1231a7e05afe86160343ad49b494";

fn env() -> ProvenanceEnv {
    ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

#[test]
fn imported_rows_survive_a_kill() {
    let env = env();
    let instance = env.start();
    let (revision, directory) = (sha1_of(2, 1), sha1_of(1, 1));
    let origin = "6ceea27924608c9ae55f8592999de10cf8e00eb7";
    // Relations come first on purpose: within a batch their nodes are added before them.
    let rows = env.file([
        json!({"add": "content_in_directory", "src": CONTENT, "dst": directory, "path": "b.c"}),
        json!({"add": "directory_in_revision", "src": directory, "dst": revision, "path": "a"}),
        json!({"add": "content_in_revision", "src": CONTENT, "dst": revision, "path": "b.c"}),
        json!({"add": "location", "path": "b.c"}),
        json!({"add": "location", "path": "a"}),
        json!({"add": "content", "id": CONTENT, "date": "2005-03-18T01:58:31Z"}),
        json!({"add": "directory", "id": directory}),
        json!({"add": "revision", "id": revision, "date": "2005-03-18T01:58:31Z", "origin": origin}),
        json!({"add": "origin", "url": "https://a/b"}),
    ]);
    let imported = env.ask(&["import", &rows]);
    assert_eq!((&imported["stored"], &imported["bad"]), (&json!(9), &json!(0)), "{imported}");
    let occurrence = |path: &str| json!({"content": CONTENT, "revision": revision, "date": "2005-03-18T01:58:31Z", "origin": "https://a/b", "path": path});
    let everywhere = json!([occurrence("a/b.c"), occurrence("b.c")]);
    assert_eq!(env.ask(&["find-all", CONTENT]), everywhere);
    instance.kill_nine();
    let instance = env.start();
    assert_eq!(env.ask(&["find-all", CONTENT]), everywhere);
    assert_eq!(env.ask(&["find-all", CONTENT, "--limit", "1"]), json!([occurrence("a/b.c")]));
    assert_eq!(env.ask(&["find-first", CONTENT]), json!([occurrence("b.c")]));
    assert_eq!(env.ask(&["get", "origin", origin]), json!({ origin: "https://a/b" }));
    assert_eq!(env.ask(&["get", "content", &sha1_of(0, 9)]), json!({}));
    let worker = env.base().node("provenance/range_worker/18");
    assert_eq!((&worker["label"], &worker["state"]), (&json!("directory_2"), &json!("running")));
    assert!(instance.terminate().success());
}

#[test]
fn bad_lines_are_named_and_the_others_are_stored() {
    let env = env();
    let _instance = env.start();
    let rows = env.file([
        json!({"add": "location", "path": "a"}),
        json!({"add": "location", "path": "x".repeat(3_000)}),
        json!({"add": "content", "id": "2032"}),
        json!({"add": "origin", "url": "https://nul\0"}),
        json!("what"),
        json!({"add": "location", "path": "b"}),
    ]);
    let mut text = fs::read_to_string(&rows).expect("the file");
    text.push_str("{not json\n");
    fs::write(&rows, text).expect("the file");
    let (code, out, err) = env.base().cli(&["provenance", "import", &rows]);
    assert_eq!(code, 5, "{err}");
    let summary: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&summary["stored"], &summary["bad"], &summary["lines"]), (&json!(2), &json!(5), &json!(7)));
    for words in ["line 2: ", "line 3: ", "40 hex digits", "line 4: ", "line 5: ", "line 7: "] {
        assert!(err.contains(words), "{words}: {err}");
    }
    assert_eq!(env.count("location"), 2);
}

/// Three lines of this length exceed the largest request, two do not.
#[test]
fn long_lines_are_split_over_requests() {
    let env = env();
    let _instance = env.start();
    let path = "p".repeat(22_000);
    let row = |number| json!({"add": "content_in_revision", "src": sha1_of(0, number), "dst": sha1_of(2, 1), "path": path});
    let imported = env.ask(&["import", &env.file((0..7).map(row))]);
    assert_eq!((&imported["stored"], &imported["lines"]), (&json!(7), &json!(7)), "{imported}");
}

/// Text of an untrusted file is escaped in error messages.
#[test]
fn control_characters_are_escaped_in_import_errors() {
    let env = env();
    let _instance = env.start();
    let odd = "\u{1b}[2J\u{202e}\u{9b}31m\u{7f}";
    let path = env.base().path().join(format!("rows{odd}.jsonl"));
    let unknown = json!({"add": format!("content{odd}"), (odd): 1, "id": odd});
    fs::write(
        &path,
        format!("{unknown}\n{odd}\n{{\"add\": \"content\", \"id\": \"{}\"}}\n", "x".repeat(9_000)),
    )
    .expect("write a file");
    let (code, out, err) = env.base().cli(&["provenance", "import", &path.display().to_string()]);
    assert_eq!(code, 5, "{err}");
    assert!(err.contains("line 1: ") && err.contains("line 2: ") && err.contains("\\u{1b}[2J"), "{err:?}");
    let obeyed = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(!(out + &err).contains(obeyed) && err.len() < 6_000, "{err:?}");
}

/// PostgreSQL's index refuses an incompressible path that is within the length limit.
#[test]
fn a_refused_row_is_named_and_kept_as_a_dead_letter() {
    let dsn = Postgres::shared().create_database("embedded");
    let env = env().set("provenance.writer.kind=postgres").set(&format!("provenance.postgres.dsn={dsn}"));
    assert_eq!(env.base().cli(&["provenance", "init", "--dsn", &dsn]).0, 0);
    let instance = env.start();
    let mut rng = SeededRng::new(7);
    let odd: String = (0..2_704).map(|_| format!("{:02x}", rng.below(256))).collect();
    let lines = [
        json!({"add": "location", "path": "a"}),
        json!({"add": "location", "path_hex": odd}),
        json!({"add": "location", "path": "b"}),
    ];
    let rows = env.file(lines.clone());
    for times in [1, 2] {
        let (code, out, err) = env.base().cli(&["provenance", "import", &rows, "--json"]);
        assert!(code == 5 && err.contains("line 2: "), "{code} {out}{err}");
        let kept = env.ask(&["dead-letters"]);
        assert_eq!((kept.as_array().map(Vec::len), &kept[0]["times"]), (Some(1), &json!(times)), "{kept}");
        assert_eq!(kept[0]["line"], lines[1]);
        assert!(kept[0]["reason"].as_str().is_some_and(|reason| reason.contains("index")), "{kept}");
    }
    assert_eq!(
        (env.count("location"), env.base().metric("provenance/dead_letters", "dead_lettered")),
        (2, 2)
    );
    instance.kill_nine();
    let instance = env.start();
    assert_eq!(env.ask(&["dead-letters", "--limit", "5"])[0]["line"], lines[1]);
    assert!(instance.terminate().success());
}

/// The instance is killed before its first answer: a lock of another process delays the store.
#[test]
fn an_import_that_waits_continues_after_a_kill() {
    let env = env();
    let count = 20_000;
    let rows = env.file((0..count).map(|number| json!({"add": "content", "id": sha1_of(0, number)})));
    let instance = env.start();
    assert_eq!(env.count("content"), 0);
    let lock = Database::open(&env.base().path().join("provenance.db"));
    lock.execute("BEGIN IMMEDIATE");
    let again = std::thread::scope(|scope| {
        let import =
            scope.spawn(|| env.base().cli(&["provenance", "import", &rows, "--wait-min-secs", "60"]));
        eventually("the first rows to arrive", || {
            let client = env.base().node("provenance/rmq_client");
            let kinds = client["mailboxes"][0]["messages"].as_array().cloned().unwrap_or_default();
            kinds.iter().any(|kind| kind["name"] == "Add")
        });
        instance.kill_nine();
        lock.execute("ROLLBACK");
        let again = env.start();
        let (code, _, err) = import.join().expect("an import that ends");
        assert_eq!(code, 0, "{err}");
        again
    });
    assert_eq!(env.count("content"), u64::from(count));
    assert!(again.terminate().success());
}

/// Confirmed rows survive every kill, and a resumed import skips no row.
#[test]
fn a_resumed_import_stores_every_row() {
    for_each_seed("ORCHESTRATOR_PROVENANCE_KILL_ROUNDS", 1, |seed| {
        let mut rng = SeededRng::new(seed);
        let env = env();
        let count = 20_000;
        let contents = (0..count).map(|number| json!({"add": "content", "id": sha1_of(0, number)}));
        let rows = env.file(contents);
        for _ in 0..3 {
            let instance = env.start();
            let extra = 400 + rng.below(5_000) as u64;
            std::thread::scope(|scope| {
                let import = scope.spawn(|| env.base().cli(&["provenance", "import", "--resume", &rows]));
                eventually("some rows to be stored", || {
                    import.is_finished() || env.base().metric("provenance/writer", "written") > extra
                });
                instance.kill_nine();
                let (code, _, err) = import.join().expect("an import that ends");
                assert!([0, 3, 6].contains(&code), "{code}: {err}");
            });
            let confirmed = env.confirmed(&rows);
            let instance = env.start();
            let there = env.count("content");
            assert!(there >= confirmed, "{there} of {confirmed} rows");
            instance.kill_nine();
        }
        let instance = env.start();
        env.ask(&["import", "--resume", &rows]);
        assert_eq!(env.count("content"), u64::from(count));
        assert!(instance.terminate().success());
    });
}
