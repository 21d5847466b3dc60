//! Writing of a backup.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError},
    io::{self, Cursor, Read},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use orchestrator_admin::timestamp::rfc3339;
use orchestrator_edge::{FileIdentity, open_regular, open_regular_no_link, with_suffix};
use orchestrator_observe::now_ms;
use orchestrator_subsystem::{BackupFile, BackupKind};
use tempfile::TempDir;

use super::{
    durable, handing_over, journal,
    manifest::{self, CopiedFile, Entry, Kind, Manifest},
};
use crate::{
    config::{Config, Sources},
    state_owner, topology,
};

/// Copies what the instance of `config` keeps, and the configuration `files`, into the new `directory`. If
/// root runs it, another process does so as the owner of the files, and prints the manifest: then this
/// returns none. `note` gets what an interrupted restore left.
///
/// # Errors
/// The directory exists, or something cannot be copied. Then there is no directory.
pub(crate) fn back_up(
    directory: &Path,
    config: &Config,
    sources: &Sources,
    note: impl FnOnce(Option<String>),
) -> Result<Option<Manifest>> {
    let write = |partial: &Path| {
        note(journal::recover(config, Some(sources))?);
        write(partial, config, sources).map(Some)
    };
    if handing_over::is_given() {
        return write(Path::new(handing_over::DIRECTORY));
    }
    let owner = state_owner::of_state(config)?;
    if let Some(owner) = owner
        && state_owner::on_the_way(directory)?.0.is_some()
    {
        return Err(owner.go_on());
    }
    // Strip a trailing slash: `dir/` + `.partial` would be a file inside `dir`.
    let directory = std::path::absolute(directory.components().collect::<PathBuf>())?;
    ensure!(!durable::exists(&directory), "{} exists: name a directory that does not", directory.display());
    let partial = with_suffix(&directory, ".partial");
    let written = begin(&partial).and_then(|lock| {
        let manifest = match owner {
            Some(owner) => handing_over::fill(&lock, owner).map(|()| None),
            None => write(&partial),
        };
        let manifest = manifest.inspect_err(|_| drop(fs::remove_dir_all(&partial)))?;
        fs::rename(&partial, &directory)?;
        durable::sync_directory(durable::parent(&directory))?;
        drop(lock);
        Ok(manifest)
    });
    written.with_context(|| format!("there is no backup in {}", directory.display()))
}

/// Creates the directory of a backup that is being written, in place of one that was interrupted, and locks
/// it.
fn begin(partial: &Path) -> Result<File> {
    fs::create_dir_all(durable::parent(partial))?;
    if durable::exists(partial) {
        let former = durable::open_directory(partial)
            .with_context(|| format!("cannot replace {}: remove it", partial.display()))?;
        if let Err(TryLockError::WouldBlock) = former.try_lock() {
            bail!("another backup writes into {}: wait for its end", partial.display());
        }
        fs::remove_dir_all(partial)?;
    }
    DirBuilder::new()
        .mode(0o700)
        .create(partial)
        .with_context(|| format!("cannot create {}", partial.display()))?;
    let lock = durable::open_directory(partial)?;
    lock.lock()?;
    Ok(lock)
}

fn write(partial: &Path, config: &Config, sources: &Sources) -> Result<Manifest> {
    let set = topology::files_to_back_up(config);
    let mut manifest = Manifest {
        version: manifest::VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        begun: rfc3339(now_ms()),
        entries: Vec::new(),
        not_included: set.elsewhere,
    };
    for file in &set.files {
        let entry = entry(partial, file).with_context(|| format!("cannot copy {}", file.path.display()))?;
        manifest.entries.push(entry);
    }
    for (i, path) in sources.files.iter().enumerate() {
        let name = PathBuf::from(format!("configuration/{}.toml", i + 1));
        let copied = open(open_regular, path)
            .and_then(|file| store(partial, &name, file.map(|(file, _)| (file, 0o600))));
        let files = copied.with_context(|| format!("cannot copy {}", path.display()))?.into_iter().collect();
        let (role, path) = (format!("configuration/{}", i + 1), std::path::absolute(path)?);
        manifest.entries.push(Entry { role, kind: Kind::Configuration, path, user_version: None, files });
    }
    let text = serde_json::to_vec_pretty(&manifest)?;
    durable::write_new(&partial.join(manifest::FILE), &mut text.as_slice(), 0o600)?;
    let names = manifest.entries.iter().flat_map(|entry| &entry.files).map(|file| partial.join(&file.name));
    let directories: BTreeSet<PathBuf> =
        names.flat_map(|name| name.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>()).collect();
    for directory in directories.iter().filter(|directory| directory.starts_with(partial)) {
        durable::sync_directory(directory)?;
    }
    durable::sync_directory(partial)?;
    Ok(manifest)
}

