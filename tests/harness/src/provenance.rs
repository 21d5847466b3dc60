//! Test environment of the provenance subsystem, and its client commands.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{Instance, TestEnv};

/// Environment with one store and the settings of each start.
#[derive(Debug)]
pub struct ProvenanceEnv {
    base: TestEnv,
    settings: Vec<String>,
}

impl ProvenanceEnv {
    /// Creates an environment with the embedded transport and an SQLite file in its directory.
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

    /// Directory, log and command line.
    pub fn base(&self) -> &TestEnv {
        &self.base
    }

    /// Command that runs provenance.
    pub fn command(&self) -> Command {
        self.base.command_of("provenance", &self.settings)
    }

    /// Starts an instance and waits until its endpoint answers.
    pub fn start(&self) -> Instance {
        self.base.start_by(self.command())
    }

    /// Writes a file of rows to import and returns its path.
    pub fn file(&self, lines: impl IntoIterator<Item = Value>) -> String {
        let text: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
        let path = self.base.path().join("rows.jsonl");
        fs::write(&path, text).expect("write a file of rows");
        path.display().to_string()
    }

    /// Runs `orchestrator provenance ARGUMENTS --json`, which must succeed, and returns its output.
    pub fn ask(&self, arguments: &[&str]) -> Value {
        let (code, out, err) = self.base.cli(&[&["provenance"], arguments, &["--json"]].concat());
        assert_eq!(code, 0, "{arguments:?}: {err}{}", self.base.log());
        serde_json::from_str(&out).expect("JSON")
    }

    /// Number of rows of a table.
    pub fn count(&self, table: &str) -> u64 {
        self.ask(&["stats"])[table].as_u64().expect("a count")
    }

    /// Lines of `file` that an interrupted import has recorded as stored.
    pub fn confirmed(&self, file: &str) -> u64 {
        let position = fs::read_to_string(Path::new(&format!("{file}.import-position"))).unwrap_or_default();
        let position: Value = serde_json::from_str(&position).unwrap_or(json!({ "line": 0 }));
        position["line"].as_u64().expect("a line")
    }
}

/// SHA-1 id of an object `kind` and `number`, in hex digits.
pub fn sha1_of(kind: u8, number: u32) -> String {
    format!("{:02x}{kind:02x}{number:036x}", number % 256)
}
