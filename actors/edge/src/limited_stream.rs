//! A stream that fails as soon as its peer breaks a limit: client libraries buffer whatever a peer announces.

use std::{
    collections::VecDeque,
    error::Error,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes in both directions, over TCP, TLS or a unix socket.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Reason why a peer's bytes are refused.
pub type LimitError = Box<dyn Error + Send + Sync>;

/// Limit on what a peer sends, kept by following the framing of its protocol.
pub trait FrameLimit {
    /// Checks the next `bytes` of the peer, and returns how many of them may be handed on. The others begin a frame that is needed whole,
    /// and are the first bytes of the next call.
    ///
    /// # Errors
    /// They break the limit. The stream is of no use from there.
    fn received(&mut self, bytes: &mut [u8]) -> Result<usize, LimitError>;

    /// Notes that something is sent, which the peer may answer.
    fn sent(&mut self) {}

    /// Decides whether the peer may close the stream now.
    ///
    /// # Errors
    /// It may not.
    fn ended(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Ready with an error once the peer has been silent for too long.
    fn poll_overdue(&mut self, _cx: &mut Context<'_>) -> Poll<io::Error> {
        Poll::Pending
    }
}

/// The stream `S`, which fails once what comes in breaks the limit `L`.
#[derive(Debug)]
pub struct LimitedStream<S, L> {
    stream: S,
    limit: L,
    /// Beginning of a frame that is needed whole.
    held: Vec<u8>,
    /// Bytes of such a frame, checked and not read yet.
    checked: VecDeque<u8>,
}

impl<S, L> LimitedStream<S, L> {
    /// Limits what comes in on `stream`.
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

    /// Frames of a length and so many bytes, each needed whole. A length above 100 is refused.
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

    /// What is read, into buffers of `room` bytes, of a peer that sends `bytes` in pieces of `piece`; and how it ends.
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
    async fn frames_come_whole_however_they_are_cut_and_an_excess_ends_the_stream() {
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
