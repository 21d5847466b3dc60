//! One file on its way into rows: where it was read to, and what is known about the rest.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    time::Instant,
};

use super::probe;
use crate::{
    file_name::FetcherFile,
    lines::{Fed, LineSplitter, LongLine},
    tracking::FileId,
};

/// How much is read at a time, in bytes, before other files have their turn.
pub(super) const SLICE_BYTES: usize = 4 << 20;

/// So many bytes before the offset are remembered, and compared at the next read: a file that was rewritten shows.
const PRINT_BYTES: usize = 64;

/// A buffer that every slice fits in.
pub(super) const BUFFER_BYTES: usize = SLICE_BYTES + PRINT_BYTES;

/// What the end of the file means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing: lines are still being added.
    Growing,
    /// Nothing yet: a writer may still be at work (CONTRACT QR12).
    Settling,
    /// The run is complete.
    Ending,
    /// It was reached, and the run is complete.
    Done,
}

#[derive(Debug)]
pub(super) struct Reading {
    pub(super) file: FetcherFile,
    pub(super) id: FileId,
    pub(super) phase: Phase,
    pub(super) last_growth: Instant,
    /// Waits in the agenda.
    pub(super) queued: bool,
    /// A timer will ask whether it has been quiet for long enough.
    pub(super) timed: bool,
    /// Complete in the database, and not read by us: where it was read to is not known (CONTRACT QD06).
    pub(super) unread: bool,
    /// Lines that gave no row.
    pub(super) skipped: u64,
    /// Lines that gave a row.
    rows: usize,
    handle: Option<File>,
    splitter: LineSplitter,
    offset: u64,
    print: Vec<u8>,
}

/// What one read gave.
#[derive(Debug)]
pub(super) enum Slice {
    /// Some rows, perhaps none.
    Read {
        fed: Fed,
        /// Number of new bytes.
        bytes: usize,
        /// The end of the file was reached.
        end: bool,
    },
    /// The rows that were read before are gone: the next read starts at the beginning (CONTRACT QR13).
    Rewritten,
    /// The name stands for another file, or for none.
    Gone,
}

impl Reading {
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
            timed: false,
            unread: phase == Phase::Done,
            skipped: 0,
            rows: 0,
            handle,
            splitter: LineSplitter::default(),
            offset: 0,
            print: Vec::new(),
        }
    }

    /// Reads the next slice, of at most `bytes` and [`SLICE_BYTES`], into `buffer`, which has [`BUFFER_BYTES`].
    pub(super) fn slice(&mut self, input_dir: &Path, buffer: &mut [u8], bytes: usize) -> io::Result<Slice> {
        let handle = match &self.handle {
            Some(handle) => handle,
            None => match probe::open(&input_dir.join(self.file.name()))? {
                Some((file, meta)) if probe::file_id(&meta) == self.id => self.handle.insert(file),
                _ => return Ok(Slice::Gone),
            },
        };
        self.unread = false;
        let print = self.print.len();
        let wanted = &mut buffer[..print + bytes.min(SLICE_BYTES)];
        let wanted_len = wanted.len();
        let filled = fill(handle, wanted, self.offset - print as u64)?;
        let shrunk = filled <= print && handle.metadata()?.len() < self.offset;
        if shrunk || filled < print || wanted[..print] != self.print {
            self.restart();
            return Ok(Slice::Rewritten);
        }
        let fresh = &wanted[print..filled];
        self.offset += fresh.len() as u64;
        let mut fed = self.splitter.feed(fresh);
        self.print = wanted[filled.saturating_sub(PRINT_BYTES)..filled].to_vec();
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
        Ok(Slice::Read { fed, bytes: filled - print, end: filled < wanted_len })
    }

    /// Counts `rows` more, and gives how many there were before.
    pub(super) fn count_rows(&mut self, rows: usize) -> usize {
        let before = self.rows;
        self.rows += rows;
        before
    }

    /// Whether the file has another name, as one that was linked into place has.
    pub(super) fn is_linked(&self) -> bool {
        self.handle.as_ref().is_some_and(|handle| handle.metadata().is_ok_and(|meta| meta.nlink() > 1))
    }

    /// Whether `complete` may be said once the end is reached.
    pub(super) fn ends_here(&self) -> bool {
        self.phase == Phase::Ending || (self.phase == Phase::Settling && self.is_linked())
    }

    /// The end was reached for good: the file is closed, and a line without end given up.
    pub(super) fn finish(&mut self) {
        self.phase = Phase::Done;
        self.handle = None;
        let tail = self.splitter.give_up_tail();
        // Should the file grow after all, its last line is read from its beginning.
        self.offset -= tail;
        let tail = usize::try_from(tail).unwrap_or(usize::MAX);
        self.print.truncate(self.print.len().saturating_sub(tail));
    }

    fn restart(&mut self) {
        self.splitter = LineSplitter::default();
        self.offset = 0;
        self.rows = 0;
        self.print.clear();
    }
}

/// The text of a line whose end was found, read in one piece. None if the file has become another one meanwhile.
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
