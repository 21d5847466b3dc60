//! The client of the admin endpoint: one connection for each request, and no retries, so that a command is
//! not executed twice.

use std::time::Duration;

use hyper::{Method, StatusCode, header};
use orchestrator_edge::{
    HostPort, PeerError, PeerErrorKind, Sent,
    http::{Body, Connection, Endpoint, Limits, Request, Response},
};
use orchestrator_subsystem::{
    CommandError, Instance,
    command::CommandFuture,
    output::{escape_line, escape_lines, escape_strings},
    wire::ErrorBody,
};
use orchestrator_text::sanitize;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::Instant;

use crate::cli::{address::Address, found::check_listener};

/// Time-out of GET requests.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Time-out of crash reports. The first look reads the debug information of the binary, which takes seconds
/// on a busy machine.
pub(crate) const CRASHES_TIMEOUT: Duration = Duration::from_secs(60);
/// Time-out of commands, longer than the endpoint's own time-out, so that its error message arrives.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(12);
/// Largest response, in bytes; a tree of ten thousand children is smaller.
const RESPONSE_LIMIT: usize = 64 * 1024 * 1024;

/// Most values in a response. Each takes 32 bytes or more when it is read, in the response as little as 2.
const VALUES_MAX: usize = 4_000_000;

/// Client of one admin endpoint.
pub(crate) struct Client {
    address: Address,
    token: Option<String>,
    /// Leaves responses unchanged, to be printed as JSON, instead of escaping their strings.
    raw: bool,
}

impl Client {
    /// Creates a client. With `raw`, strings in responses are not escaped, so the caller must print them as
    /// JSON.
    pub(crate) fn new(address: Address, token: Option<String>, raw: bool) -> Self {
        Self { address, token, raw }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) async fn get(&self, route: &str) -> Result<Value, CommandError> {
        self.get_within(route, READ_TIMEOUT).await
    }

    /// Sends a GET request whose response may take as long as `timeout`.
    pub(crate) async fn get_within(&self, route: &str, timeout: Duration) -> Result<Value, CommandError> {
        self.exchange(Method::GET, route, String::new(), timeout).await
    }

    /// Sends a GET request and reads the response as `T`; `name` names it in an error.
    pub(crate) async fn fetch<T: DeserializeOwned>(
        &self,
        route: &str,
        name: &str,
    ) -> Result<T, CommandError> {
        self.read(self.get(route).await?, name)
    }

    /// Reads a response as `T`; `name` names it in an error.
    pub(crate) fn read<T: DeserializeOwned>(&self, response: Value, name: &str) -> Result<T, CommandError> {
        let invalid = |error| self.unexpected_response(format!("invalid {name}: {error}"));
        serde_json::from_value(response).map_err(invalid)
    }

    /// Sends a command to a child or a console.
    pub(crate) async fn post(&self, route: &str, body: &impl Serialize) -> Result<Value, CommandError> {
        let body =
            serde_json::to_string(body).map_err(|error| self.unexpected_response(error.to_string()))?;
        self.exchange(Method::POST, route, body, COMMAND_TIMEOUT).await
    }

    /// Reads a streamed response until either side ends it. `take` returns false to end it.
    pub(crate) async fn follow(
        &self,
        route: &str,
        take: &mut dyn FnMut(&[u8]) -> Result<bool, CommandError>,
    ) -> Result<(), CommandError> {
        // An error after the head means that the process has ended.
        self.read_body(route, take).await.map(drop)
    }

    /// Reads a streamed response as [`Self::follow`] does. Returns the error that ended it early, if any.
    async fn read_body(
        &self,
        route: &str,
        take: &mut dyn FnMut(&[u8]) -> Result<bool, CommandError>,
    ) -> Result<Option<PeerError>, CommandError> {
        let request = self.request(Method::GET, route, String::new())?;
        let failed = |error| self.failed(error, READ_TIMEOUT);
        let mut connection = match self.open(READ_TIMEOUT).await {
            Err(error) if error.kind == PeerErrorKind::Timeout => return Err(self.unreachable(&error)),
            opened => opened.map_err(failed)?,
        };
        let response = match connection.send(request).await {
            // An endpoint that stops closes the connections that wait for it.
            Err(error) if error.kind == PeerErrorKind::Lost => return Ok(Some(error)),
            response => response.map_err(failed)?,
        };
        let (status, mut body) = (response.status(), response.into_body());
        if !status.is_success() {
            let body = connection.read_body(body, RESPONSE_LIMIT).await.map_err(failed)?;
            return self.parse(status, &body).map(|_| None);
        }
        loop {
            match connection.next_chunk(&mut body).await {
                Ok(Some(piece)) if take(&piece)? => {}
                Ok(_) => return Ok(None),
                Err(error) => return Ok(Some(error)),
            }
        }
    }

    /// Sends a GET request to a probe. Returns whether it succeeded, and its text.
    pub(crate) async fn probe(&self, route: &str) -> Result<(bool, String), CommandError> {
        let Response { status, body, .. } =
            self.respond(Method::GET, route, String::new(), READ_TIMEOUT).await?;
        match status {
            StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE => {
                Ok((status.is_success(), escape_lines(&String::from_utf8_lossy(&body))))
            }
            _ => Err(self.unexpected_response(format!("status {status}"))),
        }
    }

