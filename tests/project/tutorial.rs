//! Builds and runs the tutorial of TUTORIAL.md from its code blocks.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use orchestrator_harness::{Instance, TestEnv, eventually, http};

/// Fenced block whose info string names a language and a file.
struct Block<'a> {
    language: &'a str,
    file: &'a str,
    text: String,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some((language, file)) = line.strip_prefix("```").and_then(|info| info.split_once(' ')) else {
            continue;
        };
        let text = lines
            .by_ref()
            .take_while(|line| *line != "```")
            .fold(String::new(), |text, line| text + line + "\n");
        blocks.push(Block { language, file, text });
    }
    blocks
}

/// Copies the files that git tracks or would add.
fn copy_sources(to: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .expect("git lists the files");
    let listed = String::from_utf8(output.stdout).expect("UTF-8");
    for name in listed.split_terminator('\0').filter(|name| root.join(name).is_file()) {
        let target = to.join(name);
        fs::create_dir_all(target.parent().expect("a folder")).expect("make a folder");
        fs::copy(root.join(name), target).expect("copy a file");
    }
    assert!(to.join("Cargo.toml").exists(), "git listed nothing");
}

/// Applies one block of the page.
fn apply(fixture: &Path, block: &Block<'_>) {
    let file = fixture.join(block.file);
    if block.language != "diff" {
        assert!(!file.exists(), "{} is there already", block.file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("make a folder");
        return fs::write(file, &block.text).expect("write a file");
    }
    // The copy may be inside a repository that it is not part of.
    let mut apply = Command::new("git")
        .args(["apply", "--recount", "--verbose", "-p1"])
        .current_dir(fixture)
        .env("GIT_CEILING_DIRECTORIES", fixture.parent().expect("a folder"))
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("git applies patches");
    apply.stdin.take().expect("piped").write_all(block.text.as_bytes()).expect("git reads its patch");
    let done = apply.wait_with_output().expect("git ends");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && !said.contains("offset"),
        "{}: the page no longer fits the file; update its lines and line numbers: {said}",
        block.file
    );
}

/// Gives the crates of the copy another version. Otherwise they would replace those of this workspace in the
/// folder that both build in, and cargo would build these once more.
fn rename_version(fixture: &Path) {
    let manifest = fixture.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).expect("a manifest");
    let version = concat!("version = \"", env!("CARGO_PKG_VERSION"), "\"");
    assert!(text.contains(version), "the workspace has no version");
    fs::write(manifest, text.replacen(version, "version = \"0.0.0\"", 1)).expect("write a manifest");
}

/// Builds the copy with the tutorial's feature alone. As in the feature matrix, examples and the features of
/// dependencies named there make most dependencies those that are built already.
fn build(fixture: &Path, target: &Path) -> PathBuf {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
    let matrix = fs::read_to_string(fixture.join("tests/feature-matrix")).expect("the feature matrix");
    let shared = matrix.lines().find_map(|line| line.strip_prefix("shared=\"")).expect("the shared features");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--bins", "--examples", "--no-default-features"])
        .args(["--features", &format!("pulse {}", shared.trim_end_matches('"'))])
        .current_dir(fixture)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_BUILD_BUILD_DIR", built)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("warning:"), "the tutorial's code has warnings: {said}");
    target.join("debug/orchestrator")
}

#[test]
fn the_tutorial_subsystem_builds_and_runs() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("TUTORIAL.md")).expect("the page");
    let blocks = blocks(&page);
    assert!(blocks.len() >= 8, "the page has only {} blocks", blocks.len());
    let mut changed: Vec<_> =
        blocks.iter().filter(|block| block.language == "diff").map(|block| block.file).collect();
    changed.sort_unstable();
    let expected = ["Cargo.toml", "config/orchestrator.toml", "src/subsystems.rs"];
    assert_eq!(changed, expected, "a subsystem needs a crate and three edits");
    // A fixed folder, so that dependencies are built once.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tutorial");
    let (fixture, target) = (folder.join("fixture"), folder.join("target"));
    let _ = fs::remove_dir_all(&fixture);
    copy_sources(&fixture);
    blocks.iter().for_each(|block| apply(&fixture, block));
    rename_version(&fixture);

    let binary = build(&fixture, &target);
    let env = TestEnv::new(&binary);
    let socket = env.admin_socket();
    let mut command = env.bare_command();
    command.args(["run", "--set", "pulse.period_ms=5", "--set", "admin.listen="]);
    command.args(["--set", &format!("admin.unix_socket={}", socket.display())]);
    let instance = Instance::spawn(command);
    let count = || {
        let reply = http(&socket, "POST", "/v1/consoles/pulse/heart/count", &[], "{}");
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json().as_u64().expect("a count")
    };
    eventually("it to beat", || count() > 3);
    let before = count();
    let (code, out, err) = env.cli(&["pulse", "count"]);
    assert!(code == 0 && out.trim().parse::<u64>().is_ok(), "{out}{err}");
    let (_, help, _) = env.cli(&["pulse", "count", "--help"]);
    assert!(help.contains("Show the number of beats") && help.contains("--json"), "{help}");
    let document = http(&socket, "GET", "/openapi.json", &[], "").json();
    let verb = &document["paths"]["/v1/consoles/orchestrator/pulse/heart/count"]["post"];
    assert_eq!((&verb["summary"], &verb["x-effect"]), (&"Show the number of beats".into(), &"reads".into()));
    let (code, out, err) = env.cli(&["restart", "pulse/heart", "--reason", "the tutorial says so"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(count() >= before, "the metric outlives the incarnation");
    let (_, tree, _) = env.cli(&["tree", "pulse"]);
    assert!(tree.contains("heart") && tree.contains("running"), "{tree}");
    let metrics = http(&socket, "GET", "/metrics", &[], "").body;
    assert!(metrics.contains("orchestrator_pulse_beats_total{"), "{metrics}");
    assert!(instance.terminate().success());

    let (code, out, _) = env.cli(&["check", "--only", "pulse"]);
    assert!(code == 0 && out.contains("heart") && !out.contains("watcher"), "{out}");
    let (code, _, err) = env.cli(&["check"]);
    assert!(code == 78 && err.contains("no subsystem is configured"), "this build has no queue: {err}");
    let (code, _, err) = env.cli(&["demo", "--for", "1s"]);
    assert_eq!(code, 2, "this build has nothing for a demo: {err}");
    let (code, _, err) = env.cli(&["check", "--set", "pulse.period_ms=0"]);
    assert!(code == 78 && err.contains("below the minimum 1"), "{err}");
}
