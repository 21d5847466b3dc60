//! Programs of former commits.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Command, Stdio},
};

use rustix::fs::{FlockOperation, flock};

use crate::python::peers;

/// Returns the program of a former commit, which is built at its first use.
///
/// # Panics
/// If the commit is unknown, or does not build.
pub fn former_program(commit: &str) -> PathBuf {
    let root = peers().join("../..");
    let folder = root.join("target/peers/former").join(commit);
    let program = folder.join("orchestrator");
    let source = folder.join("source");
    fs::create_dir_all(&folder).expect("a folder for the commit");
    let lock = File::create(folder.join("lock")).expect("a lock file");
    // Another test may be building it.
    flock(&lock, FlockOperation::LockExclusive).expect("the lock");
    if program.exists() {
        return program;
    }
    fs::create_dir_all(&source).expect("a folder for the source");
    let mut archive = Command::new("git");
    let mut archive =
        archive.current_dir(&root).args(["archive", commit]).stdout(Stdio::piped()).spawn().expect("git");
    run(Command::new("tar").current_dir(&source).arg("x").stdin(archive.stdout.take().expect("an archive")));
    assert!(archive.wait().is_ok_and(|status| status.success()), "git knows no {commit}");
    let mut build = Command::new("cargo");
    build.env_remove("RUSTC_WORKSPACE_WRAPPER").args([
        "build",
        "--release",
        "--locked",
        "--bin",
        "orchestrator",
    ]);
    run(build.current_dir(&source));
    fs::rename(source.join("target/release/orchestrator"), &program).expect("a program");
    fs::remove_dir_all(&source).expect("remove the source");
    program
}

fn run(command: &mut Command) {
    assert!(command.status().is_ok_and(|status| status.success()), "{command:?} failed");
}
