//! A path at which one program after the other is installed, and the end of an instance before it.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use orchestrator_harness::{Instance, TestEnv};
use tempfile::TempDir;

/// Longest time from a start to the first answer.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Directory with a link to the installed program.
#[derive(Debug)]
pub(crate) struct Installed(TempDir);

impl Installed {
    /// Installs `program`.
    pub(crate) fn new(program: &Path) -> Self {
        let installed = Self(tempfile::tempdir().expect("a directory"));
        installed.replace(program);
        installed
    }

    /// Path of the link.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("orchestrator")
    }

    /// Replaces the program for the next starts.
    pub(crate) fn replace(&self, program: &Path) {
        let new = self.0.path().join("new");
        symlink(program, &new).and_then(|()| fs::rename(&new, self.path())).expect("a link");
    }
}

/// End of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// By SIGTERM, with exit code 0.
    Signal,
    /// By SIGKILL.
    Kill,
}

impl Stop {
    /// Ends `instance`.
    pub(crate) fn end(self, instance: Instance, env: &TestEnv) {
        match self {
            Self::Signal => assert_eq!(instance.terminate().code(), Some(0), "{}", env.log()),
            Self::Kill => instance.kill_nine(),
        }
    }
}

/// Checks that clients did not wait longer than a start takes. They have got the first answer now.
pub(crate) fn assert_no_pause(program: &Path, started: Instant) {
    let took = started.elapsed();
    eprintln!("{}: the first answer after {took:?}", program.display());
    assert!(took < PAUSE_MAX, "{}: the first answer took {took:?}", program.display());
}
