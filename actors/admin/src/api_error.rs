//! Error responses: `{"error", "message"}`, where the message says what to do.

use std::fmt;

use actix_web::{HttpResponse, ResponseError, http::StatusCode};
use orchestrator_supervise::{AskError, CommandError, ConsoleCallError, ConsoleError};

use orchestrator_subsystem::wire::{ErrorBody, ErrorKind};

/// An error response.
#[derive(Debug)]
pub(crate) struct ApiError(pub(crate) ErrorBody);

impl ApiError {
    pub(crate) fn new(error: ErrorKind, message: impl Into<String>) -> Self {
        Self(ErrorBody { error, message: message.into() })
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        HttpResponse::build(self.status_code()).json(&self.0)
    }
}

impl From<CommandError> for ApiError {
    fn from(error: CommandError) -> Self {
        let kind = match error {
            CommandError::NotFound(_) => ErrorKind::NotFound,
            CommandError::Illegal(_) => ErrorKind::Refused,
            CommandError::TimedOut(_) => ErrorKind::TimedOut,
        };
        Self::new(kind, error.to_string())
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
