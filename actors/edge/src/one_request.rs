//! Stream that ends after one HTTP/1 request. The HTTP server parses all pipelined requests that it reads,
//! and each takes a kilobyte until it is answered.

use std::{
    io::{self, IoSlice},
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Longest part of a line that is kept, in bytes. A longer line with the length of a body ends the request.
const LINE_MAX: usize = 256;

/// Stream `S` whose reader sees the end of the file after the first request: head, and body by its
/// `Content-Length` or its chunks. While the client sends nothing more, the reader waits and notices that the
/// client closes the connection.
#[derive(Debug)]
pub struct OneRequest<S> {
    stream: S,
    request: RequestEnd,
    /// True once the client sent more than one request, or closed its side.
    has_ended: bool,
}

impl<S> OneRequest<S> {
    /// Limits `stream`.
    pub fn new(stream: S) -> Self {
        Self { stream, request: RequestEnd::default(), has_ended: false }
    }

    /// Returns the limited stream.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for OneRequest<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.has_ended {
            return Poll::Ready(Ok(()));
        }
        if this.request.is_complete() {
            // A line break after the body, as old clients send it, is read, too.
            let mut more = [0; 2];
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut ReadBuf::new(&mut more)))?;
            this.has_ended = true;
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        let bytes = &buffer.filled()[before..];
        let passed = this.request.take(bytes);
        this.has_ended = bytes.is_empty() || passed < bytes.len();
        buffer.set_filled(before + passed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for OneRequest<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
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

/// Search for the end of a request. It may end earlier than in an invalid request, never later than the HTTP
/// server's parser.
#[derive(Debug, Default)]
struct RequestEnd {
    part: Part,
    /// Beginning of the current line, at most [`LINE_MAX`] bytes.
    line: Vec<u8>,
    /// True after the request line. The parser ignores empty lines before it.
    has_begun: bool,
    body: Body,
}

/// Part of a request.
#[derive(Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    /// The last bytes of the body.
    Body(u64),
    ChunkSize,
    /// Bytes of a chunk, and its line break.
    Chunk(u64),
    Trailers,
    Complete,
}

/// Length of a body, from the head.
#[derive(Debug, Clone, Copy)]
enum Body {
    Bytes(u64),
    Chunks,
}

impl Default for Body {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

impl RequestEnd {
    fn is_complete(&self) -> bool {
        self.part == Part::Complete
    }

    /// Number of leading bytes of `bytes` that belong to the request.
    fn take(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match &mut self.part {
                Part::Complete => break,
                Part::Body(left) | Part::Chunk(left) => {
                    let count = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                    *left -= count as u64;
                    if *left == 0 {
                        let is_chunk = matches!(self.part, Part::Chunk(_));
                        self.part = if is_chunk { Part::ChunkSize } else { Part::Complete };
                    }
                    count
                }
                Part::Head | Part::ChunkSize | Part::Trailers => self.take_line(rest),
            };
        }
        at
    }

    /// Reads to the end of the line, or to the end of `bytes`.
    fn take_line(&mut self, bytes: &[u8]) -> usize {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(bytes.len(), |at| at + 1);
        let kept = count.min(LINE_MAX - self.line.len());
        self.line.extend_from_slice(&bytes[..kept]);
        if end.is_some() {
            let line = mem::take(&mut self.line);
            let is_whole = line.len() < LINE_MAX;
            self.part = self.part_after(line.trim_ascii_end(), is_whole, line.len() <= 2);
        }
        count
    }

