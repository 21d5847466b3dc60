//! State of one followed file: how far it was read, and whether more may come.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    time::Instant,
};

use super::probe;
use orchestrator_queue_rules::{
    file_name::FetcherFile,
    lines::{FeedResult, LineSplitter, LongLine},
    tracking::FileId,
};

/// Maximum size of a slice, in bytes; then other files are read.
pub(super) const SLICE_BYTES: usize = 4 << 20;

/// Bytes before the offset that are stored and compared at the next read, to detect a rewritten
/// file.
const FINGERPRINT_BYTES: usize = 64;

/// Size of a buffer for any slice, in bytes.
pub(super) const BUFFER_BYTES: usize = SLICE_BYTES + FINGERPRINT_BYTES;

/// Meaning of the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// More lines may follow.
    Growing,
    /// A writer may still be active (CONTRACT QR12).
    Settling,
    /// No writer is active: the run is complete at the end.
    Final,
    /// The end was reached, and the run is complete.
    Done,
}

#[derive(Debug)]
pub(super) struct FollowedFile {
    pub(super) file: FetcherFile,
    pub(super) id: FileId,
    pub(super) phase: Phase,
    pub(super) last_growth: Instant,
    /// True if the file is in the schedule.
    pub(super) queued: bool,
    /// True if a [`Timer::Quiet`](super::schedule::Timer::Quiet) is set.
    pub(super) timer_set: bool,
    /// True if the run was complete in the database before any read: the offset is unknown
    /// (CONTRACT QD06).
    pub(super) unread: bool,
    /// Number of skipped lines.
    pub(super) skipped: u64,
    /// Number of rows.
    rows: usize,
    handle: Option<File>,
    splitter: LineSplitter,
    offset: u64,
    fingerprint: Vec<u8>,
}

/// Result of reading a slice.
#[derive(Debug)]
pub(super) enum Slice {
    /// Rows, possibly none.
    Read {
        fed: FeedResult,
        /// Number of bytes read.
        bytes: usize,
        /// True if the end of the file was reached.
        end: bool,
    },
    /// The file was truncated or rewritten; the next read starts at the beginning (CONTRACT QR13).
    Rewritten,
    /// The name refers to another file or to none.
    Gone,
}

impl FollowedFile {
    pub(super) fn new(
        file: FetcherFile,
        id: FileId,
        phase: Phase,
        handle: Option<File>,
        now: Instant,
    ) -> Self {
        Self {
            file,
            id,
            phase,
            last_growth: now,
            queued: false,
            timer_set: false,
            unread: phase == Phase::Done,
            skipped: 0,
            rows: 0,
            handle,
            splitter: LineSplitter::default(),
            offset: 0,
            fingerprint: Vec::new(),
        }
    }

    /// Reads the next slice, at most `bytes` and [`SLICE_BYTES`], into `buffer` of
    /// [`BUFFER_BYTES`]. Calls `progress` as [`LineSplitter::feed`] does.
    pub(super) fn slice(
        &mut self,
        input_dir: &Path,
        buffer: &mut [u8],
        bytes: usize,
        progress: &dyn Fn(),
    ) -> io::Result<Slice> {
        let handle = match &self.handle {
            Some(handle) => handle,
            None => match probe::open(&input_dir.join(self.file.name()))? {
                Some((file, meta)) if probe::file_id(&meta) == self.id => self.handle.insert(file),
                _ => return Ok(Slice::Gone),
            },
        };
        self.unread = false;
        let fingerprint = self.fingerprint.len();
        let wanted = &mut buffer[..fingerprint + bytes.min(SLICE_BYTES)];
        let wanted_len = wanted.len();
        let filled = fill(handle, wanted, self.offset - fingerprint as u64)?;
        let shrunk = filled <= fingerprint && handle.metadata()?.len() < self.offset;
        if shrunk || filled < fingerprint || wanted[..fingerprint] != self.fingerprint {
            self.restart();
            return Ok(Slice::Rewritten);
        }
        let fresh = &wanted[fingerprint..filled];
        self.offset += fresh.len() as u64;
        let mut fed = self.splitter.feed(fresh, progress);
        self.fingerprint = wanted[filled.saturating_sub(FINGERPRINT_BYTES)..filled].to_vec();
        if let Some(line) = fed.long.take() {
            match text_of(handle, &line) {
                Ok(Some(text)) => fed.add_long(&line, text),
                Ok(None) => {
                    self.restart();
                    return Ok(Slice::Rewritten);
                }
                Err(error) => {
                    // The rows of this slice are read again with the rest.
                    self.restart();
                    return Err(error);
                }
            }
        }
        Ok(Slice::Read { fed, bytes: filled - fingerprint, end: filled < wanted_len })
    }

    /// Adds `rows` to the number of rows and returns the number before.
    pub(super) fn count_rows(&mut self, rows: usize) -> usize {
        let before = self.rows;
        self.rows += rows;
        before
    }

    /// Returns true if the file has more than one name.
    pub(super) fn is_linked(&self) -> bool {
        self.handle.as_ref().is_some_and(|handle| handle.metadata().is_ok_and(|meta| meta.nlink() > 1))
    }

    pub(super) fn completes_at_end(&self) -> bool {
        self.phase == Phase::Final || (self.phase == Phase::Settling && self.is_linked())
    }

    /// Closes the file at its end and discards a line without an end.
    pub(super) fn finish(&mut self) {
        self.phase = Phase::Done;
        self.handle = None;
        let tail = self.splitter.discard_tail();
        // If the file grows again, its last line is read from its beginning.
        self.offset -= tail;
        let tail = usize::try_from(tail).unwrap_or(usize::MAX);
        self.fingerprint.truncate(self.fingerprint.len().saturating_sub(tail));
    }

    fn restart(&mut self) {
        self.splitter = LineSplitter::default();
        self.offset = 0;
        self.rows = 0;
        self.fingerprint.clear();
    }
}

/// Reads the text of a line. Returns None if the file has changed meanwhile.
fn text_of(file: &File, line: &LongLine) -> io::Result<Option<Vec<u8>>> {
    let range = line.range();
    let mut text = vec![0; usize::try_from(range.end - range.start).unwrap_or(usize::MAX)];
    let filled = fill(file, &mut text, range.start)?;
    let whole = filled == text.len() && memchr::memchr2(b'\n', b'\r', &text).is_none();
    Ok(whole.then_some(text))
}

fn fill(file: &File, buffer: &mut [u8], from: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], from + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
