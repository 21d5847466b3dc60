//! Renames of a restore that happen all or not at all, whenever the process is killed.
//!
//! While the renames go on, a file with their list is in each directory that they touch. The first of these files decides: while it
//! exists, the restore has not happened, and whoever starts next undoes the renames. The process that renames has it locked.

use std::{
    collections::BTreeSet,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use orchestrator_edge::{FileIdentity, with_suffix};
use serde::{Deserialize, Serialize};

use super::durable;
use crate::{config::Config, topology};

/// Name of the journal.
const FILE: &str = ".orchestrator-restore";

/// Two renames: what is at `path` to `before`, and `new` to `path`. Nothing is at `before` at first.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Move {
    pub(super) path: PathBuf,
    /// `None` if there is nothing at `path`.
    pub(super) before: Option<PathBuf>,
    /// `None` if nothing shall be at `path`.
    pub(super) new: Option<PathBuf>,
}

/// Content of the files.
#[derive(Debug, Serialize, Deserialize)]
struct Journal {
    /// Paths of all files with it; the first one decides.
    files: Vec<PathBuf>,
    moves: Vec<Move>,
}

/// Renames all or nothing. The new files are synced.
pub(super) fn carry_out(moves: Vec<Move>) -> Result<()> {
    let directories: BTreeSet<_> = moves.iter().map(|each| durable::parent(&each.path).to_owned()).collect();
    let files: Vec<_> = directories.iter().map(|directory| directory.join(FILE)).collect();
    let journal = Journal { files, moves };
    let Some((first, others)) = journal.files.split_first() else { return Ok(()) };
    let sync = || directories.iter().try_for_each(|directory| durable::sync_directory(directory));
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

/// Undoes a restore that was interrupted, before anything of `config` is opened. Returns the line that reports it.
///
/// # Errors
/// A restore is going on, or the renames cannot be undone.
pub(crate) fn recover(config: &Config) -> Result<Option<String>> {
    let mut undone = None;
    let kept = topology::kept(config).files;
    // A path whose directory does not exist has no journal.
    let paths = kept.iter().filter_map(|file| durable::resolve(&file.path).ok());
    let files: BTreeSet<_> = paths.map(|path| durable::parent(&path).join(FILE)).collect();
    for file in files.iter().filter(|file| durable::exists(file)) {
        let name = file.display();
        let read = |file: &Path| -> Result<Journal> { Ok(serde_json::from_slice(&fs::read(file)?)?) };
        let journal =
            read(file).with_context(|| format!("cannot read {name}, the list of an interrupted restore"))?;
        let Some(first) = journal.files.first() else { bail!("{name} is damaged: it names no file") };
        if let Some(lock) = lock(first)? {
            read(first)?.undo().with_context(|| format!("cannot undo the interrupted restore of {name}"))?;
            drop(lock);
            undone = Some(format!("undid a restore that was interrupted, as {name} says"));
        }
        durable::remove(file)?;
    }
    Ok(undone)
}

/// Locks the file that decides; returns `None` if it does not exist.
fn lock(first: &Path) -> Result<Option<File>> {
    let file = match File::open(first) {
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
    /// Writes the journal to `file` in one step, locked and synced. The caller syncs the directory.
    fn write(&self, file: &Path) -> Result<File> {
        let new = with_suffix(file, ".new");
        durable::remove(&new)?;
        let written = durable::write_new(&new, &mut serde_json::to_vec(self)?.as_slice(), 0o600)?;
        durable::give(&new, &fs::metadata(durable::parent(file))?)?;
        written.lock()?;
        fs::rename(&new, file)?;
        Ok(written)
    }

    /// Undoes the renames, and removes all files of the journal, the one that decides last. May be repeated.
    fn undo(&self) -> Result<()> {
        for each in self.moves.iter().rev() {
            each.back().with_context(|| format!("cannot bring back {}", each.path.display()))?;
        }
        let sync = || {
            let directories = self.files.iter().map(|file| durable::parent(file));
            directories.into_iter().try_for_each(durable::sync_directory)
        };
        sync()?;
        self.files.iter().rev().try_for_each(|file| durable::remove(file))?;
        Ok(sync()?)
    }
}

impl Move {
    fn forward(&self) -> io::Result<()> {
        if let Some(before) = &self.before {
            fs::rename(&self.path, before)?;
        }
        self.new.as_ref().map_or(Ok(()), |new| fs::rename(new, &self.path))
    }

    fn back(&self) -> io::Result<()> {
        match &self.before {
            Some(before) if durable::exists(before) => {
                durable::remove(&self.path)?;
                fs::rename(before, &self.path)?;
            }
            // It was not renamed yet, or is back already.
            Some(_) => {}
            None => durable::remove(&self.path)?,
        }
        self.new.as_ref().map_or(Ok(()), |new| durable::remove(new))
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
            fs::create_dir(path("directory.new")).unwrap();
            fs::write(path("directory.new/x"), "new").unwrap();
            fs::write(path("file.new"), "new").unwrap();
            fs::write(path("fresh.new"), "new").unwrap();
            let each = |name: &str, has_old: bool, has_new: bool| Move {
                path: path(name),
                before: has_old.then(|| path(&format!("{name}.old"))),
                new: has_new.then(|| path(&format!("{name}.new"))),
            };
            let moves = vec![
                each("log", true, false),
                each("file", true, true),
                each("directory", true, true),
                each("fresh", false, true),
            ];
            let journal = Journal { files: vec![path(FILE)], moves };
            let renames = journal.moves.iter().flat_map(|each| {
                let old = each.before.iter().map(|before| (each.path.clone(), before.clone()));
                old.chain(each.new.iter().map(|new| (new.clone(), each.path.clone()))).collect::<Vec<_>>()
            });
            let renames: Vec<_> = renames.collect();
            if steps > renames.len() {
                return;
            }
            renames[..steps].iter().for_each(|(from, to)| fs::rename(from, to).unwrap());
            drop(journal.write(&path(FILE)).unwrap());
            for each in journal.moves.iter().rev().take(2) {
                each.back().unwrap();
            }
            journal.undo().unwrap();
            assert_eq!(state(), before, "after {steps} renames");
            steps += 1;
        }
    }
}