/// Copies what is at the path of `kept`.
fn entry(partial: &Path, kept: &BackupFile) -> Result<Entry> {
    let name = Path::new(&kept.role);
    let (mut user_version, mut files) = (None, Vec::new());
    let kind = match kept.kind {
        BackupKind::Database { copy, check } => {
            if durable::exists(&kept.path) {
                let mode = fs::metadata(&kept.path)?.permissions().mode();
                let folder = folder_for_sqlite(partial)?;
                let to = folder.as_ref().map_or(partial.join(name), |folder| folder.path().join("copy"));
                fs::create_dir_all(durable::parent(&to))?;
                user_version = Some(copy(&kept.path, &to)?);
                check(&to).map_err(|fault| anyhow::anyhow!("the database is damaged: {fault}"))?;
                let mut file = File::open(&to)?;
                if folder.is_some() {
                    files.extend(store(partial, name, Some((file, mode)))?);
                } else {
                    file.set_permissions(Permissions::from_mode(mode))?;
                    file.sync_all()?;
                    let (bytes, sha256) = durable::copy(&mut file, &mut io::sink())?;
                    files.push(CopiedFile { name: name.to_owned(), bytes, sha256 });
                }
            }
            Kind::Database
        }
        BackupKind::File => {
            files.extend(store(partial, name, open(open_regular_no_link, &kept.path)?)?);
            Kind::File
        }
        BackupKind::Lines => {
            let lines = open(open_regular, &kept.path)?.map(whole_lines).transpose()?;
            files.extend(store(partial, name, lines)?);
            Kind::File
        }
        BackupKind::Directory => {
            for found in names_in(&kept.path)? {
                let file = open(open_regular_no_link, &kept.path.join(&found))?;
                files.extend(store(partial, &name.join(&found), file)?);
            }
            Kind::Directory
        }
    };
    Ok(Entry { role: kept.role.clone(), kind, path: std::path::absolute(&kept.path)?, user_version, files })
}

/// Leaves out files that are being written.
fn names_in(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    if !durable::exists(directory) {
        return Ok(names);
    }
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().into_string();
        names.extend(name.ok().filter(|name| !name.starts_with('.')));
    }
    names.sort();
    Ok(names)
}

/// Opens a file by `open`, and returns it with its mode; `None` if there is no file.
fn open(open: Open, path: &Path) -> Result<Option<(File, u32)>> {
    match open(File::options().read(true), path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => {
            opened.map(|(file, metadata)| Some((file, metadata.permissions().mode()))).map_err(Into::into)
        }
    }
}

/// A way to open a regular file: others may write into some directories, where a link must not choose a file
/// of this user.
type Open = fn(&mut OpenOptions, &Path) -> io::Result<(File, Metadata)>;

/// SQLite needs a folder for the copy of a database if this user cannot name a path below `partial`, which
/// another user opened.
fn folder_for_sqlite(partial: &Path) -> Result<Option<TempDir>> {
    let Ok(path) = fs::read_link(partial) else { return Ok(None) };
    if FileIdentity::at(&path).is_ok_and(|found| found.is_some()) {
        return Ok(None);
    }
    // `/tmp` may be in memory.
    let folder = std::env::var_os("TMPDIR").unwrap_or_else(|| "/var/tmp".into());
    let made = tempfile::Builder::new().prefix("orchestrator-backup-").tempdir_in(&folder);
    let name = folder.display();
    Ok(Some(made.with_context(|| format!("cannot use {name} for the copies of databases: set TMPDIR"))?))
}

/// Writes a file of the backup, unless there is none.
fn store(partial: &Path, name: &Path, from: Option<(impl Read, u32)>) -> Result<Option<CopiedFile>> {
    let Some((mut content, mode)) = from else { return Ok(None) };
    let to = partial.join(name);
    fs::create_dir_all(durable::parent(&to))?;
    let (_, (bytes, sha256)) = durable::write_new(&to, &mut content, mode)?;
    Ok(Some(CopiedFile { name: name.to_owned(), bytes, sha256 }))
}

/// Reads a file up to the end of its last whole line.
fn whole_lines((mut file, mode): (File, u32)) -> io::Result<(Cursor<Vec<u8>>, u32)> {
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    Ok((Cursor::new(text), mode))
}
