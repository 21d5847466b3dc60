//! Packaging: systemd accepts the unit file, and the binary needs only the C library.

use std::{fs, process::Command};

use orchestrator_harness::TestEnv;

const UNIT: &str = include_str!("../../deploy/orchestrator.service");
const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

/// Values of a key of the unit.
fn values(key: &str) -> impl Iterator<Item = &str> {
    UNIT.lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
}

#[test]
fn the_unit_matches_the_program() {
    assert_eq!(values("Type").collect::<Vec<_>>(), ["notify"], "the program sends READY");
    assert!(values("WatchdogSec").next().is_some(), "the program feeds a watchdog");
    assert_eq!(values("RestartPreventExitStatus").collect::<Vec<_>>(), ["78"]);
    // The program accepts the command line; only the configuration file is missing here.
    let line = values("ExecStart").next().expect("a command");
    let arguments: Vec<_> =
        line.split_whitespace().skip(1).map(|word| if word == "run" { "check" } else { word }).collect();
    let (code, _, err) = TestEnv::new(BINARY).cli(&arguments);
    assert!(code == 78 && err.contains("/etc/orchestrator/orchestrator.toml"), "{code}: {err}");
}

/// Advisories appear without a change of this repository, so a schedule looks for them.
#[test]
fn advisories_are_checked_on_a_schedule() {
    let path = format!("{}/.github/workflows/ci.yml", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).expect("the workflow");
    assert!(text.contains("\n  schedule:\n"), "{text}");
    let jobs = text.split_once("\njobs:\n").expect("jobs").1;
    let job = jobs.split_once("\n  advisories:\n").expect("a job").1;
    assert!(job.contains("if: github.event_name == 'schedule'\n"), "{job}");
    assert!(job.contains("- run: cargo deny check advisories\n"), "{job}");
}

#[test]
fn systemd_accepts_the_unit() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        // Without systemd only the test above applies.
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("orchestrator.service");
    // systemd checks that the program exists.
    fs::write(&file, UNIT.replace("/usr/local/bin/orchestrator", BINARY)).expect("write the unit");
    let output =
        Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let ours: Vec<_> = said.lines().filter(|line| line.contains("orchestrator.service")).collect();
    assert!(output.status.success() && ours.is_empty(), "{said}");
}

#[test]
fn the_binary_links_only_the_c_library() {
    let output = Command::new("ldd").arg(BINARY).output().expect("ldd comes with the C library");
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    // libgcc_s comes with Debian's libc6, which depends on it.
    let known =
        ["linux-vdso.so", "ld-linux", "libc.so", "libm.so", "libgcc_s.so", "libpthread.so", "libdl.so"];
    let others: Vec<_> =
        listed.lines().filter(|line| !known.iter().any(|name| line.contains(name))).collect();
    assert!(listed.contains("libc.so") && others.is_empty(), "{listed}");
}
