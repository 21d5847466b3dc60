//! Size of texts as JSON, without writing them.

/// Bytes of `text` as a JSON string, with its quotes.
pub(crate) fn json_bytes(text: &str) -> usize {
    let bytes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    });
    2 + bytes.sum::<usize>()
}
