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

/// Entries of one run, ready to be stored: each attribute path once, with its last payload (CONTRACT QC17).
///
/// The order is the one the storage's indexes like best. Two of them go by attribute path and two by the hash of it, so
/// entries that are near each other in both are stored together: in tiles, the tiles in the order in which new jobs are
/// handed out, the entries of a tile by path. The first tile is in hand-out order itself: what a partly stored batch
/// serves is what the whole one would have served, for as long as workers do not take jobs faster than rows come in.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    entries: Vec<Entry>,
}

/// Batches of no more entries are one tile: their part of an index is a few pages, in whatever order.
const TILED_LEN_MIN: usize = 8_192;
/// A tile is to be as long in pages of the indexes by path as in those by hash. The former grow with the batch and the
/// latter with all rows, so that the number of tiles goes with the root of these. With as many rows a tile, squared, half as
/// many pages were written for the first 60,000 rows as without tiles, and a tenth less for the fifth (measured).
const TILE_ROWS: usize = 600;
/// Behind so many rows tiles no longer save pages (measured).
const TILED_ROWS_MAX: usize = 300_000;

impl Batch {
    /// Makes a batch of (attribute path, payload) pairs in file order.
    pub fn new(lines: impl IntoIterator<Item = (String, String)>) -> Self {
        Self::after(0, lines)
    }

    /// [`Self::new`] for pairs that come after `before` others of the same file, which only the order depends on.
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
        // Stable, so of equal paths the later line stays behind the earlier one.
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

/// Entries of a tile in a batch of `len` that comes after `before` others.
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
        let batch = Batch::new(lines.map(|(a, p)| (a.to_owned(), p.to_owned())));
        let found: HashMap<_, _> =
            batch.from_position(0).iter().map(|e| (e.attr_path.as_str(), e.payload.as_str())).collect();
        assert_eq!(batch.len(), 2);
        assert_eq!(found, HashMap::from([("a", "4"), ("b", "5")]));
    }

    #[test]
    fn a_long_batch_is_in_tiles_and_its_first_one_in_hand_out_order() {
        let lines = |len: usize| (0..len).map(|i| (format!("package-{i}"), i.to_string()));
        let (len, before) = (20_000, 150_000);
        let batch = Batch::after(before, lines(len));
        let order = |entry: &Entry| (entry.order_jitter, entry.attr_path.clone());
        let tile_len = tile_len(before, len);
        assert!((1_000..2_000).contains(&tile_len), "{tile_len}");
        let tiles: Vec<&[Entry]> = batch.from_position(0).chunks(tile_len).collect();
        assert!(tiles[0].is_sorted_by_key(order));
        for tile in &tiles[1..] {
            assert!(tile.is_sorted_by_key(|entry| &entry.attr_path));
        }
        for (tile, next) in tiles.iter().zip(&tiles[1..]) {
            assert!(tile.iter().map(order).max() < next.iter().map(order).min());
        }
        let mut all: Vec<_> = batch.from_position(0).iter().map(|entry| entry.attr_path.clone()).collect();
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
            assert!(batch.from_position(0).is_sorted_by_key(order), "{len} after {before}");
        }
    }
}
