//! Depth of the tables in a frame: the client's parser recurses into them and would use up its stack.

/// Deepest nesting of tables and arrays that is accepted. Headers that brokers write nest three deep.
pub(super) const DEPTH_MAX: usize = 32;

/// Bytes of the fixed fields before the properties of a content header: class, weight, size of the body.
const FIXED: usize = 12;
/// The flags of the properties before and at the table of headers.
const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
const HEADERS: u16 = 1 << 13;

/// Tells whether the table of headers in a content header is too deep. What is malformed is not: the parser says so.
pub(super) fn is_too_deep_content(payload: &[u8]) -> bool {
    let mut reader = Reader { bytes: payload.get(FIXED..).unwrap_or_default() };
    let headers = || {
        let flags = u16::from_be_bytes(reader.take(2)?.try_into().ok()?);
        for flag in [CONTENT_TYPE, CONTENT_ENCODING] {
            if flags & flag != 0 {
                reader.short()?;
            }
        }
        if flags & HEADERS == 0 { None } else { reader.long() }
    };
    let mut headers = headers;
    headers().is_some_and(|table| is_too_deep(table, true))
}

/// Tells whether a table, or an array, is nested too deep. `bytes` is its content.
pub(super) fn is_too_deep(bytes: &[u8], is_table: bool) -> bool {
    let mut open = vec![(Reader { bytes }, is_table)];
    while let Some((reader, is_table)) = open.last_mut() {
        let next = if reader.bytes.is_empty() { None } else { reader.value(*is_table) };
        match next {
            Some(Some(nested)) if open.len() < DEPTH_MAX => open.push(nested),
            Some(Some(_)) => return true,
            Some(None) => {}
            // The end, or what no parser goes on behind.
            None => drop(open.pop()),
        }
    }
    false
}

/// Bytes that are still to be read.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.take(1)?[0];
        self.take(length.into())
    }

    fn long(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_be_bytes(self.take(4)?.try_into().ok()?);
        self.take(usize::try_from(length).ok()?)
    }

    /// Reads a value, in a table with its name; gives its content if it is a table or an array. None if it is malformed.
    fn value(&mut self, named: bool) -> Option<Option<(Self, bool)>> {
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
            b'S' | b'x' => return self.long().map(|_| None),
            kind @ (b'A' | b'F') => return self.long().map(|bytes| Some((Self { bytes }, kind == b'F'))),
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

    /// Arrays within each other, the outermost in a table.
    fn nested(depth: usize) -> Vec<u8> {
        let arrays = (1..depth).fold(Vec::new(), |inner, _| [b"A", &long(&inner)[..]].concat());
        [b"\x01k", &arrays[..]].concat()
    }

    fn content(flags: u16, before: &[u8], table: &[u8]) -> Vec<u8> {
        [&[0; FIXED][..], &flags.to_be_bytes(), before, &long(table)].concat()
    }

    #[test]
    fn tables_are_followed_to_the_limit() {
        assert!(!is_too_deep(&nested(DEPTH_MAX), true));
        assert!(is_too_deep(&nested(DEPTH_MAX + 1), true));
        assert!(is_too_deep(&nested(20_000), true));
        let beside = [b"\x01at\x01\x01bV\x01cS\0\0\0\x01x\x01dL12345678".as_slice(), &nested(40)].concat();
        assert!(is_too_deep(&beside, true), "after values of other types");
        let flat: Vec<u8> = (0..500).flat_map(|_| nested(20)).collect();
        assert!(!is_too_deep(&flat, true), "one after the other is not deep");
    }

    #[test]
    fn the_headers_of_a_message_are_found_behind_its_other_properties() {
        let deep = nested(40);
        assert!(is_too_deep_content(&content(HEADERS, b"", &deep)));
        let all = CONTENT_TYPE | CONTENT_ENCODING | HEADERS | 1;
        assert!(is_too_deep_content(&content(all, b"\x02ab\0", &deep)));
        assert!(!is_too_deep_content(&content(CONTENT_TYPE, b"\x02ab", &deep)), "there are none");
        assert!(!is_too_deep_content(&content(HEADERS, b"", &nested(3))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            is_too_deep(&bytes, true);
            is_too_deep(&bytes, false);
            is_too_deep_content(&bytes);
        }
    }
}
