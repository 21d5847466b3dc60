//! Position of an import, saved beside the imported file for `--resume`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use orchestrator_edge::with_suffix;
use serde::{Deserialize, Serialize};

/// Position of an import: everything before it is settled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// Offset in the file, in bytes.
    pub(super) offset: u64,
    /// Number of lines before it.
    pub(super) line: u64,
}

impl Position {
    /// Saves the position in `file`. An older one is replaced in one step.
    pub(super) fn save(self, file: &Path) -> io::Result<()> {
        let path = path(file);
        let mut temporary = path.clone().into_os_string();
        temporary.push(".new");
        fs::write(&temporary, serde_json::to_string(&self)?)?;
        fs::rename(temporary, path)
    }
}

pub(super) fn path(file: &Path) -> PathBuf {
    with_suffix(file, ".import-position")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// A kill or a full disk between the truncation and the write would otherwise lose the position.
    #[test]
    fn an_older_position_is_replaced_in_one_step() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows.jsonl");
        let older = Position { offset: 10, line: 1 };
        older.save(&file).unwrap();
        let mut opened = fs::File::open(path(&file)).unwrap();
        let newer = Position { offset: 20, line: 2 };
        newer.save(&file).unwrap();
        let mut text = String::new();
        opened.read_to_string(&mut text).unwrap();
        assert_eq!(serde_json::from_str::<Position>(&text).unwrap(), older, "the older file is unchanged");
        assert_eq!(serde_json::from_slice::<Position>(&fs::read(path(&file)).unwrap()).unwrap(), newer);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }
}
