//! HTTP/1.1 server. A connection serves one request, so that pipelined ones take no memory.

use std::{cell::Cell, convert::Infallible, error::Error, future::pending, io, time::Duration};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::{
    Request, Response, StatusCode, Version,
    body::{Body, Incoming},
    header::{CONTENT_TYPE, HOST, HeaderValue},
    server::conn::http1::Builder,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use crate::{ConnectionEvent, ConnectionSlots};

/// Time within which the request line and headers have to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Answer to a client whose head is late.
const HEAD_IS_LATE: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
/// Longest head, and most bytes of a response that wait for the client.
const BUFFER_MAX: usize = 128 << 10;
/// Time to read the rest of a request that was answered early. To close a connection with unread input
/// resets it, which may lose the response.
const LINGER: Duration = Duration::from_secs(1);

/// Answers the requests of the connections that `accept` returns, at most `max` at once. Dropping the future
/// closes them.
pub async fn serve<S, F, B>(
    max: usize,
    accept: impl AsyncFn() -> io::Result<S>,
    answer: impl Fn(Request<Incoming>) -> F + Clone + 'static,
) -> Infallible
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
    F: Future<Output = Response<B>> + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
{
    // One connection more is accepted.
    let mut slots = ConnectionSlots::new(max - 1, |_, _| None, None, None);
    loop {
        if let ConnectionEvent::Accepted(stream) = slots.next_event(&accept, true).await {
            slots.serve((), |_, _| serve_one(stream, pending(), answer.clone()));
        }
    }
}

/// Answers the first request of a connection, and closes the connection; `stop` closes it before a request
/// has begun. A client that has closed its side gets its answer. Returns false if the client sent something,
/// but no valid request.
pub async fn serve_one<S, F, B>(
    stream: S,
    stop: impl Future<Output = ()>,
    answer: impl Fn(Request<Incoming>) -> F,
) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Response<B>>,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
{
    let (is_valid, has_body) = (Cell::new(None), Cell::new(false));
    let service = service_fn(|request: Request<Incoming>| {
        has_body.set(!request.body().is_end_stream());
        // As RFC 9112 requires in section 3.2.
        let has_host = request.version() < Version::HTTP_11 || request.headers().contains_key(HOST);
        is_valid.set(Some(has_host));
        let answer = has_host.then(|| answer(request));
        async move {
            let Some(answer) = answer else {
                let mut refused = Response::new(Either::Left(Full::default()));
                *refused.status_mut() = StatusCode::BAD_REQUEST;
                return Ok::<_, Infallible>(refused);
            };
            Ok(answer.await.map(Either::Right))
        }
    });
    let mut http = Builder::new();
    http.keep_alive(false).half_close(true).pipeline_flush(false).max_buf_size(BUFFER_MAX);
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_header_size(BUFFER_MAX);
    let mut connection = http.serve_connection(TokioIo::new(stream), service);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    let parts = connection.into_parts();
    let is_late = ended.as_ref().is_err_and(hyper::Error::is_timeout);
    // Input that belongs to no valid request.
    let has_other_input = !parts.read_buf.is_empty() || ended.is_err_and(|error| error.is_parse());
    let mut stream = parts.io.into_inner();
    let close = async {
        if is_late {
            stream.write_all(HEAD_IS_LATE).await?;
        }
        stream.shutdown().await?;
        let mut rest = [0; 1024];
        while (has_body.get() || has_other_input) && stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    // The client may be gone.
    let _ = timeout(LINGER, close).await;
    is_valid.get().unwrap_or(!has_other_input)
}

/// Creates a response with a body of known length.
pub fn response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::{
        io::{DuplexStream, duplex, split},
        net::{TcpListener, TcpStream},
        time::Instant,
    };

    use super::*;

    /// Requests, each whole, with the body that the server reads.
    const REQUESTS: &[(&str, &str)] = &[
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", ""),
        ("\r\n\nGET / HTTP/1.1\nHost: x\n\n", ""),
        ("GET http://x:80/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "abc"),
        ("POST / HTTP/1.1\r\ncontent-LENGTH: 5\r\nHost: x\r\n\r\n\r\n\r\n.", "\r\n\r\n."),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0a;n=\"b\"\r\n0123456789\r\n0\r\nT: x\r\n\r\n",
            "abc0123456789",
        ),
        ("GET /v1/events HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", ""),
        ("CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n", ""),
    ];

    /// Requests that the parser refuses.
    const REFUSED: &[&str] = &[
        "nonsense\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
    ];

    /// Serves one connection with the bodies of requests as responses.
    async fn echo(stream: impl AsyncRead + AsyncWrite + Unpin) -> bool {
        let answer = async |request: Request<Incoming>| {
            let body = request.into_body().collect().await.expect("a body").to_bytes();
            response(StatusCode::IM_A_TEAPOT, "text/plain", body)
        };
        serve_one(stream, pending(), answer).await
    }

    /// Response to a client that sends `bytes` in pieces of `piece` and stays connected, and whether there
    /// was a valid request.
    async fn exchange(bytes: &[u8], piece: usize) -> (String, bool) {
        let (ours, client): (DuplexStream, DuplexStream) = duplex(piece);
        let (mut reader, mut writer) = split(client);
        let sending = async {
            for piece in bytes.chunks(piece) {
                if writer.write_all(piece).await.is_err() {
                    return;
                }
            }
        };
        let reading = async {
            let mut read = String::new();
            reader.read_to_string(&mut read).await.expect("text");
            read
        };
        let (is_valid, (), read) = tokio::join!(echo(ours), sending, reading);
        (read, is_valid)
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_first_request_is_answered() {
        let more = "GET /more HTTP/1.1\r\nHost: x\r\n\r\n".repeat(50);
        for (first, body) in REQUESTS {
            for piece in [1, 7, 64, 10_000] {
                let (answer, is_valid) = exchange(&[first.as_bytes(), more.as_bytes()].concat(), piece).await;
                assert!(is_valid && answer.starts_with("HTTP/1.1 418 "), "{first}: {answer}");
                let (head, answered) = answer.split_once("\r\n\r\n").expect("a head");
                assert!(head.contains("connection: close"), "{head}");
                assert_eq!(answered, *body, "{first}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_invalid_request_is_refused_and_told() {
        for refused in REFUSED {
            let (answer, is_valid) = exchange(refused.as_bytes(), 64).await;
            assert!(!is_valid && answer.starts_with("HTTP/1.1 400 "), "{refused}: {answer}");
        }
        let long = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}", "x".repeat(BUFFER_MAX));
        for end in ["", "\r\n\r\n"] {
            let (answer, is_valid) = exchange((long.clone() + end).as_bytes(), 64 << 10).await;
            assert!(!is_valid && answer.starts_with("HTTP/1.1 431 "), "{answer}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_head_is_408_and_a_client_that_sends_nothing_is_no_fault() {
        for (sent, valid) in [("GET / HTTP/1.1\r\nX-Slow: ", false), ("", true)] {
            let began = Instant::now();
            let (answer, is_valid) = exchange(sent.as_bytes(), 64).await;
            assert_eq!(is_valid, valid, "{sent}");
            assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
            assert!(began.elapsed() <= HEAD_TIMEOUT + LINGER);
        }
        let (ours, client) = duplex(64);
        drop(client);
        assert!(echo(ours).await, "a check of the port");
    }

    /// The answer to a body that is not read arrives although the client sends on.
    #[tokio::test]
    async fn an_early_answer_is_not_lost() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = async {
            let (stream, _) = listener.accept().await.expect("a connection");
            let refuse =
                async |_: Request<Incoming>| response(StatusCode::PAYLOAD_TOO_LARGE, "text/plain", "");
            serve_one(stream, pending(), refuse).await
        };
        let asking = async {
            let mut client = TcpStream::connect(address).await.expect("a server");
            let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n";
            client.write_all(head.as_bytes()).await.expect("room");
            for _ in 0..100 {
                client.write_all(&[b'x'; 10_000]).await.expect("the server reads on");
            }
            client.shutdown().await.expect("an open connection");
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.expect("an answer");
            answer
        };
        let (is_valid, answer) = tokio::join!(serving, asking);
        assert!(is_valid && answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }

    /// A client that has closed its side gets its answer.
    #[tokio::test]
    async fn a_half_closed_client_is_answered() {
        let (ours, mut client) = duplex(1024);
        client.write_all(REQUESTS[0].0.as_bytes()).await.expect("room");
        client.shutdown().await.expect("it is open");
        let mut answer = String::new();
        let (is_valid, read) = tokio::join!(echo(ours), client.read_to_string(&mut answer));
        assert!(is_valid && read.is_ok() && answer.starts_with("HTTP/1.1 418 "), "{answer}");
    }
}
