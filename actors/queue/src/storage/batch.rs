//! Lines of a fetcher file on their way into the storage.

use crate::jitter::jitter_hash;

/// One line of a fetcher file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What is before the first space.
    pub attr_path: String,
    /// What is after it; empty while it is staged.
    pub payload: String,
    /// Where the storage keeps the payload meanwhile ([`super::Storage::stage`]).
    pub staged: Option<i64>,
    /// [`jitter_hash`] of the attribute path, computed here so that the storage's thread need not.
    pub order_jitter: i32,
}

/// Entries of one run, ready to be stored: each attribute path once, with its last payload (contract: duplicate attr).
///
/// The order is the one the storage's indexes like best, which is also the order in which new jobs are handed out, so a
/// partly stored batch serves what the whole batch would have served.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    entries: Vec<Entry>,
}

impl Batch {
    /// Makes a batch of (attribute path, payload) pairs in file order.
    pub fn new(lines: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut entries: Vec<Entry> = lines
            .into_iter()
            .map(|(attr_path, payload)| Entry {
                order_jitter: jitter_hash(&attr_path),
                attr_path,
                payload,
                staged: None,
            })
            .collect();
        // Stable, so of equal paths the later line stays behind the earlier one.
        entries.sort_by(|a, b| (a.order_jitter, &a.attr_path).cmp(&(b.order_jitter, &b.attr_path)));
        entries.dedup_by(|later, kept| {
            let same = later.attr_path == kept.attr_path;
            if same {
                std::mem::swap(&mut later.payload, &mut kept.payload);
            }
            same
        });
        Self { entries }
    }

    /// How many entries there are after duplicates are gone.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, for a storage that stages some.
    pub fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    /// The entries from position `from` on; empty beyond the end.
    #[must_use]
    pub fn from_position(&self, from: usize) -> &[Entry] {
        self.entries.get(from..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_last_payload_of_a_path_wins() {
        let lines = [("a", "1"), ("b", "2"), ("a", "3"), ("a", "4"), ("b", "5")];
        let batch = Batch::new(lines.map(|(a, p)| (a.to_owned(), p.to_owned())));
        let found: HashMap<_, _> =
            batch.from_position(0).iter().map(|e| (e.attr_path.as_str(), e.payload.as_str())).collect();
        assert_eq!(batch.len(), 2);
        assert_eq!(found, HashMap::from([("a", "4"), ("b", "5")]));
    }
}
