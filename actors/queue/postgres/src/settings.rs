//! Settings of the sessions of one instance.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use orchestrator_edge::{postgres::Address, read_text, with_suffix};
use orchestrator_queue_rules::storage::{HandoutSettings, StorageError};
use tokio::runtime::{Builder, Runtime};

use super::error::{storage_error, unusable};
use crate::config::{APPLICATION, InstanceConfig, is_instance_name};

/// Settings of the sessions of one instance.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address of the database.
    pub address: Address,
    /// Schema of the tables: letters, digits and `_`.
    pub schema: String,
    /// Identity of this instance: letters, digits, `.`, `_` and `-`.
    pub instance: String,
    /// Host of this instance, for operators.
    pub host: String,
    /// Path of its worker socket, for operators.
    pub socket: String,
    /// Configured settings of hand-outs, later those of the database.
    pub handouts: HandoutSettings,
    /// Times are arguments instead of the database's.
    pub given_times: bool,
}

impl Settings {
    /// Reads the files that the configuration names.
    ///
    /// # Errors
    /// A file cannot be read, or has no valid content.
    pub fn read(config: &InstanceConfig) -> Result<Self, StorageError> {
        let dsn = config.postgres.address().read().map_err(unusable)?;
        Ok(Self {
            address: Address::parse(&dsn, APPLICATION).map_err(storage_error)?,
            schema: config.postgres.schema.clone(),
            instance: instance_name(config)?,
            host: host(),
            socket: config.socket.display().to_string(),
            handouts: config.handouts.clone(),
            given_times: false,
        })
    }
}

pub(super) fn runtime() -> Result<Runtime, StorageError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| unusable(format!("cannot start a runtime: {error}")))
}

fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Returns the name of the instance: the configured one, or that in the file beside the input directory. A
/// missing file is created.
///
/// # Errors
/// The file cannot be used.
fn instance_name(config: &InstanceConfig) -> Result<String, StorageError> {
    if let Some(name) = &config.postgres.instance {
        return Ok(name.clone());
    }
    let file = instance_file(&config.input_dir);
    let failed = |error: io::Error| {
        unusable(format!("{}: cannot keep the name of the instance: {error}", file.display()))
    };
    let read = || read_text(&file);
    let name = match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_name(&file).and_then(|()| read()).map_err(failed)?
        }
        read => read.map_err(failed)?,
    };
    let name = name.trim().to_owned();
    if is_instance_name(&name) {
        Ok(name)
    } else {
        Err(failed(io::Error::other(
            "it holds no name of an instance: remove it if no other instance uses the directory",
        )))
    }
}

/// Makes a name and writes it to `file` in one step, unless another thread has.
fn make_name(file: &Path) -> io::Result<()> {
    let host: String =
        host().chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').take(40).collect();
    let random: String = fs::read_to_string("/proc/sys/kernel/random/uuid")?.chars().take(8).collect();
    let draft = with_suffix(file, &format!(".{random}"));
    let mut options = fs::File::options();
    let mut made = options.write(true).create_new(true).mode(0o644).open(&draft)?;
    made.write_all(format!("{host}-{random}\n").as_bytes())?;
    made.sync_all()?;
    let linked = fs::hard_link(&draft, file);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

pub(crate) fn instance_file(input_dir: &Path) -> std::path::PathBuf {
    with_suffix(input_dir, ".instance")
}
