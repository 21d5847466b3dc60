//! HTTP connection with one request at a time. Its errors tell how far a failed request got.

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

use super::{Body, Endpoint, Limits, Proxy, Request, Response, endpoint::Dialed, head_limit::HeadLimit};
use crate::{LimitedStream, PeerError, PeerErrorKind, Sent, Transport, catch_panic, catch_panic_now};

/// Number of chunks of a body that may be small. Each chunk costs time, however small.
const SMALL_CHUNKS_MAX: usize = 4_096;
/// Smallest mean size of chunks beyond that, in bytes.
const CHUNK_MEAN_MIN: usize = 64;

type Driver = http1::Connection<TokioIo<LimitedStream<Box<dyn Transport>, HeadLimit>>, Body>;

/// HTTP connection. Dropping it closes it.
pub struct Connection {
    sender: SendRequest<Body>,
    /// Future that reads and writes; None once it has ended.
    driver: Option<Pin<Box<Driver>>>,
    head: HeadLimit,
    idle: Option<IdleState>,
    proxy: Option<Proxy>,
    used: bool,
}

/// State of a kept connection between two requests.
struct IdleState {
    /// Second handle on the socket, for a check without waiting.
    socket: OwnedFd,
    /// Idle time-out.
    end: Pin<Box<Sleep>>,
    span: Duration,
}

impl Connection {
    /// Connects within `time`.
    ///
    /// # Errors
    /// [`PeerError`] with [`Sent::No`].
    pub async fn open(endpoint: &Endpoint, time: Duration) -> Result<Self, PeerError> {
        Self::over(endpoint.dial(time, false).await?, None).await
    }

    /// Connects within `time`; the connection is kept for `idle` between two requests.
    ///
    /// # Errors
    /// [`PeerError`] with [`Sent::No`].
    pub async fn open_keep_alive(
        endpoint: &Endpoint,
        time: Duration,
        idle: Duration,
    ) -> Result<Self, PeerError> {
        Self::over(endpoint.dial(time, true).await?, Some(idle)).await
    }

    async fn over(dialled: Dialed, idle: Option<Duration>) -> Result<Self, PeerError> {
        let Dialed { stream, socket, proxy } = dialled;
        let head = HeadLimit::unlimited();
        let stream = TokioIo::new(LimitedStream::new(stream, head.clone()));
        // Sends nothing yet.
        let (sender, driver) = catch_panic(http1::handshake(stream))
            .await
            .map_err(|panic| PeerError { sent: Sent::No, ..panic })?
            .map_err(|error| unsent(&error))?;
        let idle =
            socket.zip(idle).map(|(socket, span)| IdleState { socket, end: Box::pin(sleep(span)), span });
        Ok(Self { sender, driver: Some(Box::pin(driver)), head, idle, proxy, used: false })
    }

    /// A server may have closed a used connection unnoticed.
    pub fn is_used(&self) -> bool {
        self.used
    }

    pub(super) fn is_ready(&mut self) -> bool {
        // The next user polls with a real waker.
        self.poll_driver(&mut Context::from_waker(Waker::noop())).is_pending()
            && self.sender.is_ready()
            && self.has_no_input()
    }

    /// True if the socket is open and has no input. The runtime may not know of its end yet, and a write to a
    /// closed connection would have an unknown outcome.
    fn has_no_input(&self) -> bool {
        let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        self.idle.as_ref().is_some_and(|idle| recv(&idle.socket, &mut [0_u8][..], peek) == Err(Errno::AGAIN))
    }

