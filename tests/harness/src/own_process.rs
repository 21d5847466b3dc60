//! Tests in a separate process, for what belongs to a whole process: limits, threads, mounts.

use std::process::Command;

/// Environment variable that is set in the separate process.
const MARK: &str = "ORCHESTRATOR_TEST_OWN_PROCESS";

/// Runs `body` in another process of this test program. `test` is the full name of the calling test.
///
/// # Panics
/// If `body` panics, with its output.
pub fn own_process(test: &str, body: impl FnOnce()) {
    own_process_by(Command::new("env"), test, body);
}

/// As [`own_process`], started by the program `launcher`, which runs its arguments.
pub(crate) fn own_process_by(mut launcher: Command, test: &str, body: impl FnOnce()) {
    if std::env::var_os(MARK).is_some() {
        return body();
    }
    launcher.arg(std::env::current_exe().expect("this test")).args([test, "--exact", "--nocapture"]);
    let output = launcher.env(MARK, "1").output().expect("this test runs again");
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success() && out.contains("1 passed"), "in its own process:\n{out}{err}");
    eprint!("{err}");
}
