//! The file `manifest.json` of a backup.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use orchestrator_subsystem::text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name of the file.
pub(super) const FILE: &str = "manifest.json";
/// Version of its format.
pub(super) const VERSION: u64 = 1;

/// Content of a backup.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Version of the format.
    pub(super) version: u64,
    /// Version of the program that wrote the backup.
    pub(super) program: String,
    /// Time of its beginning. Everything that was acknowledged before is in the backup.
    pub(super) begun: String,
    pub(super) entries: Vec<Entry>,
    /// State in databases and brokers that have administrators of their own.
    pub(super) not_included: Vec<String>,
}

/// Something that the program keeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Name by which a restore finds the path in the configuration.
    pub(super) role: String,
    pub(super) kind: Kind,
    /// Path of the original.
    pub(super) path: PathBuf,
    /// Version of a database's tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user_version: Option<i64>,
    /// Its files: one, or those of a directory; none if there was nothing at the path, so that a restore
    /// leaves nothing there.
    pub(super) files: Vec<CopiedFile>,
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Database,
    File,
    Directory,
    Configuration,
}

/// A file of the backup.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CopiedFile {
    /// Path in the backup.
    pub(super) name: PathBuf,
    pub(super) bytes: u64,
    /// SHA-256 in hex digits.
    pub(super) sha256: String,
}

/// Line of the list for a terminal.
#[derive(Serialize, JsonSchema)]
struct Row {
    role: String,
    kind: Kind,
    bytes: u64,
    path: String,
}

impl Manifest {
    /// Parses the manifest of the backup in `directory`.
    ///
    /// # Errors
    /// It is damaged, or of another version.
    pub(super) fn parse(directory: &Path, text: &[u8]) -> Result<Self> {
        let path = directory.join(FILE);
        let name = path.display();
        let value: Value = serde_json::from_slice(text).with_context(|| format!("{name} is damaged"))?;
        ensure!(
            value["version"] == VERSION,
            "{name} has version {}, and this program knows version {VERSION}: use the program that wrote it, {}",
            value["version"],
            value["program"]
        );
        serde_json::from_value(value).with_context(|| format!("{name} is damaged"))
    }

    /// All files, those of the configuration last.
    pub(super) fn files(&self) -> impl Iterator<Item = &CopiedFile> {
        let of = |is_last: bool| {
            self.entries.iter().filter(move |entry| (entry.kind == Kind::Configuration) == is_last)
        };
        of(false).chain(of(true)).flat_map(|entry| &entry.files)
    }

    /// Configuration files, in the order of `--config`.
    pub(super) fn configuration(&self) -> impl Iterator<Item = &CopiedFile> {
        let files = self.entries.iter().filter(|entry| entry.kind == Kind::Configuration);
        files.filter_map(|entry| entry.files.first())
    }

    /// Formats the entries that have files, and then what is not included.
    pub(crate) fn list(&self) -> String {
        let row = |entry: &Entry| Row {
            role: entry.role.clone(),
            kind: entry.kind,
            bytes: entry.files.iter().map(|file| file.bytes).sum(),
            path: entry.path.display().to_string(),
        };
        let rows: Vec<_> = self.entries.iter().filter(|entry| !entry.files.is_empty()).map(row).collect();
        let mut list = text::of(&rows, "there is nothing to copy yet\n");
        for line in &self.not_included {
            list.push_str(&format!("not included, since its administrator backs it up: {line}\n"));
        }
        list
    }
}
