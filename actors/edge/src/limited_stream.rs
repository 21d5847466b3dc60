//! Stream that fails when its peer exceeds a limit. Client libraries would buffer whatever a peer announces.

use std::{
    collections::VecDeque,
    error::Error,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bidirectional byte stream over TCP, TLS or a Unix socket.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Error of a peer that exceeds a limit.
pub type LimitError = Box<dyn Error + Send + Sync>;

/// Limit on received bytes that follows the framing of a protocol.
pub trait FrameLimit {
    /// Checks received `bytes`, which it may change, and returns the number of bytes to pass on. The others
    /// are the beginning of a frame that is needed whole; they come first in the next call.
    ///
    /// # Errors
    /// The peer exceeds the limit; the stream is unusable.
    fn received(&mut self, bytes: &mut [u8]) -> Result<usize, LimitError>;

    /// Called when bytes are sent.
    fn sent(&mut self) {}

    /// Called when the peer closes the stream.
    ///
    /// # Errors
    /// The peer must not close the stream now.
    fn ended(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Ready with an error once the peer was silent for too long.
    fn poll_overdue(&mut self, _cx: &mut Context<'_>) -> Poll<io::Error> {
        Poll::Pending
    }
}

/// Stream `S` that fails when received bytes exceed the limit `L`.
#[derive(Debug)]
pub struct LimitedStream<S, L> {
    stream: S,
    limit: L,
    /// Beginning of a frame that is passed on only as a whole.
    held: Vec<u8>,
    /// Checked bytes of such a frame, not read yet.
    checked: VecDeque<u8>,
}

impl<S, L> LimitedStream<S, L> {
    /// Limits received bytes of `stream`.
    pub fn new(stream: S, limit: L) -> Self {
        Self { stream, limit, held: Vec::new(), checked: VecDeque::new() }
    }
}

impl<S: AsyncRead + Unpin, L: FrameLimit + Unpin> AsyncRead for LimitedStream<S, L> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let breach = |excess| io::Error::new(io::ErrorKind::InvalidData, excess);
        loop {
            if !this.checked.is_empty() || buffer.remaining() == 0 {
                let (bytes, _) = this.checked.as_slices();
                let count = bytes.len().min(buffer.remaining());
                buffer.put_slice(&bytes[..count]);
                this.checked.drain(..count);
                return Poll::Ready(Ok(()));
            }
            let before = buffer.filled().len();
            match Pin::new(&mut this.stream).poll_read(cx, buffer) {
                Poll::Ready(read) => read?,
                Poll::Pending => return Poll::Ready(Err(ready!(this.limit.poll_overdue(cx)))),
            }
            let bytes = &mut buffer.filled_mut()[before..];
            if bytes.is_empty() {
                return Poll::Ready(this.limit.ended());
            }
            if this.held.is_empty() {
                let passed = this.limit.received(bytes).map_err(breach)?;
                this.held.extend_from_slice(&bytes[passed..]);
                buffer.set_filled(before + passed);
                if passed > 0 {
                    return Poll::Ready(Ok(()));
                }
            } else {
                this.held.extend_from_slice(bytes);
                buffer.set_filled(before);
                let passed = this.limit.received(&mut this.held).map_err(breach)?;
                this.checked.extend(this.held.drain(..passed));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin, L: FrameLimit + Unpin> AsyncWrite for LimitedStream<S, L> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.limit.sent();
        Pin::new(&mut this.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.limit.sent();
        Pin::new(&mut this.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// Frames of a length byte and that number of bytes, each needed whole. A length above 100 is refused.
    struct Frames;

    impl FrameLimit for Frames {
        fn received(&mut self, bytes: &mut [u8]) -> Result<usize, LimitError> {
            let mut at = 0;
            while let Some(length) = bytes.get(at).copied() {
                if length > 100 {
                    return Err(format!("a frame of {length} bytes").into());
                }
                let end = at + 1 + usize::from(length);
                if bytes.len() < end {
                    break;
                }
                at = end;
            }
            Ok(at)
        }

        fn ended(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    /// Reads into buffers of `room` bytes from a peer that sends `bytes` in pieces of `piece`. Returns
    /// the bytes that arrived, and the error at the end.
    async fn read(bytes: &[u8], piece: usize, room: usize) -> (Vec<u8>, String) {
        let (ours, mut theirs) = duplex(piece);
        let sending = async move {
            for piece in bytes.chunks(piece) {
                if theirs.write_all(piece).await.is_err() {
                    return;
                }
            }
        };
        let reading = async {
            let mut stream = LimitedStream::new(ours, Frames);
            let (mut got, mut buffer) = (Vec::new(), vec![0; room]);
            loop {
                match stream.read(&mut buffer).await {
                    Ok(read) => got.extend_from_slice(&buffer[..read]),
                    Err(error) => return (got, error.to_string()),
                }
            }
        };
        tokio::join!(sending, reading).1
    }

    #[tokio::test]
    async fn frames_are_read_whole_and_a_large_frame_ends_the_stream() {
        let frames: Vec<u8> = (0..=100).flat_map(|length| vec![length; usize::from(length) + 1]).collect();
        for piece in [1, 2, 7, 64, 10_000] {
            for room in [1, 5, 100, 20_000] {
                let (got, end) = read(&frames, piece, room).await;
                assert_eq!(got, frames, "{piece} {room}");
                assert_eq!(end, "unexpected end of file");
                let (got, end) = read(&[&frames[..], b"\xffmore"].concat(), piece, room).await;
                assert!(frames.starts_with(&got) && end == "a frame of 255 bytes", "{end}");
            }
        }
    }
}
