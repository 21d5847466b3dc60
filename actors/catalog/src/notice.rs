//! What is known of change notices.

/// How many there were, and whether more can come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notices {
    /// Notices so far; also one for each time that the way was opened, since some may have been missed before.
    pub count: u64,
    /// Can they come now?
    pub there: bool,
}
