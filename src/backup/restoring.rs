//! Restore of a backup.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use orchestrator_edge::{DatabaseLock, with_suffix};
use orchestrator_subsystem::{KeptFile, KeptKind};
use serde::Serialize;

use super::{
    durable,
    journal::{self, Move},
    manifest::{CopiedFile, Entry, Kind, Manifest},
};
use crate::{
    config::{Config, Sources},
    topology,
};

/// Suffixes of the files that SQLite keeps beside a database.
const SIBLINGS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Result of a restore.
#[derive(Debug, Serialize)]
pub(crate) struct Restored {
    manifest: Manifest,
    /// Files that were there before, under their new names.
    before: Vec<PathBuf>,
    notes: Vec<String>,
}

/// Restores the backup in `directory` to the paths of the configuration of `sources`.
///
/// # Errors
/// The backup is damaged, the configuration does not have its parts, or an instance runs. Then nothing was changed.
pub(crate) fn restore(directory: &Path, sources: &Sources) -> Result<Restored> {
    let manifest = Manifest::read(directory)?;
    let (config, configuration) = configuration(directory, sources, &manifest)?;
    let mut notes: Vec<_> = journal::recover(&config)?.into_iter().collect();
    let pairs = pairs(directory, &manifest, topology::kept(&config).files)?;
    let locks = lock(&config, &pairs)?;
    for Configuration { path, copy } in configuration {
        if durable::exists(&path) {
            let is_same = fs::read(&path).is_ok_and(|text| fs::read(&copy).is_ok_and(|copy| copy == text));
            let kept = || format!("{} differs from that of the backup and was left as it is", path.display());
            notes.extend((!is_same).then(kept));
        } else {
            prepare(&copy, &path)?;
            fs::rename(with_suffix(&path, ".restored"), &path)?;
            durable::sync_directory(durable::parent(&path))?;
            notes.push(format!("{} was missing and is that of the backup", path.display()));
        }
    }
    let mut moves = Vec::new();
    for (entry, kept) in &pairs {
        let prepared = moves_of(directory, entry, kept);
        moves.extend(
            prepared
                .with_context(|| format!("cannot prepare {}: nothing was restored", kept.path.display()))?,
        );
    }
    let before = moves.iter().filter_map(|each| each.before.clone()).collect();
    journal::carry_out(moves)?;
    drop(locks);
    Ok(Restored { manifest, before, notes })
}

/// A file of the configuration, and its copy.
struct Configuration {
    path: PathBuf,
    copy: PathBuf,
}

/// Loads the configuration. Files that are missing are read from the backup.
fn configuration(
    directory: &Path,
    sources: &Sources,
    manifest: &Manifest,
) -> Result<(Config, Vec<Configuration>)> {
    let mut sources = sources.clone();
    let mut found = Vec::new();
    for (path, copy) in sources.files.iter_mut().zip(manifest.configuration()) {
        let copy = directory.join(&copy.name);
        found.push(Configuration { path: path.clone(), copy: copy.clone() });
        if !durable::exists(path) {
            *path = copy;
        }
    }
    Ok((Config::load(&sources)?, found))
}

/// Returns each entry with its file of the present configuration, after a check of the databases.
fn pairs<'a>(
    directory: &Path,
    manifest: &'a Manifest,
    kept: Vec<KeptFile>,
) -> Result<Vec<(&'a Entry, KeptFile)>> {
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
            KeptKind::Database { .. } => (Kind::Database, |file, role| file.name == Path::new(role)),
            KeptKind::File | KeptKind::Lines => (Kind::File, |file, role| file.name == Path::new(role)),
            KeptKind::Directory => {
                (Kind::Directory, |file, role| durable::parent(&file.name) == Path::new(role))
            }
        };
        let is_valid = entry.kind == kind
            && files.iter().all(|file| is_expected(file, role))
            && (kind == Kind::Directory || files.len() < 2);
        ensure!(is_valid, "the manifest is damaged: {role} has other files than the program writes");
        if let KeptKind::Database { check, .. } = kept.kind {
            for file in files {
                let path = directory.join(&file.name);
                check(&path).map_err(|fault| anyhow::anyhow!("{} is damaged: {fault}", path.display()))?;
            }
        }
        pairs.push((entry, kept.clone()));
    }
    Ok(pairs)
}

/// Locks the databases, as an instance does. An instance without a database is recognised by its endpoint.
fn lock(config: &Config, pairs: &[(&Entry, KeptFile)]) -> Result<Vec<DatabaseLock>> {
    let mut locks = Vec::new();
    for (_, kept) in pairs {
        let (path, parent) = (&kept.path, durable::parent(&kept.path));
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        if matches!(kept.kind, KeptKind::Database { .. }) {
            match DatabaseLock::take(path) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    bail!("an instance runs with {}: stop it, and repeat the restore", path.display())
                }
                lock => locks.push(lock.with_context(|| format!("cannot lock {}", path.display()))?),
            }
            locks.last().map_or(Ok(()), |lock| durable::give(lock.path(), &fs::metadata(parent)?))?;
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

/// Copies `from` beside `path`, with the owner of what is there.
fn prepare(from: &Path, path: &Path) -> Result<PathBuf> {
    let new = with_suffix(path, ".restored");
    durable::remove(&new)?;
    fs::create_dir_all(durable::parent(path))?;
    let like = fs::metadata(path).or_else(|_| fs::metadata(durable::parent(path)))?;
    durable::copy_new(from, &new, &like).with_context(|| format!("cannot write {}", new.display()))?;
    Ok(new)
}

/// Copies the files of an entry beside their target, and returns the renames that put them there.
fn moves_of(directory: &Path, entry: &Entry, kept: &KeptFile) -> Result<Vec<Move>> {
    let path = durable::resolve(&kept.path)?;
    let before = with_suffix(&path, ".before-restore");
    let mut moves = Vec::new();
    if entry.kind == Kind::Database {
        for suffix in SIBLINGS {
            let (path, before) = (with_suffix(&path, suffix), with_suffix(&before, suffix));
            durable::remove(&before)?;
            moves.extend(durable::exists(&path).then_some(Move { path, before: Some(before), new: None }));
        }
    }
    durable::remove(&before)?;
    let new = if entry.files.is_empty() { None } else { Some(prepare(&directory.join(&entry.role), &path)?) };
    let before = durable::exists(&path).then_some(before);
    moves.extend((before.is_some() || new.is_some()).then_some(Move { path, before, new }));
    Ok(moves)
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
