//! Upper bound of what is read before the head of an answer has ended. The HTTP library limits one head, but reads interim answers (1xx)
//! without end, many in one poll: a server that sends nothing else would keep the whole thread busy.

use std::{
    cell::Cell,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are read before a head has ended, beginnings of the body included.
const HEAD_MAX: usize = 2 << 20;

/// Bytes that may still be read; None: as many as there are.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeadBudget(Rc<Cell<Option<usize>>>);

impl HeadBudget {
    /// A request is sent.
    pub(crate) fn begin(&self) {
        self.0.set(Some(HEAD_MAX));
    }

    /// The head of its answer has ended.
    pub(crate) fn end(&self) {
        self.0.set(None);
    }
}

/// A stream that fails once a head takes more than its budget.
pub(crate) struct HeadLimited<T> {
    stream: T,
    budget: HeadBudget,
}

impl<T> HeadLimited<T> {
    pub(crate) fn new(stream: T, budget: HeadBudget) -> Self {
        Self { stream, budget }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for HeadLimited<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let Some(left) = self.budget.0.get() else { return polled };
        let left = left.saturating_sub(buffer.filled().len() - before);
        self.budget.0.set(Some(left));
        if left > 0 {
            return polled;
        }
        let text = format!("the answer's head has more than {HEAD_MAX} bytes, interim answers included");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for HeadLimited<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
