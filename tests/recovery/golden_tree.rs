//! The supervision tree is a promise: children, their order, strategies, limits, mailboxes and links.
//! `orchestrator check` and a live `orchestrator tree` equal the files in `tests/golden/`; a change shows in
//! review. `UPDATE_GOLDEN=1 cargo test --test recovery golden_tree` rewrites the files.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use orchestrator_harness::{DEADLINE, TestEnv};

#[test]
fn check_prints_the_tree_that_would_run() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let (code, out, err) = env.cli(&["check"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_golden("check.txt", || out.clone());
    assert_eq!(env_files(&env), ["fetchers"], "check created files");
}

#[test]
fn check_prints_catalog_trees() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let profile = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/ermrest-agent.toml");
    // One catalog with notices, and one that only polls.
    let other = env.path().join("other.toml").display().to_string();
    let text = "[[catalog]]\nname = \"no notices\"\nbase = \"http://h/ermrest/catalog/2\"\namqp = \"\"\n";
    fs::write(&other, text).expect("write a configuration");
    let (code, out, err) =
        env.cli(&["check", "--config", &profile.display().to_string(), "--config", &other]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_golden("catalog.txt", || out.clone());
}

#[test]
fn the_live_tree_matches_check() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let _instance = env.start();
    assert_golden("tree.txt", || {
        let (code, out, err) = env.cli(&["tree"]);
        assert_eq!((code, err.as_str()), (0, ""));
        without_ages(&out)
    });
    // Both list the same children in the same order.
    let names = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| line.split("  ").find(|part| is_name(part)).unwrap_or("").to_owned())
            .collect()
    };
    let (live, checked) = (golden("tree.txt"), golden("check.txt"));
    let live = fs::read_to_string(live).expect("written");
    let live = live.split_once('\n').expect("a heading").1;
    assert_eq!(names(live), names(&fs::read_to_string(checked).expect("written")));
}

fn is_name(part: &str) -> bool {
    part.contains(|c: char| c.is_ascii_alphabetic())
}

fn env_files(env: &TestEnv) -> Vec<String> {
    let files = fs::read_dir(env.path()).expect("a directory");
    files.map(|file| file.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// Removes the column AGE, which is right-aligned like the one before it.
fn without_ages(tree: &str) -> String {
    let head = tree.lines().next().expect("a heading");
    let end = |word: &str| head.find(word).expect("a column") + word.len();
    let (from, to) = (end("RESTARTS"), end("AGE"));
    let mut text = String::new();
    for line in tree.lines() {
        let left = line.chars().enumerate().filter(|(at, _)| !(from..to).contains(at)).map(|(_, c)| c);
        text.push_str(left.collect::<String>().trim_end());
        text.push('\n');
    }
    text
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Compares the result of `show` with a file, repeatedly until links are up and mailboxes are empty.
fn assert_golden(name: &str, show: impl Fn() -> String) {
    let path = golden(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let settled = orchestrator_harness::wait_for("links that are up", || {
            Some(show()).filter(|text| !text.contains("connecting"))
        });
        fs::write(&path, settled).expect("write a golden file");
    }
    let wanted = fs::read_to_string(&path).expect("a golden file; UPDATE_GOLDEN=1 writes it");
    let give_up = Instant::now() + DEADLINE / 3;
    while show() != wanted {
        if Instant::now() > give_up {
            assert_eq!(show(), wanted, "different from {}; UPDATE_GOLDEN=1 rewrites it", path.display());
        }
        std::thread::yield_now();
    }
}
