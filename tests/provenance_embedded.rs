//! Provenance without any server: the real binary with the embedded transport and the SQLite store, rows in and answers out
//! through the command line, and kill -9 in between.

use std::{fs, path::PathBuf};

use orchestrator_harness::{Instance, Site, eventually, load::Dice, load::seeds};
use serde_json::{Value, json};

const CONTENT: &str = "20329687bb9c1231a7e05afe86160343ad49b494";

fn site() -> Site {
    Site::new(env!("CARGO_BIN_EXE_orchestrator"))
}

fn spawn(site: &Site) -> Instance {
    let mut command = site.bare_command();
    command.args(["run", "--only", "provenance", "--set", "admin.listen=\"\""]);
    for (key, name) in [("provenance.sqlite.path", "provenance.db"), ("admin.unix_socket", "admin.sock")] {
        command.args(["--set".to_owned(), format!("{key}={}", site.path().join(name).display())]);
    }
    Instance::spawn(command)
}

fn start(site: &Site) -> Instance {
    let instance = spawn(site);
    eventually("the endpoint to answer", || site.cli(&["tree"]).0 == 0);
    instance
}

fn file(site: &Site, lines: impl IntoIterator<Item = Value>) -> PathBuf {
    let text: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
    let path = site.path().join("rows.jsonl");
    fs::write(&path, text).expect("a file");
    path
}

fn ask(site: &Site, arguments: &[&str]) -> Value {
    let (code, out, err) = site.cli(&[&["provenance"], arguments, &["--json"]].concat());
    assert_eq!(code, 0, "{arguments:?}: {err}");
    serde_json::from_str(&out).expect("JSON")
}

/// An identifier made of a number.
fn id(kind: u8, number: u32) -> String {
    format!("{:02x}{kind:02x}{number:036x}", number % 256)
}

#[test]
fn rows_of_a_file_are_found_again_also_after_a_restart() {
    let site = site();
    let instance = start(&site);
    let (revision, directory) = (id(2, 1), id(1, 1));
    let origin = "6ceea27924608c9ae55f8592999de10cf8e00eb7";
    // Relations come first: within a piece their ends are added before them.
    let rows = file(
        &site,
        [
            json!({"add": "content_in_directory", "src": CONTENT, "dst": directory, "path": "b.c"}),
            json!({"add": "directory_in_revision", "src": directory, "dst": revision, "path": "a"}),
            json!({"add": "content_in_revision", "src": CONTENT, "dst": revision, "path": "b.c"}),
            json!({"add": "location", "path": "b.c"}),
            json!({"add": "location", "path": "a"}),
            json!({"add": "content", "id": CONTENT, "date": "2005-03-18T01:58:31Z"}),
            json!({"add": "directory", "id": directory}),
            json!({"add": "revision", "id": revision, "date": "2005-03-18T01:58:31Z", "origin": origin}),
            json!({"add": "origin", "url": "https://a/b"}),
        ],
    );
    let imported = ask(&site, &["import", &rows.display().to_string()]);
    assert_eq!((&imported["stored"], &imported["bad"]), (&json!(9), &json!(0)), "{imported}");
    let occurrence = |path: &str| json!({"content": CONTENT, "revision": revision, "date": "2005-03-18T01:58:31Z", "origin": "https://a/b", "path": path});
    let everywhere = json!([occurrence("a/b.c"), occurrence("b.c")]);
    assert_eq!(ask(&site, &["find-all", CONTENT]), everywhere);
    instance.kill_nine();
    let instance = start(&site);
    assert_eq!(ask(&site, &["find-all", CONTENT]), everywhere);
    assert_eq!(ask(&site, &["find-all", CONTENT, "--limit", "1"]), json!([occurrence("a/b.c")]));
    assert_eq!(ask(&site, &["find-first", CONTENT]), json!([occurrence("b.c")]));
    assert_eq!(ask(&site, &["get", "origin", origin]), json!({ origin: "https://a/b" }));
    assert_eq!(ask(&site, &["get", "content", &id(0, 9)]), json!({}));
    let worker = site.node("provenance/worker/18");
    assert_eq!((&worker["label"], &worker["state"]), (&json!("directory_2"), &json!("running")));
    assert!(instance.terminate().success());
}

#[test]
fn lines_that_cannot_be_stored_are_named_and_the_others_are_stored() {
    let site = site();
    let _instance = start(&site);
    let rows = file(
        &site,
        [
            json!({"add": "location", "path": "a"}),
            json!({"add": "location", "path": "x".repeat(3_000)}),
            json!({"add": "content", "id": "2032"}),
            json!({"add": "origin", "url": "https://nul\0"}),
            json!("what"),
            json!({"add": "location", "path": "b"}),
        ],
    );
    let mut text = fs::read_to_string(&rows).expect("the file");
    text.push_str("{not json\n");
    fs::write(&rows, text).expect("the file");
    let (code, out, err) = site.cli(&["provenance", "import", &rows.display().to_string()]);
    assert_eq!(code, 5, "{err}");
    let summary: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&summary["stored"], &summary["bad"], &summary["lines"]), (&json!(2), &json!(5), &json!(7)));
    for words in ["line 2: ", "line 3: ", "40 hex digits", "line 4: ", "line 5: ", "line 7: "] {
        assert!(err.contains(words), "{words}: {err}");
    }
    assert_eq!(ask(&site, &["stats"])["location"], json!(2));
}

/// Rows that were confirmed are there after any kill, and an import that goes on where it was cut misses none.
#[test]
fn a_killed_import_goes_on_and_misses_nothing() {
    seeds("ORCHESTRATOR_PROVENANCE_KILL_ROUNDS", 2, |seed| {
        let mut dice = Dice::new(seed);
        let site = site();
        let count = 20_000;
        let contents = (0..count).map(|number| json!({"add": "content", "id": id(0, number)}));
        let rows = file(&site, contents).display().to_string();
        for _ in 0..3 {
            let instance = start(&site);
            let extra = 400 + dice.below(5_000) as u64;
            std::thread::scope(|scope| {
                let import = scope.spawn(|| site.cli(&["provenance", "import", "--resume", &rows]));
                eventually("some rows to be stored", || {
                    import.is_finished() || site.figure("provenance/writer", "written") > extra
                });
                instance.kill_nine();
                let (code, _, err) = import.join().expect("an import that ends");
                assert!([0, 1, 3].contains(&code), "{code}: {err}");
            });
            let place = fs::read_to_string(format!("{rows}.import-place")).unwrap_or_default();
            let place: Value = serde_json::from_str(&place).unwrap_or(json!({"line": 0}));
            let confirmed = place["line"].as_u64().expect("a line");
            let instance = start(&site);
            let there = ask(&site, &["stats"])["content"].as_u64().expect("a count");
            assert!(there >= confirmed, "{there} of {confirmed} rows");
            instance.kill_nine();
        }
        let instance = start(&site);
        ask(&site, &["import", "--resume", &rows]);
        assert_eq!(ask(&site, &["stats"])["content"], json!(count));
        assert!(instance.terminate().success());
    });
}
