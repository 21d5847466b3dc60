//! The admin endpoint of `orchestrator as NAME ..`.
//!
//! A drop-in listens on no TCP port by default, since the replaced program did not. If the service manager provides a runtime
//! directory, the admin endpoint listens on `admin.sock` there.

use std::path::{Path, PathBuf};

use orchestrator_admin::AdminConfig;

/// Returns the admin section: the TCP address `listen`, if any, and a socket in the runtime directory, if there is one.
pub(crate) fn admin(listen: Option<&str>) -> AdminConfig {
    let runtime = std::env::var_os("RUNTIME_DIRECTORY").and_then(|list| first_directory(&list));
    AdminConfig {
        listen: listen.unwrap_or_default().to_owned(),
        unix_socket: runtime.map(|directory| directory.join("admin.sock")),
        // The original leaves no such file in its directory.
        history_file: PathBuf::new(),
        ..AdminConfig::default()
    }
}

/// Returns the first of the directories that systemd joins with colons.
fn first_directory(list: &std::ffi::OsStr) -> Option<PathBuf> {
    let list = list.to_str()?;
    list.split(':').find(|entry| !entry.is_empty()).map(|entry| Path::new(entry).to_owned())
}
