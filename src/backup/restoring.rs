//! Restore of a backup.

use std::{
    fs::{self, DirBuilder},
    io::{ErrorKind, Read},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use orchestrator_edge::{DatabaseLock, read_regular, with_suffix};
use orchestrator_subsystem::{BackupFile, BackupKind};
use rustix::process::geteuid;
use serde::Serialize;

use super::{
    durable, handing_over,
    journal::{self, Move, SIBLINGS},
    manifest::{CopiedFile, Entry, Kind, Manifest},
    reading::Backup,
};
use crate::{
    config::{Config, Sources},
    state_owner, topology,
};

/// Result of a restore.
#[derive(Debug, Serialize)]
pub(crate) struct Restored {
    manifest: Manifest,
    /// Files that were there before, under their new names.
    before: Vec<PathBuf>,
    notes: Vec<String>,
}

/// Restores the backup in `directory` to the paths of the configuration of `sources`. If root runs it,
/// another process does so as the owner of the files, and prints the result: then this returns none.
///
/// # Errors
/// The backup is damaged, the configuration does not have its parts, or an instance runs. Then nothing was
/// changed.
pub(crate) fn restore(directory: &Path, sources: &Sources) -> Result<Option<Restored>> {
    let backup = Backup::new(directory, handing_over::is_given());
    let text = backup.manifest()?;
    let manifest = Manifest::parse(directory, &text.bytes)?;
    let (config, missing) = configuration(directory, sources, &manifest)?;
    let owner = state_owner::of_state(&config)?;
    if let Some((path, copy)) = missing
        && geteuid().is_root()
        && (owner.is_some() || text.uid != 0)
    {
        // Another user could choose the files on which root works.
        bail!(
            "{} is missing: examine {}, copy it there, and repeat the restore",
            path.display(),
            copy.display()
        );
    }
    if let Some(owner) = owner {
        if state_owner::on_the_way(directory)?.0.is_some() {
            return Err(owner.go_on());
        }
        return handing_over::send(directory, &text, &manifest, owner).map(|()| None);
    }
    let mut notes: Vec<_> = journal::recover(&config, Some(sources))?.into_iter().collect();
    let pairs = pairs(&manifest, topology::files_to_back_up(&config).files)?;
    let locks = lock(&config, &pairs)?;
    let mut moves = Vec::new();
    let prepared = pairs.iter().try_for_each(|(entry, kept)| {
        prepare(&backup, entry, kept, &mut moves)
            .with_context(|| format!("cannot prepare {}: nothing was restored", kept.path.display()))
    });
    let prepared = prepared.and_then(|()| {
        sources.files.iter().zip(manifest.configuration()).try_for_each(|(path, copy)| {
            notes.extend(restore_configuration(&backup, path, copy)?);
            Ok(())
        })
    });
    if let Err(error) = prepared {
        moves.iter().filter(|each| each.has_new).for_each(|each| drop(durable::remove(&each.prepared())));
        return Err(error);
    }
    let before = moves.iter().filter(|each| each.has_before).map(Move::before).collect();
    journal::carry_out(moves)?;
    drop(locks);
    Ok(Some(Restored { manifest, before, notes }))
}

/// Loads the configuration. Files that are missing are read from the backup. Returns the first one, too, with
/// its copy.
fn configuration(
    directory: &Path,
    sources: &Sources,
    manifest: &Manifest,
) -> Result<(Config, Option<(PathBuf, PathBuf)>)> {
    let mut sources = sources.clone();
    let mut missing = None;
    for (path, copy) in sources.files.iter_mut().zip(manifest.configuration()) {
        if !durable::exists(path) {
            let copy = directory.join(&copy.name);
            missing.get_or_insert((path.clone(), copy.clone()));
            *path = copy;
        }
    }
    Ok((Config::load(&sources)?, missing))
}

/// Writes a file of the configuration, unless there is one. Returns the note about it.
fn restore_configuration(backup: &Backup, path: &Path, copy: &CopiedFile) -> Result<Option<String>> {
    let text = backup.read(copy)?;
    if durable::exists(path) {
        let mut present = Vec::new();
        let read = read_regular(path).and_then(|mut file| file.read_to_end(&mut present));
        let is_same = read.is_ok() && present == text;
        return Ok((!is_same)
            .then(|| format!("{} differs from that of the backup and was left as it is", path.display())));
    }
    let new = with_suffix(path, ".restored");
    durable::remove(&new)?;
    fs::create_dir_all(durable::parent(path))?;
    durable::write_new(&new, &mut text.as_slice(), 0o600)
        .with_context(|| format!("cannot write {}", new.display()))?;
    fs::rename(&new, path)?;
    durable::sync_directory(durable::parent(path))?;
    Ok(Some(format!("{} was missing and is that of the backup", path.display())))
}

/// Each entry with its file of the present configuration.
fn pairs(manifest: &Manifest, kept: Vec<BackupFile>) -> Result<Vec<(&Entry, BackupFile)>> {
    let mut pairs = Vec::new();
    for entry in manifest.entries.iter().filter(|entry| entry.kind != Kind::Configuration) {
        let Entry { role, files, .. } = entry;
        let Some(kept) = kept.iter().find(|kept| kept.role == *role) else {
            // An entry without files is nothing that could be lost.
            ensure!(
                files.is_empty(),
                "the configuration has no {role}, which the backup has: name the configuration of the backup by --config"
            );
            continue;
        };
        let (kind, is_expected): (_, fn(&CopiedFile, &str) -> bool) = match kept.kind {
            BackupKind::Database { .. } => (Kind::Database, |file, role| file.name == Path::new(role)),
            BackupKind::File | BackupKind::Lines => (Kind::File, |file, role| file.name == Path::new(role)),
            BackupKind::Directory => {
                (Kind::Directory, |file, role| durable::parent(&file.name) == Path::new(role))
            }
        };
        let is_valid = entry.kind == kind
            && files.iter().all(|file| is_expected(file, role))
            && (kind == Kind::Directory || files.len() < 2);
        ensure!(is_valid, "the manifest is damaged: {role} has other files than the program writes");
        pairs.push((entry, kept.clone()));
    }
    Ok(pairs)
}

/// Locks the databases, as an instance does. An instance without a database is recognised by its endpoint.
fn lock(config: &Config, pairs: &[(&Entry, BackupFile)]) -> Result<Vec<DatabaseLock>> {
    let mut locks = Vec::new();
    for (_, kept) in pairs {
        let (path, parent) = (&kept.path, durable::parent(&kept.path));
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        if matches!(kept.kind, BackupKind::Database { .. }) {
            match DatabaseLock::take(path) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    bail!("an instance runs with {}: stop it, and repeat the restore", path.display())
                }
                lock => locks.push(lock.with_context(|| format!("cannot lock {}", path.display()))?),
            }
        }
    }
    if locks.is_empty()
        && let Some(address) = config.program.admin.address_in_use()
    {
        bail!(
            "an instance may run, since {address} is in use: stop it, or set another address of the endpoint"
        );
    }
    Ok(locks)
}

