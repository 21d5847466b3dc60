//! Checksum of the rows of a queue, the same on each store.

use orchestrator_queue_store::migration::{Table, Value};
use sha2::{Digest, Sha256};

/// Checksum of the rows of one table in the order of its key.
#[derive(Debug, Clone)]
pub(super) struct Checksum {
    hash: Sha256,
    pub(super) rows: u64,
}

impl Checksum {
    pub(super) fn of(table: Table) -> Self {
        let mut hash = Sha256::new();
        hash.update(table.name());
        Self { hash, rows: 0 }
    }

    /// Adds a row. Each value has its kind and its length before it, so that no two lists of rows have the
    /// same bytes.
    pub(super) fn add(&mut self, row: &[Value]) {
        self.rows += 1;
        for value in row {
            match value {
                Value::Null => self.hash.update([0]),
                Value::Integer(number) => {
                    self.hash.update([1]);
                    self.hash.update(number.to_le_bytes());
                }
                Value::Text(text) => {
                    self.hash.update([2]);
                    self.hash.update((text.len() as u64).to_le_bytes());
                    self.hash.update(text);
                }
            }
        }
    }

    pub(super) fn text(&self) -> String {
        hex(&self.hash.clone().finalize())
    }
}

pub(super) fn total<'a>(tables: impl IntoIterator<Item = &'a Checksum>) -> String {
    let mut hash = Sha256::new();
    for table in tables {
        hash.update(table.hash.clone().finalize());
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_tells_rows_and_values_apart() {
        let text = |text: &str| Value::Text(text.to_owned());
        let all: [&[&[Value]]; 7] = [
            &[],
            &[&[text("ab"), text("c")]],
            &[&[text("a"), text("bc")]],
            &[&[text("a"), Value::Null]],
            &[&[text("a"), text("")]],
            &[&[Value::Integer(0), text("")]],
            &[&[text("ab")], &[text("c"), Value::Null]],
        ];
        let of = |table, rows: &[&[Value]]| {
            let mut checksum = Checksum::of(table);
            rows.iter().for_each(|row| checksum.add(row));
            checksum.text()
        };
        let mut texts: Vec<String> = all.iter().map(|rows| of(Table::Log, rows)).collect();
        texts.extend(all.iter().map(|rows| of(Table::Bump, rows)));
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 2 * all.len());
        assert_eq!(of(Table::Log, all[1]), of(Table::Log, all[1]));
    }
}
