//! Renames of a restore that happen all or not at all, whenever the process is killed.
//!
//! While the renames go on, a file with their list is in each directory that they touch. The first of these
//! files decides: while it exists, the restore has not happened, and whoever starts next undoes the renames.
//! The process that renames has it locked.
//!
//! The list has roles and suffixes. The configuration has the paths, since others may be able to write such a
//! file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use orchestrator_edge::{FileIdentity, open_regular_no_link, read_at_most, with_suffix};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::durable;
use crate::{
    config::{Config, Sources},
    topology,
};

/// Name of the journal.
const FILE: &str = ".orchestrator-restore";
/// Largest journal, in bytes.
const SIZE_MAX: u64 = 1 << 20;
/// Suffixes of the files that SQLite keeps beside a database.
pub(super) const SIBLINGS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Two renames: what is at [`Self::path`] to [`Self::before`], and [`Self::prepared`] to the path. Nothing is
/// at `before` at first.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Move {
    pub(super) role: String,
    /// Path of the role, after all links.
    #[serde(skip)]
    pub(super) base: PathBuf,
    /// Empty, or one of [`SIBLINGS`].
    pub(super) suffix: String,
    /// False if there is nothing at the path.
    pub(super) has_before: bool,
    /// False if nothing shall be at the path.
    pub(super) has_new: bool,
}

/// Content of the files.
#[derive(Debug, Serialize, Deserialize)]
struct Journal {
    /// SHA-256 of all paths: with another configuration, the roles are other files.
    paths: String,
    moves: Vec<Move>,
}

/// Renames all or nothing. The new files are synced.
pub(super) fn carry_out(moves: Vec<Move>) -> Result<()> {
    let journal = Journal { paths: digest(&moves), moves };
    let files = journal.files();
    let Some((first, others)) = files.split_first() else { return Ok(()) };
    let sync = || sync(&files);
    // The new files, and the others before the one that decides.
    for file in others {
        journal.write(file)?;
    }
    sync()?;
    let lock = journal.write(first)?;
    sync()?;
    if let Err(error) = journal.moves.iter().try_for_each(Move::forward).and_then(|()| sync()) {
        journal.undo().context("the next start of the program undoes the restore")?;
        return Err(error).context("nothing was restored");
    }
    fs::remove_file(first)?;
    sync()?;
    drop(lock);
    Ok(others.iter().try_for_each(|file| durable::remove(file))?)
}

/// Undoes a restore that was interrupted, before anything of `config` is opened. The restore may have had
/// more of `sources` than `config` has. Returns the line that reports it.
///
/// # Errors
/// A restore is going on, or the renames cannot be undone.
pub(crate) fn recover(config: &Config, sources: Option<&Sources>) -> Result<Option<String>> {
    let mut undone = None;
    let bases = bases(config);
    let files: BTreeSet<_> = bases.values().map(|base| durable::parent(base).join(FILE)).collect();
    for file in files.iter().filter(|file| durable::exists(file)) {
        let name = file.display();
        let whole = sources.and_then(|all| Config::load(&Sources { only: None, ..all.clone() }).ok());
        let bases = whole.as_ref().map_or_else(|| bases.clone(), self::bases);
        let journal = Journal::read(file, &bases)
            .with_context(|| format!("cannot use {name}, the list of an interrupted restore"))?;
        let files = journal.files();
        let Some(first) = files.first() else { bail!("{name} is damaged: it has no renames") };
        if let Some(lock) = lock(first)? {
            // The file at the path now.
            let journal = Journal::read(first, &bases)?;
            journal.undo().with_context(|| format!("cannot undo the interrupted restore of {name}"))?;
            drop(lock);
            undone = Some(format!("undid a restore that was interrupted, as {name} says"));
        }
        durable::remove(file)?;
    }
    Ok(undone)
}

/// Path of each role after all links. A path whose directory does not exist has no journal.
fn bases(config: &Config) -> BTreeMap<String, PathBuf> {
    let kept = topology::files_to_back_up(config).files.into_iter();
    kept.filter_map(|file| Some((file.role, durable::resolve(&file.path).ok()?))).collect()
}

fn digest(moves: &[Move]) -> String {
    let paths: Vec<u8> =
        moves.iter().flat_map(|each| [each.path().as_os_str().as_encoded_bytes(), &[0]].concat()).collect();
    durable::copy(&mut paths.as_slice(), &mut io::sink()).map(|(_, digest)| digest).unwrap_or_default()
}

/// Syncs the directories of `files`.
fn sync(files: &[PathBuf]) -> io::Result<()> {
    files.iter().try_for_each(|file| durable::sync_directory(durable::parent(file)))
}

/// Opens a journal. One of another user could make this one rename files.
fn open(file: &Path) -> io::Result<File> {
    let (opened, metadata) = open_regular_no_link(File::options().read(true), file)?;
    if [0, geteuid().as_raw()].contains(&metadata.uid()) {
        Ok(opened)
    } else {
        Err(io::Error::other(format!("{} belongs to user {}: remove it", file.display(), metadata.uid())))
    }
}

/// Locks the file that decides; returns `None` if it does not exist.
fn lock(first: &Path) -> Result<Option<File>> {
    let file = match open(first) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            bail!("a restore is going on, see {}: wait for its end", first.display())
        }
        locked => locked?,
    }
    // A restore may have ended since the file was opened.
    let is_there = FileIdentity::at(first)? == Some(FileIdentity::of(&file.metadata()?));
    Ok(is_there.then_some(file))
}

