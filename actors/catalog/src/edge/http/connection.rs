//! One connection: one request at a time, and what is known of a request when it breaks.

use std::{
    future::pending,
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Request, StatusCode,
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{Instant, Sleep, sleep, timeout},
};

use super::place::Place;
use crate::edge::head_limit::{HeadBudget, HeadLimited};

const RUNS: &str = "see that it runs there, and that the base is right";

/// Pieces of a body that may be of any size. Each costs time, however small it is.
const PIECES_FREE: usize = 4_096;
/// Bytes that more pieces have on average.
const PIECE_MIN: usize = 64;

trait Transport: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Transport for T {}

type Driver = http1::Connection<TokioIo<HeadLimited<Box<dyn Transport>>>, Full<Bytes>>;

/// An answer, whole.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Broken {
    /// Nothing of the request was sent.
    Unsent(String),
    /// It was sent, at least in part, and nothing came back.
    Unanswered(String),
    /// The answer broke off.
    Halfway(String),
    /// The answer is larger than what is read.
    TooLarge,
}

/// A connection. Dropped, it is closed.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Moves the bytes while it is polled; None once it has ended.
    driver: Option<Pin<Box<Driver>>>,
    head: HeadBudget,
    /// The same socket, to be asked without waiting.
    socket: OwnedFd,
    /// When it is closed if nobody uses it.
    rest: Pin<Box<Sleep>>,
    idle: Duration,
    used: bool,
}

impl Connection {
    /// Connects.
    pub(super) async fn open(place: &Place) -> Result<Self, String> {
        let patience = place.patience;
        let dialled = timeout(patience.connect, dial(place)).await;
        let (stream, socket) = dialled
            .unwrap_or_else(|_elapsed| Err(format!("no connection within {:?}: {RUNS}", patience.connect)))?;
        let head = HeadBudget::default();
        let stream = TokioIo::new(HeadLimited::new(stream, head.clone()));
        // Only sets things up: nothing is sent.
        let (sender, driver) = http1::handshake(stream).await.map_err(|error| error.to_string())?;
        let (driver, rest) = (Some(Box::pin(driver)), Box::pin(sleep(patience.idle)));
        Ok(Self { sender, driver, head, socket, rest, idle: patience.idle, used: false })
    }

    /// Was it used before? A server may have closed it then without our knowing yet.
    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    /// May it take a request now?
    pub(super) fn is_ready(&mut self) -> bool {
        // Whoever uses it polls it again, with a waker.
        self.poll_driver(&mut Context::from_waker(Waker::noop())).is_pending()
            && self.sender.is_ready()
            && self.is_quiet()
    }

    /// Is it open, and has the server nothing to say? The runtime may not have heard of its end yet; a write on a connection that is
    /// closed would be one that nobody knows the outcome of.
    fn is_quiet(&self) -> bool {
        recv(&self.socket, &mut [0_u8][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) == Err(Errno::AGAIN)
    }

    /// Ends when it is of no use any more, or was idle for too long.
    pub(super) fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.poll_driver(cx).is_ready() { Poll::Ready(()) } else { self.rest.as_mut().poll(cx) }
    }

    /// Its time as an idle connection begins.
    pub(super) fn begin_rest(&mut self) {
        self.rest.as_mut().reset(Instant::now() + self.idle);
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

    /// Sends `request`, and reads an answer of at most `limit` bytes. After an error, or dropped, the connection is of no use.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        limit: usize,
    ) -> Result<Answer, Broken> {
        self.used = true;
        let Self { sender, driver, head, .. } = self;
        head.begin();
        let answer = async move {
            let response = sender.try_send_request(request).await.map_err(|mut error| {
                let kept = error.take_message().is_some();
                let text = explain(&error.into_error());
                if kept { Broken::Unsent(text) } else { Broken::Unanswered(text) }
            })?;
            head.end();
            let (parts, body) = response.into_parts();
            let body = gather(body, limit).await?;
            Ok(Answer { status: parts.status, headers: parts.headers, body })
        };
        let drive = async {
            if let Some(polled) = driver {
                // Its error shows in the answer as well.
                let _ = polled.await;
            }
            *driver = None;
            pending().await
        };
        tokio::select! {
            biased;
            answer = answer => answer,
            // Polled for the answer's sake.
            never = drive => never,
        }
    }
}

/// The whole body, of at most `limit` bytes. Its pieces are copied: a server may send one byte in each, and each would keep its place in a
/// list and the block that it was read into.
async fn gather(body: Incoming, limit: usize) -> Result<Bytes, Broken> {
    let mut pieces = Limited::new(body, limit);
    let (mut body, mut count) = (BytesMut::new(), 0);
    while let Some(frame) = pieces.frame().await {
        let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
            true => Broken::TooLarge,
            false => Broken::Halfway(explain(&*error)),
        })?;
        if let Some(piece) = frame.data_ref() {
            body.extend_from_slice(piece);
            count += 1;
        }
        if count > PIECES_FREE && body.len() / count < PIECE_MIN {
            return Err(Broken::Halfway(format!(
                "it comes in more than {PIECES_FREE} pieces of some bytes each"
            )));
        }
    }
    Ok(body.freeze())
}

/// A connection, and its socket once more.
async fn dial(place: &Place) -> Result<(Box<dyn Transport>, OwnedFd), String> {
    let stream = TcpStream::connect((&*place.host, place.port)).await;
    let stream = stream.map_err(|error| format!("{error}: {RUNS}"))?;
    // Else the last piece of a body waits for the acknowledgement of the piece before, 40 ms.
    stream.set_nodelay(true).map_err(|error| format!("TCP_NODELAY cannot be set: {error}"))?;
    let socket = stream.as_fd().try_clone_to_owned();
    let socket = socket.map_err(|error| format!("no descriptor is left: {error}"))?;
    let Some((tls, name)) = &place.tls else { return Ok((Box::new(stream), socket)) };
    let secured = tls.connect(name.clone(), stream).await.map_err(|error| {
        format!("TLS: {error}: see that the server speaks TLS, and that ca_file has the authority of its certificate")
    })?;
    Ok((Box::new(secured), socket))
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
            let place = Place::new(&format!("http://127.0.0.1:{port}/c/1"), None, &[]).expect("an address");
            let mut connection = Connection::open(&place).await.expect("a connection");
            let answer = connection.exchange(Request::new(Full::default()), 100).await.expect("an answer");
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
            let place = Place::new(&format!("http://127.0.0.1:{port}/c/1"), None, &[]).expect("an address");
            let mut connection = Connection::open(&place).await.expect("a connection");
            let answer = connection.exchange(Request::new(Full::default()), 64 << 20).await;
            match answer {
                Err(Broken::Halfway(text)) => assert!(text.contains("4096 pieces"), "{text}"),
                other => panic!("{other:?}"),
            }
        });
    }
}
