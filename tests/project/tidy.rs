//! The fixture rules that a compiler does not check: arrows between crates, clients only at edges, sizes, names.

mod cycles;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Longest source file; most are far shorter.
const LINES_MAX: usize = 400;

/// Which of our crates each may depend on (outside of tests).
const ARROWS: &[(&str, &[&str])] = &[
    ("orchestrator-supervise", &[]),
    ("orchestrator-subsystem", &["orchestrator-supervise"]),
    ("orchestrator-edge", &["orchestrator-supervise"]),
    ("orchestrator-admin", &["orchestrator-subsystem", "orchestrator-supervise"]),
    ("orchestrator-queue", &["orchestrator-edge", "orchestrator-subsystem", "orchestrator-supervise"]),
    ("orchestrator-provenance", &["orchestrator-edge", "orchestrator-subsystem", "orchestrator-supervise"]),
    ("orchestrator-ingester", &["orchestrator-edge", "orchestrator-subsystem", "orchestrator-supervise"]),
    ("orchestrator-producer", &["orchestrator-edge", "orchestrator-subsystem", "orchestrator-supervise"]),
    ("orchestrator-catalog", &["orchestrator-edge", "orchestrator-subsystem", "orchestrator-supervise"]),
    (
        "orchestrator",
        &[
            "orchestrator-admin",
            "orchestrator-catalog",
            "orchestrator-edge",
            "orchestrator-ingester",
            "orchestrator-producer",
            "orchestrator-provenance",
            "orchestrator-queue",
            "orchestrator-subsystem",
            "orchestrator-supervise",
        ],
    ),
    ("orchestrator-harness", &[]),
    (
        "orchestrator-bench",
        &[
            "orchestrator-edge",
            "orchestrator-harness",
            "orchestrator-producer",
            "orchestrator-provenance",
            "orchestrator-supervise",
        ],
    ),
];

/// Clients of the outside, and words of the standard library that open sockets: only files under an `edge/` name them.
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
    "actix_web::",
    "UnixListener",
    "UnixStream",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
];

/// Where clients may be named besides edges: the two exceptions of the rule.
const EXEMPT: &[&str] = &["actors/admin/", "src/cli/", "tests/"];

/// Functions of our edge modules that bear a client's name.
const OUR_EDGE_CALLS: &[&str] = &[
    "inotify::factory",
    "inotify::create_input_dir",
    "mongodb::check_address",
    "mongodb::endpoint",
    "mongodb::contains_password",
    "redis::factory",
    "redis::log_child",
    "redis::{self, Place, Position}",
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in ["src", "actors", "tests"] {
        collect(&root().join(folder), &mut files);
    }
    assert!(files.len() > 50, "the walk found only {} files", files.len());
    files
}

fn collect(folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder of ours") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root()).expect("below the root").display().to_string();
            files.push((name, fs::read_to_string(&path).expect("UTF-8")));
        }
    }
}

fn complain(what: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{what}:\n  {}", offenders.join("\n  "));
}

#[test]
fn crates_depend_only_on_allowed_crates() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ARROWS.iter().map(|(name, may)| (*name, may.iter().copied().collect())).collect();
    let mut offenders = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let Some(allowed) = allowed.get(name) else {
            offenders.push(format!("{name} is not in the table of arrows: draw its arrows first"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let other = dependency["name"].as_str().expect("a name");
            let ours = other.starts_with("orchestrator");
            let outside_tests = dependency["kind"].is_null();
            if ours && outside_tests && !allowed.contains(other) {
                offenders.push(format!("{name} -> {other}"));
            }
        }
    }
    complain("arrows that are not drawn", &offenders);
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
    complain("clients named outside of an edge/ folder", &offenders);
}

/// Does `code` name `client` as a path or type of its own, not as the end of a longer word or of a path of ours? The edge
/// `inotify` has its crate's name; what is called of it is ours.
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
            offenders.push(format!("{name} has {lines} lines: is it still one noun?"));
        }
        let stem = Path::new(&name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if ["mod", "util", "utils", "common", "helpers", "helper", "misc"].contains(&stem) {
            offenders.push(format!("{name}: name it after what it holds"));
        }
        if !text.starts_with("//!") {
            offenders.push(format!("{name} does not say what it is: begin with //!"));
        }
    }
    complain("files against the fixture rules", &offenders);
}

#[test]
fn no_work_in_progress_marker_is_left() {
    // Spelled apart, so that this file does not find itself.
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
    complain("promises not kept yet", &offenders);
}

/// A path shown with `display` keeps its line ends and escape sequences; `?path` escapes them, and is quoted.
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
    complain("paths in logs that are not escaped", &offenders);
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
    complain("a profile sets `panic`: the supervision tree needs unwinding", &offenders);
}
