//! Batches of entries for the storage.

use crate::jitter::jitter_hash;

/// A line of a fetcher file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Text before the first space.
    pub attr_path: String,
    /// Text after the first space; empty while staged.
    pub payload: String,
    /// Position of the staged payload in the storage ([`super::Storage::stage`]).
    pub staged: Option<i64>,
    /// [`jitter_hash`] of the attribute path, computed outside the storage's thread.
    pub order_jitter: i32,
}

/// Entries of one run, each attribute path once with its last payload (CONTRACT QC17).
///
/// The order of entries minimizes the pages written. Two indexes of the storage are sorted by
/// attribute path and two by its hash, so entries close in both are stored together, in tiles.
/// Tiles follow the order of hand-outs, and entries of a tile are sorted by path. The first tile
/// follows the order of hand-outs itself, so that a partly stored batch hands out the same jobs as
/// a complete one.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    entries: Vec<Entry>,
}

/// Batches with at most this number of entries are one tile.
const TILED_LEN_MIN: usize = 8_192;
/// Rows per squared number of tiles: a batch has `sqrt(rows / TILE_ROWS)` tiles, with all rows of
/// the file so far. A tile then spans equally many pages of the path indexes and the hash indexes.
/// Measured: half of the pages for the first 60,000 rows, a tenth less for the fifth 60,000.
const TILE_ROWS: usize = 600;
/// Number of rows before the batch from which on tiles save no pages (measured).
const TILED_ROWS_MAX: usize = 300_000;

impl Batch {
    /// Creates a batch from (attribute path, payload) pairs that follow `before` others of the same
    /// file. The number affects only the order.
    pub fn after(before: usize, lines: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut entries: Vec<Entry> = lines
            .into_iter()
            .map(|(attr_path, payload)| Entry {
                order_jitter: jitter_hash(&attr_path),
                attr_path,
                payload,
                staged: None,
            })
            .collect();
        // A stable sort keeps a later line of the same path behind the earlier one.
        entries.sort_by(|a, b| (a.order_jitter, &a.attr_path).cmp(&(b.order_jitter, &b.attr_path)));
        entries.dedup_by(|later, kept| {
            let same = later.attr_path == kept.attr_path;
            if same {
                std::mem::swap(&mut later.payload, &mut kept.payload);
            }
            same
        });
        let tile_len = tile_len(before, entries.len());
        for tile in entries.chunks_mut(tile_len).skip(1) {
            tile.sort_unstable_by(|a, b| a.attr_path.cmp(&b.attr_path));
        }
        Self { entries }
    }

    /// Duplicates do not count.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// For a storage that stages some entries.
    pub fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    /// Empty if `from` is beyond the end.
    pub fn entries_from(&self, from: usize) -> &[Entry] {
        self.entries.get(from..).unwrap_or_default()
    }
}

/// Returns the number of entries per tile for a batch of `len` entries after `before` others.
fn tile_len(before: usize, len: usize) -> usize {
    if len <= TILED_LEN_MIN || before >= TILED_ROWS_MAX {
        return len.max(1);
    }
    len.div_ceil(((before + len) / TILE_ROWS).isqrt().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_last_payload_of_a_path_wins() {
        let lines = [("a", "1"), ("b", "2"), ("a", "3"), ("a", "4"), ("b", "5")];
        let batch = Batch::after(0, lines.map(|(a, p)| (a.to_owned(), p.to_owned())));
        let found: HashMap<_, _> =
            batch.entries_from(0).iter().map(|e| (e.attr_path.as_str(), e.payload.as_str())).collect();
        assert_eq!(batch.len(), 2);
        assert_eq!(found, HashMap::from([("a", "4"), ("b", "5")]));
    }

    #[test]
    fn a_long_batch_is_tiled_with_its_first_tile_in_hand_out_order() {
        let lines = |len: usize| (0..len).map(|i| (format!("package-{i}"), i.to_string()));
        let (len, before) = (20_000, 150_000);
        let batch = Batch::after(before, lines(len));
        let order = |entry: &Entry| (entry.order_jitter, entry.attr_path.clone());
        let tile_len = tile_len(before, len);
        assert!((1_000..2_000).contains(&tile_len), "{tile_len}");
        let tiles: Vec<&[Entry]> = batch.entries_from(0).chunks(tile_len).collect();
        assert!(tiles[0].is_sorted_by_key(order));
        for tile in &tiles[1..] {
            assert!(tile.is_sorted_by_key(|entry| &entry.attr_path));
        }
        for (tile, next) in tiles.iter().zip(&tiles[1..]) {
            assert!(tile.iter().map(order).max() < next.iter().map(order).min());
        }
        let mut all: Vec<_> = batch.entries_from(0).iter().map(|entry| entry.attr_path.clone()).collect();
        all.sort_unstable();
        let mut expected: Vec<_> = lines(len).map(|(attr_path, _)| attr_path).collect();
        expected.sort_unstable();
        assert_eq!(all, expected);
    }

    #[test]
    fn a_short_batch_and_a_late_one_are_in_hand_out_order() {
        for (before, len) in [(0, TILED_LEN_MIN), (TILED_ROWS_MAX, 2 * TILED_LEN_MIN)] {
            let batch = Batch::after(before, (0..len).map(|i| (format!("package-{i}"), String::new())));
            let order = |entry: &Entry| (entry.order_jitter, entry.attr_path.clone());
            assert!(batch.entries_from(0).is_sorted_by_key(order), "{len} after {before}");
        }
    }
}
