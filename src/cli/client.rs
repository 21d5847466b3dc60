//! One request to the admin endpoint of a running instance: connect, ask, read, done. No retries: an operator's verb
//! must not be carried out twice.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode, client::conn::http1::handshake, header};
use hyper_util::rt::TokioIo;
use orchestrator_subsystem::{
    CommandError, Instance,
    command::Answering,
    output::{escaped, one_line},
    wire::ErrorBody,
};
use orchestrator_supervise::sanitize;
use serde::Serialize;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};

use crate::cli::target::Address;

/// Longest wait for an answer to a question.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for a command: a little longer than the endpoint's own limit, so that its words arrive.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(12);
/// Largest answer that is read; a tree of ten thousand children is smaller.
const ANSWER_LIMIT: usize = 64 * 1024 * 1024;

/// Talks to one address.
pub(crate) struct Client {
    address: Address,
    token: Option<String>,
    /// Answers are handed out as they came, to be printed as JSON; else with escaped strings.
    raw: bool,
}

impl Client {
    /// `raw` answers are printed as JSON and nothing else.
    pub(crate) fn new(address: Address, token: Option<String>, raw: bool) -> Self {
        Self { address, token, raw }
    }

    /// Asks without changing anything.
    pub(crate) async fn get(&self, route: &str) -> Result<Value, CommandError> {
        self.timed(READ_TIMEOUT, self.exchange(Method::GET, route, String::new())).await
    }

    /// Gives a command, or asks a console.
    pub(crate) async fn post(&self, route: &str, body: &impl Serialize) -> Result<Value, CommandError> {
        let body = serde_json::to_string(body).map_err(|error| self.foreign(error.to_string()))?;
        self.timed(COMMAND_TIMEOUT, self.exchange(Method::POST, route, body)).await
    }

    /// Reads an answer that goes on and on; `take` says whether it wants more. Ok when either side ended it.
    pub(crate) async fn follow(
        &self,
        route: &str,
        take: &mut dyn FnMut(&[u8]) -> Result<bool, CommandError>,
    ) -> Result<(), CommandError> {
        match &self.address {
            Address::Tcp { authority, prefix } => {
                let stream = TcpStream::connect(authority).await.map_err(|error| self.unreachable(&error))?;
                let request =
                    self.request(Method::GET, &format!("{prefix}{route}"), authority, String::new())?;
                self.listen(stream, request, take).await
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| self.unreachable(&error))?;
                let request = self.request(Method::GET, route, "localhost", String::new())?;
                self.listen(stream, request, take).await
            }
        }
    }

    async fn listen<S>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
        take: &mut dyn FnMut(&[u8]) -> Result<bool, CommandError>,
    ) -> Result<(), CommandError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let odd = |error: hyper::Error| self.foreign(error.to_string());
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(odd)?;
        let events = async move {
            let response = sender.send_request(request).await.map_err(odd)?;
            let status = response.status();
            let mut body = response.into_body();
            if !status.is_success() {
                let body = Limited::new(body, ANSWER_LIMIT).collect().await;
                let body = body.map_err(|error| self.foreign(error.to_string()))?.to_bytes();
                return self.understand(status, &body).map(drop);
            }
            while let Some(frame) = body.frame().await {
                // The process ended, or was killed.
                let Ok(frame) = frame else { break };
                if let Some(bytes) = frame.data_ref()
                    && !take(bytes)?
                {
                    break;
                }
            }
            Ok(())
        };
        tokio::select! {
            done = events => done,
            // Polled for the exchange's sake; the exchange sees its end.
            () = async { let _ = connection.await; std::future::pending().await } => Ok(()),
        }
    }

    async fn timed(
        &self,
        limit: Duration,
        exchange: impl Future<Output = Result<Value, CommandError>>,
    ) -> Result<Value, CommandError> {
        let slow = || CommandError::Slow { target: self.address.to_string(), seconds: limit.as_secs() };
        tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_elapsed| Err(slow()))
    }

    async fn exchange(&self, method: Method, route: &str, body: String) -> Result<Value, CommandError> {
        let unreachable = |error: std::io::Error| self.unreachable(&error);
        match &self.address {
            Address::Tcp { authority, prefix } => {
                let stream = TcpStream::connect(authority).await.map_err(unreachable)?;
                let request = self.request(method, &format!("{prefix}{route}"), authority, body)?;
                self.talk(stream, request).await
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(unreachable)?;
                let request = self.request(method, route, "localhost", body)?;
                self.talk(stream, request).await
            }
        }
    }

    async fn talk<S>(&self, stream: S, request: Request<Full<Bytes>>) -> Result<Value, CommandError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let odd = |error: hyper::Error| self.foreign(error.to_string());
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(odd)?;
        let answer = async move {
            let response = sender.send_request(request).await.map_err(odd)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
            Ok::<_, CommandError>((status, body.map_err(|error| self.foreign(error.to_string()))?.to_bytes()))
        };
        // The connection ends with the exchange, which owns the sender; its errors show there as well.
        let (answer, _) = tokio::join!(answer, connection);
        let (status, body) = answer?;
        self.understand(status, &body)
    }

    fn understand(&self, status: StatusCode, body: &[u8]) -> Result<Value, CommandError> {
        let unreadable = |error: serde_json::Error| self.foreign(format!("status {status}, {error}"));
        if status.is_success() {
            let answer = serde_json::from_slice(body).map_err(unreadable)?;
            return Ok(if self.raw { answer } else { escaped(answer) });
        }
        let told: ErrorBody = serde_json::from_slice(body).map_err(unreadable)?;
        Err(CommandError::Answered(ErrorBody { message: one_line(&told.message), ..told }))
    }

    fn request(
        &self,
        method: Method,
        route: &str,
        host: &str,
        body: String,
    ) -> Result<Request<Full<Bytes>>, CommandError> {
        let mut request = Request::builder()
            .method(method)
            .uri(route)
            .header(header::HOST, host)
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        request.body(Full::new(Bytes::from(body))).map_err(|error| self.foreign(error.to_string()))
    }

    fn unreachable(&self, error: &std::io::Error) -> CommandError {
        CommandError::Unreachable { target: self.address.to_string(), reason: error.to_string() }
    }

    /// An answer that makes no sense.
    pub(crate) fn foreign(&self, reason: String) -> CommandError {
        CommandError::Foreign { target: self.address.to_string(), reason: sanitize(reason) }
    }
}

impl Instance for Client {
    fn get<'a>(&'a self, route: &'a str) -> Answering<'a> {
        Box::pin(Client::get(self, route))
    }

    fn post<'a>(&'a self, route: &'a str, body: &'a Value) -> Answering<'a> {
        Box::pin(Client::post(self, route, body))
    }

    fn foreign(&self, reason: String) -> CommandError {
        Client::foreign(self, reason)
    }
}
