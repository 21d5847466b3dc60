//! Parts of a backup and a restore by root that another user must not do, since only root may use the
//! backup's directory. This program, started as the owner of the files, does the rest: a new directory, or
//! the content of a backup, is its standard input.

use std::{
    fs::File,
    io::{self, ErrorKind, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::Stdio,
};

use anyhow::{Context, Result, ensure};
use rustix::{
    fs::{Gid, Uid, fchown},
    process::{Signal, geteuid, set_parent_process_death_signal},
};

use super::{
    manifest::Manifest,
    reading::{self, ManifestText},
};
use crate::state_owner::{Failed, Owner};

/// Environment variable of the process that has something as its standard input.
const MARK: &str = "ORCHESTRATOR_BACKUP_ON_STDIN";
/// Directory that is the standard input.
pub(super) const DIRECTORY: &str = "/proc/self/fd/0";

/// True if Root's process has handed something over. This process ends with that one.
pub(super) fn is_given() -> bool {
    let is_given = !geteuid().is_root() && std::env::var_os(MARK).is_some();
    if is_given {
        // Without it, a signal to root's process leaves this one running.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
    is_given
}

/// Lets the owner write a backup into the empty `directory`, which is root's again afterwards.
pub(super) fn fill(directory: &File, owner: Owner) -> Result<()> {
    let give = |uid: u32, gid: u32| fchown(directory, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    give(owner.uid, owner.gid)?;
    let mut command = owner.command();
    let status = command.env(MARK, "1").stdin(directory.try_clone()?).status();
    give(0, 0)?;
    let status = status.map_err(|error| owner.failed(error))?;
    ensure!(status.success(), Failed(status));
    Ok(())
}

/// Lets the owner restore the backup in `directory`.
pub(super) fn send(directory: &Path, text: &ManifestText, manifest: &Manifest, owner: Owner) -> Result<()> {
    let mut command = owner.command();
    let started = command.env(MARK, "1").stdin(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| owner.failed(error))?;
    let mut stdin = child.stdin.take().context("no pipe")?;
    let sent = send_all(&mut stdin, directory, text, manifest);
    drop(stdin);
    // If the process has ended, it has said why.
    let has_ended = |error: &anyhow::Error| {
        error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
    };
    if let Err(error) = sent
        && !has_ended(&error)
    {
        child.kill()?;
        child.wait()?;
        return Err(error);
    }
    let status = child.wait()?;
    ensure!(status.success(), Failed(status));
    Ok(())
}

fn send_all(to: &mut impl Write, directory: &Path, text: &ManifestText, manifest: &Manifest) -> Result<()> {
    to.write_all(&(text.bytes.len() as u64).to_le_bytes())?;
    to.write_all(&text.bytes)?;
    for file in manifest.files() {
        let (mut content, metadata) = reading::open_named(directory, file)?;
        // The files of a backup have one owner. A user who had the directory may have linked one of root's
        // into it.
        ensure!(
            metadata.uid() == text.uid,
            "{} and the manifest belong to different users: use another backup",
            directory.join(&file.name).display()
        );
        to.write_all(&metadata.permissions().mode().to_le_bytes())?;
        let sent = io::copy(&mut io::Read::take(&mut content, file.bytes), to)?;
        ensure!(sent == file.bytes, "{}", reading::changed(directory, file));
    }
    Ok(())
}
