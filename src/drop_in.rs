//! The admin endpoint of `orchestrator as NAME ..`.
//!
//! A drop-in keeps off TCP: the unit file it is put into knows nothing of an admin port. Where the service manager gives
//! a runtime directory, the admin endpoint listens on a socket there, so that `orchestrator tree` works.

use std::path::{Path, PathBuf};

use orchestrator_admin::AdminConfig;

/// No TCP unless asked for; a socket in the runtime directory if there is one.
pub(crate) fn admin(listen: Option<&str>) -> AdminConfig {
    let runtime = std::env::var_os("RUNTIME_DIRECTORY").and_then(|list| first_directory(&list));
    AdminConfig {
        listen: listen.unwrap_or_default().to_owned(),
        unix_socket: runtime.map(|directory| directory.join("admin.sock")),
        ..AdminConfig::default()
    }
}

/// systemd joins several runtime directories with colons.
fn first_directory(list: &std::ffi::OsStr) -> Option<PathBuf> {
    let list = list.to_str()?;
    list.split(':').find(|entry| !entry.is_empty()).map(|entry| Path::new(entry).to_owned())
}