impl Journal {
    /// Reads a journal, with the paths of `bases`.
    fn read(file: &Path, bases: &BTreeMap<String, PathBuf>) -> Result<Self> {
        let text = read_at_most(&open(file)?, SIZE_MAX)?;
        let mut journal: Self = serde_json::from_slice(&text).context(
            "it is damaged, or of an earlier version: run `backup` of that version as the user of the files, or rename the files \
             *.before-restore back and remove it",
        )?;
        for each in &mut journal.moves {
            ensure!(
                each.suffix.is_empty() || SIBLINGS.contains(&each.suffix.as_str()),
                "it is damaged: a suffix is not allowed"
            );
            each.base = bases.get(&each.role).cloned().unwrap_or_default();
        }
        ensure!(
            digest(&journal.moves) == journal.paths,
            "the restore had a configuration with other paths or sections: repeat the command with that one"
        );
        Ok(journal)
    }

    /// Paths of all files with it; the first one decides.
    fn files(&self) -> Vec<PathBuf> {
        let files = self.moves.iter().map(|each| durable::parent(&each.base).join(FILE));
        files.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Writes the journal to `file` in one step, locked and synced. The caller syncs the directory.
    fn write(&self, file: &Path) -> Result<File> {
        let new = with_suffix(file, ".new");
        durable::remove(&new)?;
        let (written, _) = durable::write_new(&new, &mut serde_json::to_vec(self)?.as_slice(), 0o600)?;
        written.lock()?;
        fs::rename(&new, file)?;
        Ok(written)
    }

    /// Undoes the renames, and removes all files of the journal, the one that decides last. May be repeated.
    fn undo(&self) -> Result<()> {
        for each in self.moves.iter().rev() {
            each.back().with_context(|| format!("cannot bring back {}", each.path().display()))?;
        }
        let files = self.files();
        sync(&files)?;
        files.iter().rev().try_for_each(|file| durable::remove(file))?;
        Ok(sync(&files)?)
    }
}

impl Move {
    pub(super) fn path(&self) -> PathBuf {
        with_suffix(&self.base, &self.suffix)
    }

    pub(super) fn before(&self) -> PathBuf {
        with_suffix(&with_suffix(&self.base, ".before-restore"), &self.suffix)
    }

    pub(super) fn prepared(&self) -> PathBuf {
        with_suffix(&self.base, ".restored")
    }

    fn forward(&self) -> io::Result<()> {
        if self.has_before {
            fs::rename(self.path(), self.before())?;
        }
        if self.has_new { fs::rename(self.prepared(), self.path()) } else { Ok(()) }
    }

    fn back(&self) -> io::Result<()> {
        if !self.has_before {
            durable::remove(&self.path())?;
        } else if durable::exists(&self.before()) {
            durable::remove(&self.path())?;
            fs::rename(self.before(), self.path())?;
        }
        // Else it was not renamed yet, or is back already.
        if self.has_new { durable::remove(&self.prepared()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kill between any two steps leaves what the first `n` renames did, and the journal.
    #[test]
    fn renames_are_undone_after_each_step_and_undoing_may_be_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let state = || -> Vec<(String, String)> {
            let mut found: Vec<_> = fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .map(|path| {
                    let text = if path.is_dir() { path.join("x") } else { path.clone() };
                    (
                        path.file_name().unwrap().to_str().unwrap().to_owned(),
                        fs::read_to_string(text).unwrap(),
                    )
                })
                .collect();
            found.sort();
            found
        };
        let (mut before, mut steps) = (Vec::new(), 0);
        loop {
            let _ = fs::remove_dir_all(folder.path());
            fs::create_dir_all(path("directory")).unwrap();
            fs::write(path("directory/x"), "old").unwrap();
            fs::write(path("file"), "old").unwrap();
            fs::write(path("log"), "old").unwrap();
            if steps == 0 {
                before = state();
            }
            fs::create_dir(path("directory.restored")).unwrap();
            fs::write(path("directory.restored/x"), "new").unwrap();
            fs::write(path("file.restored"), "new").unwrap();
            fs::write(path("fresh.restored"), "new").unwrap();
            let each = |name: &str, has_old: bool, has_new: bool| Move {
                role: name.to_owned(),
                base: path(name),
                suffix: String::new(),
                has_before: has_old,
                has_new,
            };
            let moves = vec![
                each("log", true, false),
                each("file", true, true),
                each("directory", true, true),
                each("fresh", false, true),
            ];
            let journal = Journal { paths: digest(&moves), moves };
            let renames = journal.moves.iter().flat_map(|each| {
                let old = each.has_before.then(|| (each.path(), each.before()));
                old.into_iter()
                    .chain(each.has_new.then(|| (each.prepared(), each.path())))
                    .collect::<Vec<_>>()
            });
            let renames: Vec<_> = renames.collect();
            if steps > renames.len() {
                return;
            }
            renames[..steps].iter().for_each(|(from, to)| fs::rename(from, to).unwrap());
            drop(journal.write(&path(FILE)).unwrap());
            let bases = journal.moves.iter().map(|each| (each.role.clone(), each.base.clone())).collect();
            let journal = Journal::read(&path(FILE), &bases).unwrap();
            for each in journal.moves.iter().rev().take(2) {
                each.back().unwrap();
            }
            journal.undo().unwrap();
            assert_eq!(state(), before, "after {steps} renames");
            steps += 1;
        }
    }
}
