//! A site that runs provenance only, and what is done with it from outside.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{Instance, TestEnv};

/// A site of its own for one store, with the settings of each start.
#[derive(Debug)]
pub struct ProvenanceEnv {
    base: TestEnv,
    settings: Vec<String>,
}

impl ProvenanceEnv {
    /// For the binary at `binary`: the embedded transport and an SQLite file in the site's directory.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let base = TestEnv::new(binary);
        let [rows, letters] = ["provenance.db", "dead-letters.db"].map(|name| base.path().join(name));
        Self { base, settings: Vec::new() }
            .set(&format!("provenance.sqlite.path={}", rows.display()))
            .set(&format!("provenance.dead_letters={}", letters.display()))
    }

    /// Adds `--set SECTION.KEY=VALUE` to every start.
    #[must_use]
    pub fn set(mut self, assignment: &str) -> Self {
        self.settings.extend(["--set".to_owned(), assignment.to_owned()]);
        self
    }

    /// The directory and the command line.
    pub fn base(&self) -> &TestEnv {
        &self.base
    }

    /// The command that runs provenance on this site, without starting it.
    pub fn command(&self) -> Command {
        self.base.command_of("provenance", &self.settings)
    }

    /// Starts an instance and waits until its endpoint answers.
    pub fn start(&self) -> Instance {
        self.base.start_by(self.command())
    }

    /// Writes a file of lines to import.
    pub fn file(&self, lines: impl IntoIterator<Item = Value>) -> String {
        let text: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
        let path = self.base.path().join("rows.jsonl");
        fs::write(&path, text).expect("write a file of rows");
        path.display().to_string()
    }

    /// `orchestrator provenance ...`, which must succeed.
    pub fn ask(&self, arguments: &[&str]) -> Value {
        let (code, out, err) = self.base.cli(&[&["provenance"], arguments, &["--json"]].concat());
        assert_eq!(code, 0, "{arguments:?}: {err}{}", self.base.log());
        serde_json::from_str(&out).expect("JSON")
    }

    /// Rows of a table.
    pub fn count(&self, table: &str) -> u64 {
        self.ask(&["stats"])[table].as_u64().expect("a count")
    }

    /// Lines of `file` that an import which was cut short knows to be stored.
    pub fn confirmed(&self, file: &str) -> u64 {
        let place = fs::read_to_string(Path::new(&format!("{file}.import-place"))).unwrap_or_default();
        let place: Value = serde_json::from_str(&place).unwrap_or(json!({ "line": 0 }));
        place["line"].as_u64().expect("a line")
    }
}

/// An identifier of a kind and a number, in hex digits.
pub fn sha1_of(kind: u8, number: u32) -> String {
    format!("{:02x}{kind:02x}{number:036x}", number % 256)
}