    /// Part after `line`, which has its line break and spaces removed.
    fn part_after(&mut self, line: &[u8], is_whole: bool, may_be_empty: bool) -> Part {
        let is_empty = may_be_empty && line.is_empty();
        match self.part {
            Part::Head if !is_empty => {
                self.has_begun = true;
                self.read_header(line, is_whole);
                Part::Head
            }
            Part::Head if !self.has_begun => Part::Head,
            Part::Head => match self.body {
                Body::Bytes(0) => Part::Complete,
                Body::Bytes(count) => Part::Body(count),
                Body::Chunks => Part::ChunkSize,
            },
            Part::ChunkSize if is_whole => match chunk_size(line) {
                Some(0) => Part::Trailers,
                Some(size) => size.checked_add(2).map_or(Part::Complete, Part::Chunk),
                None => Part::Complete,
            },
            Part::Trailers if !is_empty => Part::Trailers,
            _ => Part::Complete,
        }
    }

    /// Reads the length of the body. One that the parser would refuse is 0.
    fn read_header(&mut self, line: &[u8], is_whole: bool) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let value = std::str::from_utf8(value).ok().filter(|_| is_whole).unwrap_or_default();
        if name.eq_ignore_ascii_case(b"content-length") {
            self.body = Body::Bytes(value.parse().unwrap_or(0));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
            self.body = Body::Chunks;
        }
    }
}

/// Size in the line before a chunk.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let digits = std::str::from_utf8(&line[..digits]).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// Requests, each whole.
    const REQUESTS: &[&str] = &[
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "\r\n\nGET / HTTP/1.1\nHost: x\n\n",
        "GET http://x:80/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\ncontent-LENGTH:  0005 \r\nHost: x\r\n\r\n\r\n\r\n.",
        "HEAD / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0a;name=\"b\"\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n000\r\nTrailer: x\r\n\r\n",
        "GET /v1/events HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n",
    ];

    /// Beginnings that the parser refuses: nothing after them is passed on.
    const REFUSED: &[&str] = &[
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    ];

    /// Bytes read from a client that sends `bytes` in pieces of `piece`, and stays connected.
    async fn read(bytes: &[u8], piece: usize) -> Vec<u8> {
        let (ours, mut client) = duplex(piece);
        let mut stream = OneRequest::new(ours);
        let sending = async {
            for piece in bytes.chunks(piece) {
                if client.write_all(piece).await.is_err() {
                    return;
                }
            }
        };
        let reading = async move {
            let mut read = Vec::new();
            stream.read_to_end(&mut read).await.expect("no error");
            read
        };
        tokio::join!(sending, reading).1
    }

    #[tokio::test]
    async fn only_the_first_request_is_read() {
        let more = "GET /more HTTP/1.1\r\nHost: x\r\n\r\n".repeat(50);
        for first in REQUESTS.iter().chain(REFUSED) {
            for piece in [1, 2, 3, 7, 64, 10_000] {
                let read = read(&[first.as_bytes(), more.as_bytes()].concat(), piece).await;
                assert_eq!(String::from_utf8_lossy(&read), *first, "{piece}");
            }
        }
    }

    #[tokio::test]
    async fn a_long_line_with_a_length_ends_the_request() {
        let long = |zeros| format!("POST / HTTP/1.1\r\nContent-Length: {}4\r\n\r\n", "0".repeat(zeros));
        let head = long(100) + "abcd";
        assert_eq!(read(format!("{head}GET /more").as_bytes(), 64).await, head.as_bytes());
        assert_eq!(read((long(300) + "abcd").as_bytes(), 64).await, long(300).as_bytes());
    }

    /// The reader waits after the request, and sees that the client closes its side.
    #[tokio::test]
    async fn the_end_of_the_connection_is_noticed() {
        let (ours, mut client) = duplex(64);
        let mut stream = OneRequest::new(ours);
        client.write_all(REQUESTS[0].as_bytes()).await.expect("room");
        let mut buffer = [0; 100];
        assert_eq!(stream.read(&mut buffer).await.expect("a request"), REQUESTS[0].len());
        let mut reading = std::pin::pin!(stream.read(&mut buffer));
        assert!(futures_util::poll!(&mut reading).is_pending());
        client.shutdown().await.expect("it is open");
        assert_eq!(reading.await.expect("the end"), 0);
    }
}
