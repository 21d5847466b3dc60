//! Error responses: `{"error", "message"}`, where the message says what to do.

use hyper::{
    StatusCode,
    header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use orchestrator_subsystem::{
    ConsoleCallError, ConsoleError,
    wire::{ErrorBody, ErrorKind},
};
use orchestrator_supervise::{AskError, CommandError};

use crate::response::{Response, json};

/// An error response.
#[derive(Debug)]
pub(crate) struct ApiError(pub(crate) ErrorBody);

impl ApiError {
    pub(crate) fn new(error: ErrorKind, message: impl Into<String>) -> Self {
        Self(ErrorBody { error, message: message.into() })
    }

    pub(crate) fn response(&self) -> Response {
        let status = StatusCode::from_u16(self.0.error.status());
        let mut response = json(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &self.0);
        if self.0.error == ErrorKind::Unauthorized {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    /// Creates the response if there is no room for the request now.
    pub(crate) fn busy(message: impl Into<String>) -> Response {
        let mut response = Self::new(ErrorKind::Unavailable, message).response();
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        response
    }
}

impl From<CommandError> for ApiError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::NotFound(_) => {
                Self::new(ErrorKind::NotFound, format!("{error}: `orchestrator tree` lists them all"))
            }
            CommandError::NoChaos(verb) => {
                Self::new(ErrorKind::Refused, format!("{verb} is allowed only with admin.chaos = true"))
            }
            CommandError::Illegal(text) => Self::new(ErrorKind::Refused, text),
            CommandError::TimedOut(_) => Self::new(ErrorKind::TimedOut, error.to_string()),
        }
    }
}

impl From<ConsoleCallError> for ApiError {
    fn from(error: ConsoleCallError) -> Self {
        let text = error.to_string();
        let kind = match error {
            ConsoleCallError::Verb(error) => return error.into(),
            ConsoleCallError::NoConsole(_) => ErrorKind::NotFound,
            ConsoleCallError::Ask(AskError::Full(_)) => ErrorKind::Refused,
            // A lost request is like a time-out: it may have been executed.
            ConsoleCallError::Ask(AskError::TimedOut(_) | AskError::Lost) => ErrorKind::TimedOut,
        };
        Self::new(kind, text)
    }
}

impl From<ConsoleError> for ApiError {
    fn from(error: ConsoleError) -> Self {
        let kind = match &error {
            ConsoleError::UnknownVerb(_) | ConsoleError::NotFound(_) => ErrorKind::NotFound,
            ConsoleError::BadArguments(_) => ErrorKind::BadRequest,
            ConsoleError::Refused(_) => ErrorKind::Refused,
        };
        Self::new(kind, error.to_string())
    }
}
