//! One peer's records on disk, in segments without a name. The kernel frees a segment when it is
//! closed, also after a crash.

use std::{collections::VecDeque, fs::File, io, os::unix::fs::FileExt, path::Path};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use orchestrator_ingester_zmtp::FrameHeader;

use super::queue::{Body, Entry, RECORD_HEAD};
/// Bytes of small records that are buffered for one write.
const BUFFER_BYTES: usize = 1 << 20;

/// Longest read-ahead, bytes; a longer record is read alone.
const READ_MAX: usize = 4 << 20;

#[derive(Debug)]
struct Segment {
    file: File,
    read: u64,
    written: u64,
}

/// Segments of one peer, oldest first.
#[derive(Debug, Default)]
pub(super) struct SpillFile {
    segments: VecDeque<Segment>,
}

impl SpillFile {
    /// Appends records and returns their length in bytes. After an error nothing was appended.
    pub(super) fn append(
        &mut self,
        entries: &[Entry],
        directory: &Path,
        segment_bytes: u64,
    ) -> io::Result<u64> {
        if self.segments.back().is_none_or(|segment| segment.written >= segment_bytes) {
            let file = tempfile::tempfile_in(directory)?;
            self.segments.push_back(Segment { file, read: 0, written: 0 });
        }
        let Some(segment) = self.segments.back_mut() else { return Ok(0) };
        let mut out = RecordWriter { file: &segment.file, at: segment.written, buffered: Vec::new() };
        for entry in entries {
            out.buffered.put_u64(entry.wire as u64);
            out.buffered.put_u64(entry.at_ms);
            match &entry.body {
                Body::Wire(wire) => out.put(wire)?,
                Body::Shared(message) => {
                    let mut left = message.frames.len();
                    for part in std::iter::once(&message.header).chain(&message.frames) {
                        out.buffered.put_slice(&FrameHeader::message(part.len(), left > 0));
                        out.put(part)?;
                        left = left.saturating_sub(1);
                    }
                }
            }
        }
        out.flush()?;
        let end = out.at;
        let bytes = end - segment.written;
        segment.written = end;
        Ok(bytes)
    }

    /// Reads at least one record, then more until they take about `bytes` of memory. Returns them
    /// with their length on disk and removes them. After an error nothing was removed.
    pub(super) fn read(&mut self, bytes: usize) -> io::Result<(Vec<Entry>, u64)> {
        let Some(segment) = self.segments.front_mut() else { return Ok((Vec::new(), 0)) };
        let left = usize::try_from(segment.written - segment.read).unwrap_or(usize::MAX);
        let mut block = read_at(&segment.file, segment.read, left.min(bytes.clamp(RECORD_HEAD, READ_MAX)))?;
        let mut entries = Vec::new();
        let (mut taken, mut memory) = (0, 0);
        while memory < bytes.max(1)
            && let Some(head) = block.get(..RECORD_HEAD)
        {
            let mut head = head;
            let (wire, at_ms) = (usize::try_from(head.get_u64()).unwrap_or(usize::MAX), head.get_u64());
            if block.len() - RECORD_HEAD >= wire {
                block.advance(RECORD_HEAD);
                entries.push(Entry::from_wire(block.split_to(wire), at_ms));
            } else if entries.is_empty() {
                let at = segment.read + RECORD_HEAD as u64;
                entries.push(Entry::from_wire(read_at(&segment.file, at, wire)?, at_ms));
                block.clear();
            } else {
                break;
            }
            taken += (RECORD_HEAD + wire) as u64;
            memory += entries.last().map_or(0, Entry::cost);
        }
        segment.read += taken;
        if segment.read == segment.written {
            self.segments.pop_front();
        }
        Ok((entries, taken))
    }
}

fn read_at(file: &File, at: u64, bytes: usize) -> io::Result<Bytes> {
    let mut block = BytesMut::zeroed(bytes);
    file.read_exact_at(&mut block, at)?;
    Ok(block.freeze())
}

/// Writer of records: buffers small pieces and writes large ones directly.
struct RecordWriter<'a> {
    file: &'a File,
    at: u64,
    buffered: Vec<u8>,
}

impl RecordWriter<'_> {
    fn put(&mut self, bytes: &Bytes) -> io::Result<()> {
        if self.buffered.len() + bytes.len() <= BUFFER_BYTES {
            self.buffered.extend_from_slice(bytes);
            return Ok(());
        }
        self.flush()?;
        self.file.write_all_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffered, self.at)?;
        self.at += self.buffered.len() as u64;
        self.buffered.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(entry: &Entry) -> Bytes {
        match &entry.body {
            Body::Wire(wire) => wire.clone(),
            Body::Shared(_) => panic!("records are wire form"),
        }
    }

    #[test]
    fn records_are_read_in_order_over_segments_which_are_freed() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut file = SpillFile::default();
        let entries: Vec<Entry> = (0..300_usize)
            .map(|n| {
                Entry::from_wire(
                    Bytes::from(vec![n as u8; if n % 100 == 99 { 5 << 20 } else { n }]),
                    n as u64,
                )
            })
            .collect();
        let mut bytes = 0;
        for batch in entries.chunks(7) {
            bytes += file.append(batch, directory.path(), 3_000).expect("room");
        }
        assert!(file.segments.len() > 3, "{} segments", file.segments.len());
        let named = std::fs::read_dir(directory.path()).expect("a directory").count();
        assert_eq!(named, 0, "the files have no names");
        let mut back = Vec::new();
        while !file.segments.is_empty() {
            let (records, taken) = file.read(1_000).expect("readable");
            assert!(!records.is_empty());
            bytes -= taken;
            back.extend(records);
        }
        assert_eq!(bytes, 0);
        assert_eq!(back.len(), entries.len());
        for (given, read) in entries.iter().zip(&back) {
            assert_eq!((wire(given), given.at_ms), (wire(read), read.at_ms));
        }
    }

    #[test]
    fn a_failed_append_loses_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let entries = [Entry::from_wire(Bytes::from_static(b"a"), 1)];
        let mut file = SpillFile::default();
        assert!(file.append(&entries, &directory.path().join("gone"), 1).is_err());
        assert_eq!(file.append(&entries, directory.path(), 1).expect("room"), 17);
        assert_eq!(file.read(0).expect("readable").0.len(), 1);
    }
}
