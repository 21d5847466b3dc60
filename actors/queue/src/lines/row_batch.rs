//! Batches of rows that are sent from the reader to the store. A batch costs a few allocations
//! instead of two per row.

use std::ops::Range;

/// Maximum text of a [`RowBatch`], in bytes; a longer line has a batch of its own.
pub const BATCH_TEXT_BYTES: usize = 4 << 20;

/// Rows of one file in file order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RowBatch {
    /// Attribute path, payload, attribute path, payload, and so on, without separators.
    text: String,
    /// End positions of each attribute path and payload in `text`.
    ends: Vec<(usize, usize)>,
    /// A single row with a payload too long to copy; then the fields above are empty.
    huge: Option<Box<Huge>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Huge {
    attr_path: String,
    line: String,
    payload: Range<usize>,
}

impl RowBatch {
    pub(super) fn huge(attr_path: String, payload: Range<usize>, line: String) -> Self {
        Self { huge: Some(Box::new(Huge { attr_path, line, payload })), ..Self::default() }
    }

    pub(super) fn has_room_for(&self, attr_path: &str, payload: &str) -> bool {
        self.huge.is_none() && self.text_bytes() + attr_path.len() + payload.len() <= BATCH_TEXT_BYTES
    }

    pub(super) fn push(&mut self, attr_path: &str, payload: &str) {
        self.text.push_str(attr_path);
        let attr_end = self.text.len();
        self.text.push_str(payload);
        self.ends.push((attr_end, self.text.len()));
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len() + usize::from(self.huge.is_some())
    }

    /// Returns true if there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the length of all texts, in bytes.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.text.len() + self.huge.as_ref().map_or(0, |huge| huge.line.len())
    }

    /// Returns (attribute path, payload) of each row.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|&(_, end)| end));
        let packed = starts
            .zip(&self.ends)
            .map(|(start, &(attr_end, end))| (&self.text[start..attr_end], &self.text[attr_end..end]));
        packed.chain(self.huge.iter().map(|huge| (huge.attr_path.as_str(), &huge.line[huge.payload.clone()])))
    }

    /// Returns the rows as owned strings. A huge payload is moved, not copied.
    #[must_use]
    pub fn into_pairs(mut self) -> Vec<(String, String)> {
        if let Some(huge) = self.huge.take() {
            let Huge { attr_path, mut line, payload } = *huge;
            line.truncate(payload.end);
            line.drain(..payload.start);
            return vec![(attr_path, line)];
        }
        self.iter().map(|(attr_path, payload)| (attr_path.to_owned(), payload.to_owned())).collect()
    }
}
