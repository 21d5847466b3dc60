//! Python environments of the peers, and the folder of their programs.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::{FlockOperation, flock};

use crate::suite;

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
    installed(&target().join("peers"), name, list, |program| Command::new(program))
}

/// As [`environment`], for a program that a site runs. With another root file system the interpreter is that
/// of its suite, started by a script.
pub(crate) fn site_environment(name: &str, list: &str) -> PathBuf {
    let Some(root) = suite::root() else { return environment(name, list) };
    let home = root.with_extension("python");
    let python = installed(&home, name, list, |program| suite::command(program));
    script(&home.join(format!("{name}-bin/python3")), &root, &python)
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target")
}

/// Makes the environment `name` in the directory `home`, unless it is there.
fn installed(home: &Path, name: &str, list: &str, command: impl Fn(&Path) -> Command) -> PathBuf {
    fs::create_dir_all(home).expect("a directory below target/");
    let lock = File::create(home.join(format!("{name}.lock"))).expect("a lock file");
    // Other tests may be installing it.
    flock(&lock, FlockOperation::LockExclusive).expect("the lock");
    let (venv, installed) = (home.join(name), home.join(format!("{name}.txt")));
    let list = peers().join(list);
    let wanted = fs::read_to_string(&list).expect("the list of packages");
    let python = venv.join("bin/python");
    if fs::read_to_string(&installed).ok().as_ref() != Some(&wanted) {
        run(command("python3".as_ref()).args(["-m", "venv", "--clear"]).arg(&venv));
        let pip =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r"];
        run(command(&python).args(pip).arg(&list));
        fs::write(&installed, wanted).expect("note what is installed");
    }
    python
}

/// Writes a script that runs `python` in the root file system `root`, for programs that start it by a path or
/// find it in its directory.
///
/// If this process wrote it, it could not start it while another thread forks: the file would be open there.
fn script(path: &Path, root: &Path, python: &Path) -> PathBuf {
    let suite = peers().join("suite");
    let text =
        format!("#!/bin/sh\nexec {} run {} {} \"$@\"\n", suite.display(), root.display(), python.display());
    if fs::read_to_string(path).ok().as_ref() != Some(&text) {
        let write =
            r#"mkdir -p "${1%/*}" && printf %s "$2" >"$1.$$" && chmod 755 "$1.$$" && mv "$1.$$" "$1""#;
        run(Command::new("sh").args(["-c", write, "sh"]).arg(path).arg(text));
    }
    path.to_owned()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {said}\ntests/run installs python3-venv; the packages come from PyPI"
    );
}
