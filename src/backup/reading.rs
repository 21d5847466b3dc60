//! Reading of a backup: the files that its manifest names, and no others.

use std::{
    fs::{File, Metadata},
    io::{self, Read},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{
    durable,
    manifest::{self, CopiedFile},
};

/// Largest manifest, in bytes.
const MANIFEST_MAX: u64 = 256 << 20;

/// Text of a manifest, and the user to whom it belongs.
pub(super) struct ManifestText {
    pub(super) bytes: Vec<u8>,
    pub(super) uid: u32,
}

/// A backup that is restored.
pub(super) struct Backup {
    directory: PathBuf,
    /// The content is on the standard input, each file in the order of [`manifest::Manifest::files`].
    is_stream: bool,
}

impl Backup {
    pub(super) fn new(directory: &Path, is_stream: bool) -> Self {
        Self { directory: directory.to_owned(), is_stream }
    }

    pub(super) fn manifest(&self) -> Result<ManifestText> {
        let path = self.directory.join(manifest::FILE);
        let read = || -> Result<ManifestText> {
            let (mut bytes, mut uid) = (Vec::new(), 0);
            if self.is_stream {
                let mut length = [0; 8];
                io::stdin().read_exact(&mut length)?;
                io::stdin().take(u64::from_le_bytes(length)).read_to_end(&mut bytes)?;
            } else {
                let (file, metadata) = open(&self.directory, Path::new(manifest::FILE))?;
                uid = metadata.uid();
                file.take(MANIFEST_MAX).read_to_end(&mut bytes)?;
            }
            Ok(ManifestText { bytes, uid })
        };
        read()
            .with_context(|| format!("cannot read {}: name a directory that `backup` wrote", path.display()))
    }

    /// Copies a file to the new `path`, and checks it.
    pub(super) fn copy(&self, file: &CopiedFile, path: &Path) -> Result<()> {
        let (content, mode) = self.open(file)?;
        let written = durable::write_new(path, &mut content.take(file.bytes + 1), mode);
        let (_, digest) = written.with_context(|| format!("cannot write {}", path.display()))?;
        ensure!(digest == (file.bytes, file.sha256.clone()), "{}", changed(&self.directory, file));
        Ok(())
    }

    /// Reads a file, and checks it.
    pub(super) fn read(&self, file: &CopiedFile) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        let digest = durable::copy(&mut self.open(file)?.0.take(file.bytes + 1), &mut text)?;
        ensure!(digest == (file.bytes, file.sha256.clone()), "{}", changed(&self.directory, file));
        Ok(text)
    }

    fn open(&self, file: &CopiedFile) -> Result<(Box<dyn Read>, u32)> {
        if self.is_stream {
            let mut mode = [0; 4];
            io::stdin().read_exact(&mut mode).context("the backup is not whole")?;
            return Ok((Box::new(io::stdin().take(file.bytes)), u32::from_le_bytes(mode)));
        }
        let (content, metadata) = open_named(&self.directory, file)?;
        Ok((Box::new(content), metadata.permissions().mode()))
    }
}

/// Opens a file that the manifest names.
pub(super) fn open_named(directory: &Path, file: &CopiedFile) -> Result<(File, Metadata)> {
    let path = directory.join(&file.name);
    open(directory, &file.name)
        .with_context(|| format!("cannot read {}: the backup is not whole", path.display()))
}

/// Text of the error that a file is not that of the manifest.
pub(super) fn changed(directory: &Path, file: &CopiedFile) -> String {
    let path = directory.join(&file.name);
    format!("{} is not the file that was backed up: its checksum differs; use another backup", path.display())
}

/// Opens the regular file `name` below `directory`, without following a link below it.
fn open(directory: &Path, name: &Path) -> Result<(File, Metadata)> {
    let (file, common) = (OFlags::NOFOLLOW | OFlags::NONBLOCK, OFlags::RDONLY | OFlags::CLOEXEC);
    let mut at = openat(CWD, directory, OFlags::DIRECTORY | common, Mode::empty())?;
    let mut names = name.components().peekable();
    while let Some(name) = names.next() {
        let Component::Normal(name) = name else { bail!("its name is not allowed") };
        let kind = if names.peek().is_some() { file | OFlags::DIRECTORY } else { file };
        at = openat(&at, name, kind | common, Mode::empty())?;
    }
    let file = File::from(at);
    let metadata = file.metadata()?;
    ensure!(metadata.is_file(), "it is no regular file");
    Ok((file, metadata))
}