    /// Ready once the connection has ended or was idle for too long.
    pub(super) fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.poll_driver(cx).is_ready() {
            return Poll::Ready(());
        }
        self.idle.as_mut().map_or(Poll::Ready(()), |idle| idle.end.as_mut().poll(cx))
    }

    pub(super) fn start_idle(&mut self) {
        if let Some(idle) = &mut self.idle {
            idle.end.as_mut().reset(Instant::now() + idle.span);
        }
        // Lets the driver finish the last response.
        let _ = self.is_ready();
    }

    fn poll_driver(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let ended = self.driver.as_mut().is_none_or(|driver| {
            catch_panic_now(|| driver.as_mut().poll(cx)).map_or(true, |polled| polled.is_ready())
        });
        if ended {
            // A finished future must not be polled again.
            self.driver = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Sends `request` and reads the whole response. After an error, or if the future is dropped, the
    /// connection is unusable.
    ///
    /// # Errors
    /// [`PeerError`] if there is no response within `limits`.
    pub async fn exchange(&mut self, request: Request, limits: Limits) -> Result<Response, PeerError> {
        let exchange = async {
            let (head, body) = self.send(request).await?.into_parts();
            let body = self.read_body(body, limits.body).await?;
            Ok(Response { status: head.status, headers: head.headers, body })
        };
        let overdue = |_| {
            let text = format!("no response within {:?}", limits.time);
            Err(PeerError::new(PeerErrorKind::Timeout, Sent::Maybe, text))
        };
        timeout(limits.time, exchange).await.unwrap_or_else(overdue)
    }

    /// Sends `request` and reads the head of the response. [`Connection::next_chunk`] reads the body. Body
    /// and time are not limited.
    ///
    /// # Errors
    /// [`PeerError`] of the kinds [`PeerErrorKind::Lost`] and [`PeerErrorKind::Malformed`].
    pub async fn send(&mut self, mut request: Request) -> Result<hyper::Response<Incoming>, PeerError> {
        self.used = true;
        self.head.start();
        if let Some(proxy) = &self.proxy {
            proxy.address(&mut request);
        }
        let Self { sender, driver, .. } = self;
        let sending = sender.try_send_request(request);
        let response = drive_until(driver, sending).await?.map_err(|mut error| {
            let kept = error.take_message().is_some();
            let error = error.into_error();
            if kept { unsent(&error) } else { broken(&error, Sent::Maybe) }
        })?;
        self.head.lift();
        Ok(response)
    }

    /// Reads the next chunk of a body; None at the end.
    ///
    /// # Errors
    /// [`PeerError`] with [`Sent::Yes`].
    pub async fn next_chunk(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, PeerError> {
        while let Some(frame) = drive_until(&mut self.driver, body.frame())
            .await
            .map_err(|panic| PeerError { sent: Sent::Yes, ..panic })?
        {
            // Trailers are skipped.
            if let Ok(chunk) = frame.map_err(|error| broken(&error, Sent::Yes))?.into_data() {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }

    /// Reads a whole body of at most `limit` bytes. Chunks are copied, since each one keeps its read buffer
    /// alive.
    ///
    /// # Errors
    /// [`PeerError`] with [`Sent::Yes`].
    pub async fn read_body(&mut self, mut body: Incoming, limit: usize) -> Result<Bytes, PeerError> {
        let (mut whole, mut count) = (BytesMut::new(), 0);
        while let Some(chunk) = self.next_chunk(&mut body).await? {
            if chunk.len() > limit - whole.len() {
                let text = format!("the response is larger than {limit} bytes");
                return Err(PeerError::new(PeerErrorKind::TooLarge, Sent::Yes, text));
            }
            whole.extend_from_slice(&chunk);
            count += 1;
            if count > SMALL_CHUNKS_MAX && whole.len() / count < CHUNK_MEAN_MIN {
                let text = format!("the body has more than {SMALL_CHUNKS_MAX} chunks of few bytes each");
                return Err(PeerError::new(PeerErrorKind::Malformed, Sent::Yes, text));
            }
        }
        Ok(whole.freeze())
    }
}

/// Waits for `outcome` while driving the connection.
///
/// # Errors
/// hyper panicked; the connection is unusable.
async fn drive_until<T>(
    driver: &mut Option<Pin<Box<Driver>>>,
    outcome: impl Future<Output = T>,
) -> Result<T, PeerError> {
    let drive = async {
        if let Some(polled) = driver {
            // The outcome has the error, too.
            let _ = polled.await;
        }
        *driver = None;
        pending().await
    };
    let driven = catch_panic(async {
        tokio::select! {
            biased;
            outcome = outcome => outcome,
            never = drive => never,
        }
    });
    let driven = driven.await;
    if driven.is_err() {
        *driver = None;
    }
    driven
}

fn unsent(error: &hyper::Error) -> PeerError {
    PeerError::new(PeerErrorKind::Lost, Sent::No, explain(error))
}

/// The response is malformed, or the connection has ended.
fn broken(error: &hyper::Error, sent: Sent) -> PeerError {
    let kind = if error.is_parse() { PeerErrorKind::Malformed } else { PeerErrorKind::Lost };
    PeerError::new(kind, sent, explain(error))
}

/// Adds the source of the error, since hyper's own text is short.
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

    /// Nothing is awaited between the end and the check, so the runtime cannot know of the end.
    #[test]
    fn an_ended_connection_is_not_ready_even_before_the_runtime_knows() {
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
            connection.start_idle();
            assert!(connection.is_ready());
            server.join().expect("the server").shutdown(Shutdown::Both).expect("an open connection");
            let give_up = Instant::now() + Duration::from_secs(20);
            while connection.is_ready() {
                assert!(Instant::now() < give_up, "the ended connection counts as ready");
            }
        });
    }

    #[test]
    fn a_body_in_chunks_of_one_byte_is_refused() {
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
                Err(PeerError { kind: PeerErrorKind::Malformed, text, .. }) => {
                    assert!(text.contains("4096 chunks"), "{text}");
                }
                other => panic!("{other:?}"),
            }
        });
    }
}
