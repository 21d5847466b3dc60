//! Capture of the beginning or the end of a stream, with bounded memory.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Size of a read, in bytes.
const PIECE: usize = 8 * 1024;

/// The first bytes of a stream.
#[derive(Debug)]
pub struct Head {
    bytes: Vec<u8>,
    limit: usize,
    overrun: bool,
}

impl Head {
    /// Keeps at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, overrun: false }
    }

    /// Appends a chunk.
    pub fn take(&mut self, piece: &[u8]) {
        let room = self.limit - self.bytes.len();
        self.overrun |= piece.len() > room;
        self.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// None if the stream exceeded the limit.
    pub fn whole(&self) -> Option<&[u8]> {
        (!self.overrun).then_some(&self.bytes)
    }

    /// Returns the captured bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The last bytes of a stream.
#[derive(Debug)]
pub struct Tail {
    bytes: Vec<u8>,
    limit: usize,
}

impl Tail {
    /// Keeps at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit }
    }

    /// Appends a chunk.
    pub fn take(&mut self, piece: &[u8]) {
        let piece = &piece[piece.len().saturating_sub(self.limit)..];
        let out = (self.bytes.len() + piece.len()).saturating_sub(self.limit);
        self.bytes.drain(..out);
        self.bytes.extend_from_slice(piece);
    }

    /// Returns the captured bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads `stream` to its end. A read error ends a pipe, too.
pub async fn read(mut stream: impl AsyncRead + Unpin, mut take: impl FnMut(&[u8])) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        take(&piece[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_head_keeps_up_to_its_limit_and_reports_an_overrun() {
        let stream = vec![b'x'; 10 << 20];
        let mut head = Head::new(1000);
        read(stream.as_slice(), |piece| head.take(piece)).await;
        assert_eq!((head.bytes().len(), head.whole()), (1000, None));
        assert!(head.bytes.capacity() <= 2 * 1000);
        let mut head = Head::new(10 << 20);
        read(stream.as_slice(), |piece| head.take(piece)).await;
        assert_eq!(head.whole(), Some(stream.as_slice()), "what fits exactly is whole");
    }

    #[test]
    fn a_tail_keeps_the_end_for_any_chunk_size() {
        let stream: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for size in [1, 7, 99, 100, 101, 4999, 5000] {
            let mut tail = Tail::new(100);
            stream.chunks(size).for_each(|piece| tail.take(piece));
            assert_eq!(tail.bytes(), &stream[4900..], "pieces of {size}");
            assert!(tail.bytes.capacity() <= 400);
        }
        let mut tail = Tail::new(100);
        tail.take(b"short");
        assert_eq!(tail.bytes(), b"short");
    }
}
