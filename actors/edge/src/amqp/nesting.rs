//! Limit on the nesting of tables in a frame. The client library parses tables recursively, and deep ones
//! would overflow its stack. Tables and arrays below [`DEPTH_MAX`] become byte arrays, which have the same
//! encoding: type, length and bytes.

use std::ops::Range;

/// Deepest unchanged nesting of tables and arrays. Headers written by brokers have three levels.
pub(super) const DEPTH_MAX: usize = 32;

/// Bytes of the fixed fields before the properties of a content header: class, weight, size of the body.
const FIXED: usize = 12;
/// Flags of the properties up to the table of headers.
const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
const HEADERS: u16 = 1 << 13;

const ARRAY: u8 = b'A';
const TABLE: u8 = b'F';
const BYTES: u8 = b'x';

/// Flattens the table of headers in a content header. A malformed header stays unchanged.
pub(super) fn flatten_content(payload: &mut [u8]) {
    let mut reader = TableReader { bytes: payload, at: FIXED, end: payload.len() };
    let mut headers = || {
        let flags = u16::from_be_bytes(reader.take(2)?.try_into().ok()?);
        for flag in [CONTENT_TYPE, CONTENT_ENCODING] {
            if flags & flag != 0 {
                reader.short()?;
            }
        }
        if flags & HEADERS == 0 { None } else { reader.long() }
    };
    if let Some(table) = headers() {
        flatten(&mut payload[table]);
    }
}

/// Flattens a table, given its content.
pub(super) fn flatten(table: &mut [u8]) {
    // End and type of each enclosing level.
    let mut open = vec![(table.len(), TABLE)];
    let mut at = 0;
    while let Some((end, kind)) = open.last().copied() {
        let mut reader = TableReader { bytes: table, at, end };
        match if at < end { reader.value(kind == TABLE) } else { None } {
            Some(Some(Nested { kind, range })) if open.len() < DEPTH_MAX => {
                at = range.start;
                open.push((range.end, kind));
            }
            Some(Some(Nested { range, .. })) => {
                // The type is before the four bytes of the length.
                table[range.start - 5] = BYTES;
                at = range.end;
            }
            Some(None) => at = reader.at,
            // End of the level, or malformed.
            None => {
                open.pop();
                at = end;
            }
        }
    }
}

/// A table or an array within another.
struct Nested {
    kind: u8,
    range: Range<usize>,
}

/// Reader of the bytes from `at` to `end`.
struct TableReader<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl TableReader<'_> {
    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let to = self.at.checked_add(length).filter(|to| *to <= self.end)?;
        let taken = self.bytes.get(self.at..to)?;
        self.at = to;
        Some(taken)
    }

    fn short(&mut self) -> Option<()> {
        let length = self.take(1)?[0];
        self.take(length.into()).map(drop)
    }

    fn long(&mut self) -> Option<Range<usize>> {
        let length = u32::from_be_bytes(self.take(4)?.try_into().ok()?);
        self.take(usize::try_from(length).ok()?)?;
        Some(self.at - length as usize..self.at)
    }

    /// Reads a value, with its name if `named`; returns the range of the content of a table or array. None if
    /// malformed.
    fn value(&mut self, named: bool) -> Option<Option<Nested>> {
        if named {
            self.short()?;
        }
        let length = match self.take(1)?[0] {
            b'V' => 0,
            b't' | b'b' | b'B' => 1,
            b's' | b'U' | b'u' => 2,
            b'I' | b'i' | b'f' => 4,
            b'D' => 5,
            b'L' | b'l' | b'd' | b'T' => 8,
            b'S' | BYTES => return self.long().map(|_| None),
            kind @ (ARRAY | TABLE) => return self.long().map(|range| Some(Nested { kind, range })),
            _ => return None,
        };
        self.take(length).map(|_| None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn long(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32).to_be_bytes(), content].concat()
    }

    /// Nested arrays in a table.
    fn nested(depth: usize) -> Vec<u8> {
        let arrays = (1..depth).fold(Vec::new(), |inner, _| [b"A", &long(&inner)[..]].concat());
        [b"\x01k", &arrays[..]].concat()
    }

    /// Recursive reference for the depth of a table; None if malformed.
    fn depth(bytes: &[u8], named: bool) -> Option<usize> {
        let mut reader = TableReader { bytes, at: 0, end: bytes.len() };
        let mut deepest = 0;
        while reader.at < reader.end {
            if let Some(Nested { kind, range }) = reader.value(named)? {
                deepest = deepest.max(depth(&bytes[range], kind == TABLE)?);
            }
        }
        Some(deepest + 1)
    }

    fn flat(mut table: Vec<u8>) -> Vec<u8> {
        flatten(&mut table);
        table
    }

    fn content(flags: u16, before: &[u8], table: &[u8]) -> Vec<u8> {
        [&[0; FIXED][..], &flags.to_be_bytes(), before, &long(table)].concat()
    }

    #[test]
    fn tables_deeper_than_the_limit_are_flattened() {
        assert_eq!(flat(nested(DEPTH_MAX)), nested(DEPTH_MAX));
        for levels in [DEPTH_MAX + 1, 100, 20_000] {
            let (was, is) = (nested(levels), flat(nested(levels)));
            assert_eq!(depth(&is, true), Some(DEPTH_MAX), "{levels}");
            assert_eq!(
                was.iter().zip(&is).filter(|(was, is)| was != is).count(),
                1,
                "one type is another one"
            );
        }
        let beside = [b"\x01at\x01\x01bV\x01cS\0\0\0\x01x\x01dL12345678".as_slice(), &nested(40)].concat();
        assert_eq!(depth(&flat(beside), true), Some(DEPTH_MAX), "after values of other types");
        let row: Vec<u8> = (0..500).flat_map(|_| nested(20)).collect();
        assert_eq!(flat(row.clone()), row, "one after the other is not deep");
        let many: Vec<u8> = (0..50).flat_map(|_| nested(40)).collect();
        assert_eq!(depth(&flat(many), true), Some(DEPTH_MAX), "each of them");
    }

    #[test]
    fn headers_are_found_after_other_properties() {
        let deep = nested(40);
        let all = CONTENT_TYPE | CONTENT_ENCODING | HEADERS | 1;
        for (mut payload, changes) in [
            (content(HEADERS, b"", &deep), true),
            (content(all, b"\x02ab\0", &deep), true),
            (content(CONTENT_TYPE, b"\x02ab", &deep), false),
            (content(HEADERS, b"", &nested(3)), false),
        ] {
            let was = payload.clone();
            flatten_content(&mut payload);
            assert_eq!(was != payload, changes);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            flatten(&mut bytes);
            flatten_content(&mut bytes);
        }
    }
}