/// Copies the files of an entry beside their target, and adds the renames that put them there.
fn prepare(backup: &Backup, entry: &Entry, kept: &BackupFile, moves: &mut Vec<Move>) -> Result<()> {
    let base = durable::resolve(&kept.path)?;
    let each = |suffix: &str, has_new| {
        let (role, suffix) = (entry.role.clone(), suffix.to_owned());
        let mut each = Move { role, base: base.clone(), suffix, has_before: false, has_new };
        each.has_before = durable::exists(&each.path());
        each
    };
    if entry.kind == Kind::Database {
        moves.extend(SIBLINGS.iter().map(|suffix| each(suffix, false)).filter(|each| each.has_before));
    }
    let target = each("", !entry.files.is_empty());
    let new = target.prepared();
    durable::remove(&new)?;
    moves.extend((target.has_before || target.has_new).then_some(target));
    if entry.kind == Kind::Directory && !entry.files.is_empty() {
        DirBuilder::new().mode(0o700).create(&new)?;
    }
    for file in &entry.files {
        let name = file.name.strip_prefix(&entry.role)?;
        let to = if name.as_os_str().is_empty() { new.clone() } else { new.join(name) };
        backup.copy(file, &to)?;
        if let BackupKind::Database { check, .. } = kept.kind {
            check(&to).map_err(|fault| anyhow::anyhow!("{} is damaged: {fault}", entry.role))?;
        }
    }
    if entry.kind == Kind::Directory && !entry.files.is_empty() {
        durable::sync_directory(&new)?;
    }
    // Files that an earlier restore left.
    let mut befores = vec![with_suffix(&base, ".before-restore")];
    if entry.kind == Kind::Database {
        befores.extend(SIBLINGS.map(|suffix| with_suffix(&befores[0], suffix)));
    }
    Ok(befores.iter().try_for_each(|before| durable::remove(before))?)
}

impl Restored {
    /// Formats the result for a terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = self.manifest.list();
        let before = self.before.iter().map(|path| format!("what was there before: {}", path.display()));
        before.chain(self.notes.iter().cloned()).for_each(|line| {
            text.push_str(&line);
            text.push('\n');
        });
        text
    }
}
