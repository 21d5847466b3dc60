//! Changes of the next release: each file of `deploy/changelog/` says who notices it and what to do.

use std::{fs, path::PathBuf};

fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns what is wrong with a change: its heading is one of the changelog, and an entry, "Impact" and
/// "Migration" follow.
fn faults(change: &str) -> Vec<&'static str> {
    let changelog = file("CHANGELOG.md");
    let heading = change.lines().next().unwrap_or_default();
    let has =
        |start: &str| change.lines().any(|line| line.strip_prefix(start).is_some_and(|rest| rest.len() > 3));
    let mut faults = Vec::new();
    if !heading.starts_with("### ") || !changelog.lines().any(|line| line == heading) {
        faults.push("the first line is no heading of a subsystem in CHANGELOG.md");
    }
    let kinds = ["- Added", "- Changed", "- Fixed", "- Removed", "- Security"];
    faults.extend((!kinds.iter().any(|kind| has(kind))).then_some("no entry"));
    faults.extend((!has("Impact: ")).then_some("no line `Impact: `"));
    faults.extend((!has("Migration: ")).then_some("no line `Migration: `"));
    faults
}

#[test]
fn each_change_says_who_notices_it_and_what_to_do() {
    let example: String = file("deploy/changelog/README.md")
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(faults(&example), Vec::<&str>::new(), "the example of the page");
    assert_eq!(faults(&example.replace("Migration", "Way")), ["no line `Migration: `"]);

    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("deploy/changelog");
    for entry in fs::read_dir(folder).expect("a folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        if name != "README.md" {
            assert_eq!(faults(&file(&format!("deploy/changelog/{name}"))), Vec::<&str>::new(), "{name}");
        }
    }
}
