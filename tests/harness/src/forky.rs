//! Servers of Debian's suite forky, in the chroot of `tests/peers/forky`.

use std::process::Command;

use crate::python::peers;

/// Installs a server, unless it is there.
///
/// # Panics
/// If the chroot cannot be made.
pub(crate) fn install(server: &str) {
    let installed = Command::new(peers().join("forky")).args(["install", server]).status();
    assert!(installed.is_ok_and(|status| status.success()), "tests/peers/forky cannot install {server}");
}

/// Command that runs `program` in the chroot.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(peers().join("forky"));
    command.args(["run", program]);
    command
}