    async fn exchange(
        &self,
        method: Method,
        route: &str,
        body: String,
        limit: Duration,
    ) -> Result<Value, CommandError> {
        let Response { status, body, .. } = self.respond(method, route, body, limit).await?;
        self.parse(status, &body)
    }

    async fn respond(
        &self,
        method: Method,
        route: &str,
        body: String,
        limit: Duration,
    ) -> Result<Response, CommandError> {
        let request = self.request(method, route, body)?;
        let deadline = Instant::now() + limit;
        let answer = async {
            let mut connection = self.open(limit).await?;
            let time = deadline.saturating_duration_since(Instant::now());
            connection.exchange(request, Limits { body: RESPONSE_LIMIT, time }).await
        };
        answer.await.map_err(|error| self.failed(error, limit))
    }

    async fn open(&self, limit: Duration) -> Result<Connection, PeerError> {
        let endpoint = match &self.address {
            Address::Tcp { at, .. } => Endpoint::Tcp(at.clone()),
            Address::Default(at) => Endpoint::Tcp(HostPort { host: at.ip().to_string(), port: at.port() }),
            Address::Unix(path) => Endpoint::Unix(path.clone()),
        };
        let connection = Connection::open(&endpoint, limit).await?;
        if let Address::Default(at) = &self.address {
            check_listener(*at).map_err(|text| PeerError::new(PeerErrorKind::Connect, Sent::No, text))?;
        }
        Ok(connection)
    }

    fn parse(&self, status: StatusCode, body: &[u8]) -> Result<Value, CommandError> {
        let unreadable =
            |error: serde_json::Error| self.unexpected_response(format!("status {status}, {error}"));
        // A value takes two bytes or more.
        if body.len() / 2 > VALUES_MAX && count_values(body) > VALUES_MAX {
            return Err(self.unexpected_response(format!("it has more than {VALUES_MAX} values")));
        }
        if status.is_success() {
            let answer = serde_json::from_slice(body).map_err(unreadable)?;
            return Ok(if self.raw { answer } else { escape_strings(answer) });
        }
        let error: ErrorBody = serde_json::from_slice(body).map_err(unreadable)?;
        Err(CommandError::ErrorResponse(ErrorBody { message: escape_line(&error.message), ..error }))
    }

    fn request(&self, method: Method, route: &str, body: String) -> Result<Request, CommandError> {
        let (host, prefix) = match &self.address {
            Address::Tcp { at, prefix } => (at.to_string(), prefix.as_str()),
            Address::Default(at) => (at.to_string(), ""),
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
        request.body(Body::from(body)).map_err(|error| self.unexpected_response(error.to_string()))
    }

    fn failed(&self, error: PeerError, limit: Duration) -> CommandError {
        let target = self.address.to_string();
        match (error.kind, error.sent) {
            (PeerErrorKind::Connect, _) | (PeerErrorKind::Lost, Sent::No) => self.unreachable(&error),
            (PeerErrorKind::Lost, _) => CommandError::ConnectionLost { target, reason: sanitize(error.text) },
            (PeerErrorKind::Timeout, _) => CommandError::ResponseTimeout { target, seconds: limit.as_secs() },
            _ => self.unexpected_response(error.text),
        }
    }

    fn unreachable(&self, error: &PeerError) -> CommandError {
        CommandError::Unreachable { target: self.address.to_string(), reason: error.to_string() }
    }

    /// Creates the error for a response that does not follow the protocol.
    pub(crate) fn unexpected_response(&self, reason: String) -> CommandError {
        CommandError::UnexpectedResponse { target: self.address.to_string(), reason: sanitize(reason) }
    }
}

/// Upper bound of the number of values in the JSON text `body`.
fn count_values(body: &[u8]) -> usize {
    let (mut count, mut in_string, mut escaped) = (1, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

impl Instance for Client {
    fn get<'a>(&'a self, route: &'a str) -> CommandFuture<'a> {
        Box::pin(Client::get(self, route))
    }

    fn post<'a>(&'a self, route: &'a str, body: &'a Value) -> CommandFuture<'a> {
        Box::pin(Client::post(self, route, body))
    }

    fn stream<'a>(
        &'a self,
        route: &'a str,
        take: &'a mut dyn FnMut(&[u8]) -> Result<(), CommandError>,
    ) -> CommandFuture<'a, ()> {
        Box::pin(async move {
            match self.read_body(route, &mut |piece| take(piece).map(|()| true)).await? {
                None => Ok(()),
                Some(error) => Err(self.unexpected_response(error.to_string())),
            }
        })
    }

    fn unexpected_response(&self, reason: String) -> CommandError {
        Client::unexpected_response(self, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::count_values;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, count) in [
            ("0", 1),
            ("[]", 2),
            ("[1,2]", 3),
            (r#"{"a,[":"{\",,","b":[[]]}"#, 5),
            (r#"["\\",","]"#, 3),
            ("", 1),
        ] {
            assert_eq!(count_values(text.as_bytes()), count, "{text}");
        }
    }
}
