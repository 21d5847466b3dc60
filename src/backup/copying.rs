//! Writing of a backup.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, TryLockError},
    io::{self, Cursor, Read},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use orchestrator_admin::timestamp::rfc3339;
use orchestrator_edge::with_suffix;
use orchestrator_subsystem::{KeptFile, KeptKind};
use orchestrator_supervise::now_ms;
use rustix::fs::OFlags;

use super::{
    durable,
    manifest::{self, CopiedFile, Entry, Kind, Manifest},
};
use crate::{config::Config, topology};

/// Copies what the instance of `config` keeps, and the configuration `files`, into the new `directory`.
///
/// # Errors
/// The directory exists, or something cannot be copied. Then there is no directory.
pub(crate) fn back_up(directory: &Path, config: &Config, files: &[PathBuf]) -> Result<Manifest> {
    // Without a slash at the end, which would change the meaning of a suffix.
    let directory = std::path::absolute(directory.components().collect::<PathBuf>())?;
    ensure!(!durable::exists(&directory), "{} exists: name a directory that does not", directory.display());
    let partial = with_suffix(&directory, ".partial");
    let written = begin(&partial).and_then(|lock| {
        let manifest = write(&partial, config, files).inspect_err(|_| drop(fs::remove_dir_all(&partial)))?;
        fs::rename(&partial, &directory)?;
        durable::sync_directory(durable::parent(&directory))?;
        drop(lock);
        Ok(manifest)
    });
    written.with_context(|| format!("there is no backup in {}", directory.display()))
}

/// Creates the directory of a backup that is being written, in place of one that was interrupted, and locks it.
fn begin(partial: &Path) -> Result<File> {
    fs::create_dir_all(durable::parent(partial))?;
    if let Ok(former) = File::open(partial) {
        if let Err(TryLockError::WouldBlock) = former.try_lock() {
            bail!("another backup writes into {}: wait for its end", partial.display());
        }
        fs::remove_dir_all(partial)?;
    }
    DirBuilder::new()
        .mode(0o700)
        .create(partial)
        .with_context(|| format!("cannot create {}", partial.display()))?;
    let lock = File::open(partial)?;
    lock.lock()?;
    Ok(lock)
}

fn write(partial: &Path, config: &Config, files: &[PathBuf]) -> Result<Manifest> {
    let kept = topology::kept(config);
    let mut manifest = Manifest {
        version: manifest::VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        begun: rfc3339(now_ms()),
        entries: Vec::new(),
        not_included: kept.elsewhere,
    };
    for file in &kept.files {
        let entry = entry(partial, file).with_context(|| format!("cannot copy {}", file.path.display()))?;
        manifest.entries.push(entry);
    }
    for (i, path) in files.iter().enumerate() {
        let name = PathBuf::from(format!("configuration/{}.toml", i + 1));
        let copied =
            open(path, FOLLOW).and_then(|file| store(partial, &name, file.map(|(file, _)| (file, 0o600))));
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
fn entry(partial: &Path, kept: &KeptFile) -> Result<Entry> {
    let name = Path::new(&kept.role);
    let (mut user_version, mut files) = (None, Vec::new());
    let kind = match kept.kind {
        KeptKind::Database { copy, check } => {
            if durable::exists(&kept.path) {
                let (to, mode) = (partial.join(name), fs::metadata(&kept.path)?.permissions());
                fs::create_dir_all(durable::parent(&to))?;
                user_version = Some(copy(&kept.path, &to).map_err(anyhow::Error::msg)?);
                check(&to).map_err(|fault| anyhow::anyhow!("the database is damaged: {fault}"))?;
                let file = File::open(&to)?;
                file.set_permissions(mode)?;
                file.sync_all()?;
                files.push(copied(partial, name)?);
            }
            Kind::Database
        }
        KeptKind::File => {
            files.extend(store(partial, name, open(&kept.path, NO_LINK)?)?);
            Kind::File
        }
        KeptKind::Lines => {
            let lines = open(&kept.path, FOLLOW)?.map(whole_lines).transpose()?;
            files.extend(store(partial, name, lines)?);
            Kind::File
        }
        KeptKind::Directory => {
            for found in names_in(&kept.path)? {
                let file = open(&kept.path.join(&found), NO_LINK)?;
                files.extend(store(partial, &name.join(&found), file)?);
            }
            Kind::Directory
        }
    };
    Ok(Entry { role: kept.role.clone(), kind, path: std::path::absolute(&kept.path)?, user_version, files })
}

/// Returns the names in a directory, without those of files that are being written.
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

/// Flags of an open file: a named pipe must not block.
const FOLLOW: OFlags = OFlags::NONBLOCK;
/// As [`FOLLOW`], for files in directories that others may write into: a link must not choose a file that only root may read.
const NO_LINK: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW);

/// Opens a regular file, and returns it with its mode; `None` if there is no file.
fn open(path: &Path, flags: OFlags) -> Result<Option<(File, u32)>> {
    let file = match File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let metadata = file.metadata()?;
    ensure!(metadata.is_file(), "it is no regular file");
    Ok(Some((file, metadata.permissions().mode())))
}

/// Writes a file of the backup, unless there is none.
fn store(partial: &Path, name: &Path, from: Option<(impl Read, u32)>) -> Result<Option<CopiedFile>> {
    let Some((mut content, mode)) = from else { return Ok(None) };
    let to = partial.join(name);
    fs::create_dir_all(durable::parent(&to))?;
    durable::write_new(&to, &mut content, mode)?;
    copied(partial, name).map(Some)
}

/// Reads a file up to the end of its last whole line.
fn whole_lines((mut file, mode): (File, u32)) -> io::Result<(Cursor<Vec<u8>>, u32)> {
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    Ok((Cursor::new(text), mode))
}

fn copied(partial: &Path, name: &Path) -> Result<CopiedFile> {
    let (bytes, sha256) = durable::digest(&partial.join(name))?;
    Ok(CopiedFile { name: name.to_owned(), bytes, sha256 })
}
