//! Section `[provenance]` of the configuration.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::Routing;

/// What the provenance storage works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProvenanceConfig {
    /// Rows that a worker writes together, unless one message has more.
    #[schemars(range(min = 1, max = 10_000))]
    pub batch: u32,
    /// How a row's range is found; all clients of a store must agree.
    pub routing: Routing,
    /// Where rows are kept.
    pub writer: WriterConfig,
    /// The SQLite store.
    pub sqlite: SqliteConfig,
}

/// Section `[provenance.writer]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WriterConfig {
    /// Which store.
    pub kind: WriterKind,
}

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriterKind {
    /// A file; needs no server.
    #[default]
    Sqlite,
}

/// Section `[provenance.sqlite]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SqliteConfig {
    /// The file; created if it is missing.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
}

impl ProvenanceConfig {
    /// For a person at a terminal: how to add a first row and ask for it.
    pub fn greeting(&self) -> String {
        format!(
            "  provenance  {}\n          first rows:   orchestrator provenance import FILE.jsonl\n",
            self.sqlite.path.display()
        )
    }
}

impl Default for ProvenanceConfig {
    fn default() -> Self {
        Self {
            batch: 100,
            routing: Routing::default(),
            writer: WriterConfig::default(),
            sqlite: SqliteConfig::default(),
        }
    }
}

impl Default for SqliteConfig {
    fn default() -> Self {
        Self { path: "var/provenance.db".into() }
    }
}
