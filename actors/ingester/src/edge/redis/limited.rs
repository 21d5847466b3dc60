//! A connection whose replies are limited: the client library buffers a reply whole, however long it is.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most lines of one reply. Each value takes a line, and a value takes more memory than the shortest line.
const LINES_MAX: usize = 1 << 18;

/// Fails the connection when more arrives than a reply may have. What was sent last is what the reply belongs to.
#[derive(Debug)]
pub(super) struct Limited<S> {
    stream: S,
    reply_max: usize,
    bytes: usize,
    lines: usize,
    over: Arc<AtomicBool>,
}

impl<S> Limited<S> {
    /// Limits replies on `stream` to `reply_max` bytes. `over` is set when one was longer.
    pub(super) fn new(stream: S, reply_max: usize, over: Arc<AtomicBool>) -> Self {
        Self { stream, reply_max, bytes: 0, lines: 0, over }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        let read = &buf.filled()[before..];
        this.bytes += read.len();
        this.lines += read.iter().filter(|byte| **byte == b'\n').count();
        if this.bytes > this.reply_max || this.lines > LINES_MAX {
            this.over.store(true, Relaxed);
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        (this.bytes, this.lines) = (0, 0);
        Pin::new(&mut this.stream).poll_write(cx, buf)
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

    /// Reads a reply of these bytes on a connection that allows ten.
    async fn reply(bytes: &[u8]) -> (io::Result<usize>, bool) {
        let (ours, mut theirs) = duplex(1 << 20);
        let over = Arc::<AtomicBool>::default();
        let mut limited = Limited::new(ours, 1 << 19, over.clone());
        for _ in 0..2 {
            limited.write_all(b"PING").await.expect("taken");
            theirs.write_all(bytes).await.expect("taken");
            let mut read = vec![0; bytes.len()];
            if let Err(error) = limited.read_exact(&mut read).await {
                return (Err(error), over.load(Relaxed));
            }
        }
        (Ok(bytes.len()), over.load(Relaxed))
    }

    #[tokio::test]
    async fn each_reply_has_the_whole_limit_and_a_longer_one_ends_the_connection() {
        assert!(matches!(reply(&vec![b'x'; 1 << 19]).await, (Ok(_), false)));
        assert!(matches!(reply(&vec![b'x'; (1 << 19) + 1]).await, (Err(_), true)));
        assert!(matches!(reply(&vec![b'\n'; LINES_MAX]).await, (Ok(_), false)));
        assert!(matches!(reply(&vec![b'\n'; LINES_MAX + 1]).await, (Err(_), true)));
    }
}
