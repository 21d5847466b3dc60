//! Python environments of the peers, and the folder of their programs.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::{FlockOperation, flock};

/// Folder of the peers' programs.
pub(crate) fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers")
}

/// Python interpreter with the packages of the peers.
pub(crate) fn python() -> PathBuf {
    environment("venv", "requirements.txt")
}

/// Python interpreter of the environment `name`, with the packages of the requirements file `list`.
///
/// Packages come from PyPI, once for each change of the file.
pub(crate) fn environment(name: &str, list: &str) -> PathBuf {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
    fs::create_dir_all(&home).expect("a directory below target/");
    let lock = File::create(home.join(format!("{name}.lock"))).expect("a lock file");
    // Other tests may be installing it.
    flock(&lock, FlockOperation::LockExclusive).expect("the lock");
    let (venv, installed) = (home.join(name), home.join(format!("{name}.txt")));
    let list = peers().join(list);
    let wanted = fs::read_to_string(&list).expect("the list of packages");
    let python = venv.join("bin/python");
    if fs::read_to_string(&installed).ok().as_ref() != Some(&wanted) {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
        run(Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--require-hashes",
                "-r",
            ])
            .arg(&list));
        fs::write(&installed, wanted).expect("note what is installed");
    }
    python
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {said}\ntests/run installs python3-venv; the packages come from PyPI"
    );
}
