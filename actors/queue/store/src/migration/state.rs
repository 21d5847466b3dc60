//! State of a migration, kept in its target until it is complete.

use serde::{Deserialize, Serialize};

use super::table::{Table, Value};

/// Progress of a migration. The target has the rows up to it, since each batch is written together with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Command that finishes the migration.
    pub command: String,
    /// Name of the source, for operators.
    pub source: String,
    /// Checksum of the source's rows.
    pub checksum: String,
    /// Number of tables that are written to their ends.
    tables: usize,
    /// Number of rows of the next table that are written.
    pub rows: u64,
    /// Key of the last one.
    key: Option<Vec<Value>>,
}

impl State {
    /// Nothing is written yet.
    #[must_use]
    pub fn new(command: &str, source: &str, checksum: String) -> Self {
        let (command, source) = (command.to_owned(), source.to_owned());
        Self { command, source, checksum, tables: 0, rows: 0, key: None }
    }

    /// Returns the table whose rows are next, and the key of the last one that is written.
    #[must_use]
    pub fn next(&self) -> Option<(Table, Option<&[Value]>)> {
        Some((*Table::ALL.get(self.tables)?, self.key.as_deref()))
    }

    /// Records a batch of rows that ends with the row `last`.
    pub fn written(&mut self, table: Table, rows: usize, last: &[Value]) {
        self.rows += rows as u64;
        self.key = Some(table.key_of(last));
    }

    /// Records the end of the table.
    pub fn table_ended(&mut self) {
        *self = Self { tables: self.tables + 1, rows: 0, key: None, ..self.clone() };
    }
}
