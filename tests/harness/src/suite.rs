//! Servers and Python of another suite of Debian, in a root file system of `tests/peers/suite`.

use std::{ffi::OsStr, path::PathBuf, process::Command};

use crate::python::peers;

/// Root file system of servers and Python; None: this machine's.
pub(crate) fn root() -> Option<PathBuf> {
    std::env::var_os("ORCHESTRATOR_TEST_ROOT").filter(|root| !root.is_empty()).map(PathBuf::from)
}

/// The only version of TLS that servers speak, such as `1.2`; None: what they speak by default.
pub(crate) fn tls_version() -> Option<String> {
    std::env::var("ORCHESTRATOR_TEST_TLS").ok()
}

/// Path of a file of the root file system, from outside of it.
pub(crate) fn file(path: &str) -> PathBuf {
    root().map_or_else(|| path.into(), |root| root.join(path.trim_start_matches('/')))
}

/// Command that runs `program` in the root file system.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let Some(root) = root() else { return Command::new(program) };
    let mut command = Command::new(peers().join("suite"));
    command.arg("run").arg(root).arg(program);
    command
}

/// As [`command`], as another user and group.
pub(crate) fn command_as((uid, gid): (u32, u32), program: impl AsRef<OsStr>) -> Command {
    let mut command = command("setpriv");
    command.args(["--reuid", &uid.to_string(), "--regid", &gid.to_string(), "--clear-groups"]).arg(program);
    command
}
