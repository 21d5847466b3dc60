//! Order in which the rows of a deleted run are removed.

/// Rows that a turn removes within its time, roughly.
const ROWS_OF_TURN: usize = 2048;
/// Maximum size of the list of rows. If more rows have to be removed, the order of removal is that of the
/// primary key. Each row of a turn then changes pages of its own in any order.
const LIST_BYTES_MAX: usize = 8 << 20;

/// Rows of a deleted run whose groups are removed already, in the order of their removal.
///
/// A turn writes each page that it changes once. A row has pages in two orders: that of paths, and that of
/// last starts and jitters, which are random for a path. Turns in the order of paths would write most pages
/// of the order index each. So the list consists of portions in the order of the groups, each sorted by path.
/// A turn then stays within a part of either order, and writes half as much.
#[derive(Debug, Default)]
pub(super) struct Removal {
    pub(super) run: (i64, i64),
    attr_paths: Vec<String>,
    bytes: usize,
    /// Number of rows of a portion, known when all groups have left.
    portion_size: usize,
    /// Rest of the portion that leaves at present.
    portion: Vec<String>,
}

impl Removal {
    pub(super) fn of(run: (i64, i64)) -> Self {
        Self { run, ..Self::default() }
    }

    pub(super) fn add(&mut self, attr_paths: Vec<String>) {
        self.bytes += attr_paths.iter().map(|attr_path| size_of::<String>() + attr_path.len()).sum::<usize>();
        if self.bytes <= LIST_BYTES_MAX {
            self.attr_paths.extend(attr_paths);
        } else {
            self.attr_paths = Vec::new();
        }
    }

    pub(super) fn take(&mut self, rows_max: usize) -> Vec<String> {
        if self.portion_size == 0 {
            self.portion_size = (self.attr_paths.len() * ROWS_OF_TURN).isqrt();
        }
        if self.portion.is_empty() {
            let rows = self.portion_size.min(self.attr_paths.len());
            self.portion.extend(self.attr_paths.drain(..rows));
            self.portion.sort_unstable();
        }
        self.portion.drain(..self.portion.len().min(rows_max)).collect()
    }
}
