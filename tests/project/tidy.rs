//! Rules of the source tree: dependencies between crates, clients only in edges, file sizes and names.

mod crates;
mod cycles;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Maximum number of lines of a source file.
const LINES_MAX: usize = 400;
/// Maximum width of a line of comment, indentation included: that of code.
const COMMENT_WIDTH_MAX: usize = 110;

/// Client libraries and socket types, which only files below an `edge/` may use.
const CLIENTS: &[&str] = &[
    "lapin::",
    "mongodb::",
    "bson::",
    "redis::",
    "zeromq::",
    "tokio_postgres::",
    "rusqlite::",
    "inotify::",
    "reqwest::",
    "hyper::",
    "UnixListener",
    "UnixStream",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
];

/// Folders besides edges that may name clients: stores of the queue, the endpoint, and clients of a running
/// instance.
const EXEMPT: &[&str] =
    &["actors/queue/postgres/", "actors/queue/sqlite/", "actors/admin/", "src/cli/", "src/demo/", "tests/"];

/// Functions of edge modules that have a client's name.
const OUR_EDGE_CALLS: &[&str] = &[
    "inotify::factory",
    "inotify::create_input_dir",
    "mongodb::check_address",
    "mongodb::endpoint",
    "redis::factory",
    "redis::log_child",
    "redis::{self, Position, RedisTarget}",
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub(super) fn rust_files() -> Vec<(String, String)> {
    let files = files(&["src", "actors", "tests"], "rs");
    assert!(files.len() > 50, "the walk found only {} files", files.len());
    files
}

/// Files with an extension, as their names and texts.
pub(super) fn files(folders: &[&str], extension: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in folders {
        collect(&root().join(folder), extension, &mut files);
    }
    files
}

fn collect(folder: &Path, extension: &str, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder of ours") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, extension, files);
        } else if path.extension().is_some_and(|known| known == extension) {
            let name = path.strip_prefix(root()).expect("below the root").display().to_string();
            files.push((name, fs::read_to_string(&path).expect("UTF-8")));
        }
    }
}

pub(super) fn assert_none(what: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{what}:\n  {}", offenders.join("\n  "));
}

#[test]
fn only_edge_modules_use_clients() {
    let mut offenders = Vec::new();
    for (name, text) in rust_files() {
        let exempt = EXEMPT.iter().any(|prefix| name.starts_with(prefix));
        let test = name.contains("/tests/");
        let edge = name.starts_with("actors/edge/") || name.contains("/edge/");
        if exempt || test || edge {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(client) = CLIENTS.iter().find(|client| names(code, client)) {
                offenders.push(format!("{name}:{} names {client}", number + 1));
            }
        }
    }
    assert_none("clients named outside of an edge/ folder", &offenders);
}

/// Returns true if `code` uses `client` as a path or type, and not as part of a longer word or path.
///
/// Calls of edge modules with a client's name do not count.
fn names(code: &str, client: &str) -> bool {
    code.match_indices(client).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
            && !OUR_EDGE_CALLS.iter().any(|call| code[at..].starts_with(call))
    })
}

#[test]
fn files_have_a_module_comment_and_a_limited_size() {
    let mut offenders = Vec::new();
    for (name, text) in rust_files() {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            offenders.push(format!("{name} has {lines} lines: split it"));
        }
        let stem = Path::new(&name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if ["mod", "util", "utils", "common", "helpers", "helper", "misc"].contains(&stem) {
            offenders.push(format!("{name}: name it after what it holds"));
        }
        if !text.starts_with("//!") {
            offenders.push(format!("{name} does not say what it is: begin with //!"));
        }
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("//") && line.chars().count() > COMMENT_WIDTH_MAX {
                offenders.push(format!("{name}:{}: a comment is wider than code", number + 1));
            }
        }
    }
    assert_none("files that break the rules", &offenders);
}

#[test]
fn no_work_in_progress_marker_is_left() {
    // Split, so that this file does not match.
    let marks =
        [["to", "do!("].concat(), ["FIX", "ME"].concat(), ["X", "XX"].concat(), ["#[ign", "ore"].concat()];
    let mut offenders = Vec::new();
    for (name, text) in rust_files() {
        for (number, line) in text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark.as_str())) {
                offenders.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert_none("work in progress markers", &offenders);
}

/// A path logged with `display` keeps control characters; `?path` quotes and escapes it.
#[test]
fn logged_paths_are_escaped() {
    let mut offenders = Vec::new();
    for (name, text) in rust_files() {
        for (number, line) in text.lines().enumerate() {
            let as_it_is =
                |(at, _)| line[..at].rsplit([',', '(']).next().is_some_and(|field| field.contains('%'));
            if line.match_indices(".display()").any(as_it_is) {
                offenders.push(format!(
                    "{name}:{}: write ?path in place of %path.{}",
                    number + 1,
                    "display()"
                ));
            }
        }
    }
    assert_none("paths in logs that are not escaped", &offenders);
}

#[test]
fn no_profile_sets_panic() {
    let mut offenders = Vec::new();
    for manifest in ["Cargo.toml", "actors/supervise/Cargo.toml"] {
        let text = fs::read_to_string(root().join(manifest)).expect("a manifest");
        if text.lines().any(|line| line.split('#').next().is_some_and(|code| code.contains("panic ="))) {
            offenders.push(manifest.to_owned());
        }
    }
    assert_none("a profile sets `panic`: the supervision tree needs unwinding", &offenders);
}

#[test]
fn each_test_binary_is_run() {
    let plan = fs::read_to_string(root().join("tests/plan.toml")).expect("the plan");
    let plan: toml::Table = toml::from_str(&plan).expect("TOML");
    let groups = plan["group"].as_array().expect("groups").iter();
    // It builds programs of former commits: only with --full.
    let is_run = |group: &&toml::Value| {
        let is_of = |jobs: &str| plan[jobs].as_array().is_some_and(|jobs| jobs.contains(&group["job"]));
        is_of("jobs") || is_of("full_jobs") && group["name"].as_str() == Some("upgrades")
    };
    let names = groups.filter(is_run).flat_map(|group| group["programs"].as_array().expect("programs"));
    let run: BTreeSet<&str> = names.filter_map(toml::Value::as_str).filter(|name| *name != "unit").collect();
    let binaries: BTreeSet<String> = rust_files()
        .into_iter()
        .filter_map(|(path, _)| {
            let binary = path.strip_suffix("/main.rs")?;
            let (folder, name) = binary.rsplit_once('/')?;
            (folder == "tests" || folder.ends_with("/tests")).then(|| name.to_owned())
        })
        .collect();
    assert_eq!(
        run,
        binaries.iter().map(String::as_str).collect(),
        "tests/plan.toml names these test binaries"
    );
}

/// Nothing else in this command applies them: `tests/mutants/run.py --histories` takes half an hour.
#[test]
fn the_patches_of_the_mutants_apply() {
    let folder = root().join("tests/mutants/histories");
    let patches = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    for patch in patches {
        let check = Command::new("git").args(["apply", "--check"]).arg(&patch).current_dir(root()).output();
        let said = String::from_utf8(check.expect("git runs").stderr).expect("UTF-8");
        assert_eq!(said, "", "{}: adapt it", patch.display());
    }
}
