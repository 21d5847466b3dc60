//! One request to the admin endpoint of a running instance: connect, ask, read, done. No retries: an operator's verb
//! must not be carried out twice.

use std::time::Duration;

use hyper::{Method, StatusCode, header};
use orchestrator_edge::http::{Body, Connection, Endpoint, HttpError, Limits, Request, Response};
use orchestrator_subsystem::{
    CommandError, Instance,
    command::Answering,
    output::{escaped, one_line},
    wire::ErrorBody,
};
use orchestrator_supervise::sanitize;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

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
        self.exchange(Method::GET, route, String::new(), READ_TIMEOUT).await
    }

    /// Gives a command, or asks a console.
    pub(crate) async fn post(&self, route: &str, body: &impl Serialize) -> Result<Value, CommandError> {
        let body = serde_json::to_string(body).map_err(|error| self.foreign(error.to_string()))?;
        self.exchange(Method::POST, route, body, COMMAND_TIMEOUT).await
    }

    /// Reads an answer that goes on and on; `take` says whether it wants more. Ok when either side ended it.
    pub(crate) async fn follow(
        &self,
        route: &str,
        take: &mut dyn FnMut(&[u8]) -> Result<bool, CommandError>,
    ) -> Result<(), CommandError> {
        let request = self.request(Method::GET, route, String::new())?;
        let failed = |error| self.failed(error, READ_TIMEOUT);
        let mut connection = match self.open(READ_TIMEOUT).await {
            Err(error @ HttpError::ConnectTimeout(_)) => return Err(self.unreachable(&error)),
            opened => opened.map_err(failed)?,
        };
        let response = connection.send(request).await.map_err(failed)?;
        let (status, mut body) = (response.status(), response.into_body());
        if !status.is_success() {
            let body = connection.read_body(body, ANSWER_LIMIT).await.map_err(failed)?;
            return self.understand(status, &body).map(drop);
        }
        // An error means that the process ended, or was killed.
        while let Ok(Some(piece)) = connection.next_chunk(&mut body).await {
            if !take(&piece)? {
                break;
            }
        }
        Ok(())
    }

    async fn exchange(
        &self,
        method: Method,
        route: &str,
        body: String,
        limit: Duration,
    ) -> Result<Value, CommandError> {
        let request = self.request(method, route, body)?;
        let deadline = Instant::now() + limit;
        let answer = async {
            let mut connection = self.open(limit).await?;
            let time = deadline.saturating_duration_since(Instant::now());
            connection.exchange(request, Limits { body: ANSWER_LIMIT, time }).await
        };
        let Response { status, body, .. } = answer.await.map_err(|error| self.failed(error, limit))?;
        self.understand(status, &body)
    }

    async fn open(&self, limit: Duration) -> Result<Connection, HttpError> {
        let endpoint = match &self.address {
            Address::Tcp { at, .. } => Endpoint::Tcp(at.clone()),
            Address::Unix(path) => Endpoint::Unix(path.clone()),
        };
        Connection::open(&endpoint, limit).await
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

    fn request(&self, method: Method, route: &str, body: String) -> Result<Request, CommandError> {
        let (host, prefix) = match &self.address {
            Address::Tcp { at, prefix } => (at.to_string(), prefix.as_str()),
            Address::Unix(_) => ("localhost".to_owned(), ""),
        };
        let mut request = hyper::Request::builder()
            .method(method)
            .uri(format!("{prefix}{route}"))
            .header(header::HOST, host)
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        request.body(Body::from(body)).map_err(|error| self.foreign(error.to_string()))
    }

    fn failed(&self, error: HttpError, limit: Duration) -> CommandError {
        match error {
            HttpError::Connect(error) => self.unreachable(&error),
            HttpError::ConnectTimeout(_) | HttpError::ResponseTimeout(_) => {
                CommandError::Slow { target: self.address.to_string(), seconds: limit.as_secs() }
            }
            error => self.foreign(error.to_string()),
        }
    }

    fn unreachable(&self, error: &impl ToString) -> CommandError {
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
