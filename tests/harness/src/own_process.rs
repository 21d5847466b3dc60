//! A test alone in a process of its own: for limits, threads, mounts and whatever else belongs to a whole process.

use std::process::Command;

/// Set in the process that a test has for itself.
const MARK: &str = "ORCHESTRATOR_TEST_OWN_PROCESS";

/// Runs `body` in another process of this test program, in which `test`, the full name of the calling test, runs alone.
///
/// # Panics
/// If `body` does, with all that it printed.
pub fn own_process(test: &str, body: impl FnOnce()) {
    own_process_by(Command::new("env"), test, body);
}

/// As [`own_process`], started by `launcher`, a program that runs its further arguments.
pub(crate) fn own_process_by(mut launcher: Command, test: &str, body: impl FnOnce()) {
    if std::env::var_os(MARK).is_some() {
        return body();
    }
    launcher.arg(std::env::current_exe().expect("this test")).args([test, "--exact", "--nocapture"]);
    let output = launcher.env(MARK, "1").output().expect("this test runs again");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success() && text.contains("1 passed"), "in its own process:\n{text}");
}
