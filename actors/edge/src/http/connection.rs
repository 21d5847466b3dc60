//! One connection: one request at a time, and what is known of a request when it breaks.

use std::{
    future::pending,
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
pub use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::{Body, Endpoint, HttpError, Limits, Request, Response, endpoint::Dialled, head_limit::HeadLimit};
use crate::{LimitedStream, Transport};

/// Pieces of a body that may be of any size. Each costs time, however small it is.
const PIECES_FREE: usize = 4_096;
/// Bytes that more pieces have on average.
const PIECE_MIN: usize = 64;

type Driver = http1::Connection<TokioIo<LimitedStream<Box<dyn Transport>, HeadLimit>>, Body>;

/// A connection. Dropped, it is closed.
pub struct Connection {
    sender: SendRequest<Body>,
    /// Moves the bytes while it is polled; None once it has ended.
    driver: Option<Pin<Box<Driver>>>,
    head: HeadLimit,
    rest: Option<Rest>,
    used: bool,
}

/// The time between two requests.
struct Rest {
    /// The same socket, to be asked without waiting.
    socket: OwnedFd,
    /// When the connection is closed if nobody uses it.
    end: Pin<Box<Sleep>>,
    span: Duration,
}

impl Connection {
    /// Connects within `time`.
    ///
    /// # Errors
    /// Nothing was sent, see [`HttpError::is_unsent`].
    pub async fn open(endpoint: &Endpoint, time: Duration) -> Result<Self, HttpError> {
        Self::over(endpoint.dial(time, false).await?, None).await
    }

    /// As [`Connection::open`], for a connection that is kept for `idle` between two requests.
    ///
    /// # Errors
    /// Likewise.
    pub async fn open_keep_alive(
        endpoint: &Endpoint,
        time: Duration,
        idle: Duration,
    ) -> Result<Self, HttpError> {
        Self::over(endpoint.dial(time, true).await?, Some(idle)).await
    }

    async fn over(dialled: Dialled, idle: Option<Duration>) -> Result<Self, HttpError> {
        let Dialled { stream, socket } = dialled;
        let head = HeadLimit::default();
        let stream = TokioIo::new(LimitedStream::new(stream, head.clone()));
        // Only sets things up: nothing is sent.
        let (sender, driver) = http1::handshake(stream).await.map_err(|error| unsent(&error))?;
        let rest = socket.zip(idle).map(|(socket, span)| Rest { socket, end: Box::pin(sleep(span)), span });
        Ok(Self { sender, driver: Some(Box::pin(driver)), head, rest, used: false })
    }

    /// Tells whether it was used before: a server may have closed it then without our knowing yet.
    pub fn is_used(&self) -> bool {
        self.used
    }

    /// Tells whether it may take a request now.
    pub(super) fn is_ready(&mut self) -> bool {
        // Whoever uses it polls it again, with a waker.
        self.poll_driver(&mut Context::from_waker(Waker::noop())).is_pending()
            && self.sender.is_ready()
            && self.is_quiet()
    }

    /// Tells whether it is open, and the server has nothing to say. The runtime may not have heard of its end yet; a write on a connection
    /// that is closed would be one that nobody knows the outcome of.
    fn is_quiet(&self) -> bool {
        let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        self.rest.as_ref().is_some_and(|rest| recv(&rest.socket, &mut [0_u8][..], peek) == Err(Errno::AGAIN))
    }

    /// Ends when it is of no use any more, or was idle for too long.
    pub(super) fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.poll_driver(cx).is_ready() {
            return Poll::Ready(());
        }
        self.rest.as_mut().map_or(Poll::Ready(()), |rest| rest.end.as_mut().poll(cx))
    }

    /// Its time as an idle connection begins.
    pub(super) fn begin_rest(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.end.as_mut().reset(Instant::now() + rest.span);
        }
        // Has it see that the last answer is over, and be ready.
        let _ = self.is_ready();
    }

    fn poll_driver(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let ended = self.driver.as_mut().is_none_or(|driver| driver.as_mut().poll(cx).is_ready());
        if ended {
            // One that has ended must not be polled again.
            self.driver = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Sends `request`, and reads its whole answer. After an error, or dropped, the connection is of no use.
    ///
    /// # Errors
    /// There is no answer within `limits`.
    pub async fn exchange(&mut self, request: Request, limits: Limits) -> Result<Response, HttpError> {
        let exchange = async {
            let (head, body) = self.send(request).await?.into_parts();
            let body = self.read_body(body, limits.body).await?;
            Ok(Response { status: head.status, headers: head.headers, body })
        };
        timeout(limits.time, exchange).await.unwrap_or(Err(HttpError::ResponseTimeout(limits.time)))
    }

    /// Sends `request`, and reads the head of its answer. The body is read by [`Connection::next_chunk`]; neither it nor the time is limited.
    ///
    /// # Errors
    /// [`HttpError::Unsent`], [`HttpError::Unanswered`].
    pub async fn send(&mut self, request: Request) -> Result<hyper::Response<Incoming>, HttpError> {
        self.used = true;
        self.head.begin();
        let Self { sender, driver, .. } = self;
        let sending = sender.try_send_request(request);
        let response = driven(driver, sending).await.map_err(|mut error| {
            let kept = error.take_message().is_some();
            let error = error.into_error();
            if kept { unsent(&error) } else { HttpError::Unanswered(explain(&error)) }
        })?;
        self.head.end();
        Ok(response)
    }

    /// Reads the next piece of a body; None at its end.
    ///
    /// # Errors
    /// [`HttpError::Incomplete`].
    pub async fn next_chunk(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, HttpError> {
        while let Some(frame) = driven(&mut self.driver, body.frame()).await {
            // A frame of trailers is no piece.
            if let Ok(piece) = frame.map_err(|error| HttpError::Incomplete(explain(&error)))?.into_data() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }

    /// Reads a whole body of at most `limit` bytes. Its pieces are copied: a server may send one byte in each, and each would keep its place
    /// in a list and the block that it was read into.
    ///
    /// # Errors
    /// [`HttpError::Incomplete`], [`HttpError::TooLarge`].
    pub async fn read_body(&mut self, mut body: Incoming, limit: usize) -> Result<Bytes, HttpError> {
        let (mut whole, mut count) = (BytesMut::new(), 0);
        while let Some(piece) = self.next_chunk(&mut body).await? {
            if piece.len() > limit - whole.len() {
                return Err(HttpError::TooLarge(limit));
            }
            whole.extend_from_slice(&piece);
            count += 1;
            if count > PIECES_FREE && whole.len() / count < PIECE_MIN {
                return Err(HttpError::Incomplete(format!(
                    "it comes in more than {PIECES_FREE} pieces of some bytes each"
                )));
            }
        }
        Ok(whole.freeze())
    }
}

/// Waits for `outcome`, which the connection's driver brings about.
async fn driven<T>(driver: &mut Option<Pin<Box<Driver>>>, outcome: impl Future<Output = T>) -> T {
    let drive = async {
        if let Some(polled) = driver {
            // Its error shows in the outcome as well.
            let _ = polled.await;
        }
        *driver = None;
        pending().await
    };
    tokio::select! {
        biased;
        outcome = outcome => outcome,
        never = drive => never,
    }
}

fn unsent(error: &hyper::Error) -> HttpError {
    HttpError::Unsent(explain(error))
}

/// An error with what lies behind it: hyper's own words are few.
fn explain(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{Shutdown, TcpListener},
        thread,
        time::Instant,
    };

    use super::*;
    use crate::HostPort;

    async fn open(port: u16) -> Connection {
        let endpoint = Endpoint::Tcp(HostPort { host: "127.0.0.1".to_owned(), port });
        let span = Duration::from_secs(30);
        Connection::open_keep_alive(&endpoint, span, span).await.expect("a connection")
    }

    fn request() -> Request {
        Request::new(Body::default())
    }

    fn limits(body: usize) -> Limits {
        Limits { body, time: Duration::from_secs(30) }
    }

    /// Nothing is awaited between the connection's end and the look at it: the runtime cannot have heard of it.
    #[test]
    fn a_connection_that_ended_is_not_ready_before_the_runtime_hears_of_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let asked = stream.read(&mut [0; 4096]).expect("a request");
            assert!(asked > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]").expect("an answer");
            stream
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut connection = open(port).await;
            let answer = connection.exchange(request(), limits(100)).await.expect("an answer");
            assert_eq!(&*answer.body, b"[]");
            connection.begin_rest();
            assert!(connection.is_ready());
            server.join().expect("the server").shutdown(Shutdown::Both).expect("an open connection");
            let give_up = Instant::now() + Duration::from_secs(20);
            while connection.is_ready() {
                assert!(Instant::now() < give_up, "it is taken for an open one");
            }
        });
    }

    #[test]
    fn a_body_in_pieces_of_a_byte_is_not_read_to_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let asked = stream.read(&mut [0; 4096]).expect("a request");
            assert!(asked > 0);
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            let mut sent = stream.write_all(head);
            while sent.is_ok() {
                sent = stream.write_all(&b"1\r\n[\r\n".repeat(1_000));
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            match open(port).await.exchange(request(), limits(64 << 20)).await {
                Err(HttpError::Incomplete(text)) => assert!(text.contains("4096 pieces"), "{text}"),
                other => panic!("{other:?}"),
            }
        });
    }
}
