//! The quick starts of the subsystems' pages, run as they stand, each in an empty directory.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

const PAGES: [&str; 5] = ["queue", "provenance", "ingester", "producer", "catalog"];

/// Limit of one quick start, seconds.
const LIMIT_SECS: &str = "60";

/// Joins the `sh` blocks of the section. Blocks with `needs=` want a server that is not part of the program.
fn script(page: &str) -> String {
    let section =
        page.split("\n## ").find(|section| section.starts_with("Quick start")).expect("a quick start");
    let mut script = String::new();
    let mut lines = section.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if info == "sh" {
            script.push_str(&block.join("\n"));
            script.push('\n');
        }
    }
    script
}

/// Runs a script with `orchestrator` on the path and its admin endpoint on a socket of its own.
fn run(name: &str, script: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let (bin, work) = (folder.path().join("bin"), folder.path().join("work"));
    fs::create_dir(&bin).expect("make a folder");
    fs::create_dir(&work).expect("make a folder");
    symlink(env!("CARGO_BIN_EXE_orchestrator"), bin.join("orchestrator")).expect("link the program");
    let socket = folder.path().join("admin.sock");
    let path = format!("{}:{}", bin.display(), env::var("PATH").expect("a path"));
    let output = Command::new("timeout")
        .args(["--kill-after=5", LIMIT_SECS, "bash", "-euo", "pipefail", "-c", script])
        .current_dir(&work)
        .env("PATH", path)
        .env("ORCHESTRATOR__ADMIN__LISTEN", "")
        .env("ORCHESTRATOR__ADMIN__UNIX_SOCKET", &socket)
        .env("ORCHESTRATOR_SOCKET", &socket)
        .stdin(Stdio::null())
        .output()
        .expect("timeout runs");
    assert!(
        output.status.success(),
        "{name}: {}\n{script}\n--- output\n{}\n--- errors\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn quick_start(name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("actors").join(name).join("README.md");
    let script =
        script(&fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display())));
    assert!(script.contains("orchestrator "), "{name}: the quick start runs nothing");
    // `run` sets a socket by variables, which would hide that a configuration serves no endpoint.
    let configured = script.contains("orchestrator run --config");
    assert!(
        !configured || script.contains("\n[admin]"),
        "{name}: no command reaches the instance without [admin]"
    );
    run(name, &script);
}

#[test]
fn each_page_has_a_quick_start() {
    for name in PAGES {
        quick_start(name);
    }
}

#[test]
#[should_panic(expected = "a broken quick start")]
fn a_command_that_fails_is_noticed() {
    run("a broken quick start", "orchestrator nonsense; echo unreachable");
}
