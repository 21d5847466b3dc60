//! Servers of Debian's suite forky, in the chroot of `tests/peers/forky`.

use std::{path::PathBuf, process::Command};

use crate::python::peers;

/// True if the environment variable `variable` asks for servers of this suite instead of this machine's.
pub(crate) fn is_wanted(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|suite| suite == "forky")
}

/// Root directory of the chroot.
pub(crate) fn root() -> PathBuf {
    peers().join("../../target/peers/forky")
}

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

/// Command that runs a program of PostgreSQL in the chroot, as a user and a group.
pub(crate) fn postgres_command((uid, gid): (u32, u32), program: &str) -> Command {
    let as_user = r#"uid=$1 gid=$2 program=$3; shift 3
        exec setpriv --reuid "$uid" --regid "$gid" --clear-groups /usr/lib/postgresql/*/bin/"$program" "$@""#;
    let mut command = command("sh");
    command.args(["-c", as_user, "sh", &uid.to_string(), &gid.to_string(), program]);
    command
}
