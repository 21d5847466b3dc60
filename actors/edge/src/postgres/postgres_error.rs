//! Error of a PostgreSQL server, or of the connection to it.

use std::{error::Error as _, io};

use orchestrator_observe::{FailureKind, LinkFailure};
use orchestrator_text::sanitize;
use tokio_postgres::{
    Error,
    error::{DbError, Severity, SqlState},
};

use super::{advice::Login, limits::Excess};
use crate::{HostPort, PeerError, PeerErrorKind, Sent};

/// Failure of an address, a connection or a request.
///
/// [`Sent`] tells about the request, not about its preparation: [`Sent::Yes`] if the server answered it with
/// an error, or if the answer to a query exceeds its limit ([`PeerErrorKind::TooLarge`]). With
/// [`Sent::Maybe`] the server may have committed a transaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{peer}")]
pub struct PostgresError {
    /// Kind, text and progress of the request.
    pub peer: PeerError,
    /// SQLSTATE of the server's answer, if it is an error.
    pub state: Option<SqlState>,
}

impl From<&PostgresError> for LinkFailure {
    fn from(error: &PostgresError) -> Self {
        let failure = Self::from(&error.peer);
        let is_full = error.state == Some(SqlState::DISK_FULL);
        Self { kind: if is_full { FailureKind::DiskFull } else { failure.kind }, ..failure }
    }
}

impl PostgresError {
    /// Adds the statement `grant` as advice, if the server refused the request for a lack of privileges.
    #[must_use]
    pub fn with_grant(mut self, grant: impl FnOnce() -> String) -> Self {
        if self.state == Some(SqlState::INSUFFICIENT_PRIVILEGE) {
            self.peer.advice = Some(grant());
        }
        self
    }

    /// True if the server refuses the values of the request: data exceptions (SQLSTATE class 22), violated
    /// constraints (23) other than a unique constraint, exceeded limits (54).
    pub fn is_invalid_data(&self) -> bool {
        self.state.as_ref().is_some_and(is_invalid_data)
    }

    /// True if the session may only read: a new one may reach another server, or have another default.
    pub fn is_read_only(&self) -> bool {
        self.state == Some(SqlState::READ_ONLY_SQL_TRANSACTION)
    }

    /// Error of a request whose answer is not awaited any longer.
    pub fn unanswered(text: impl Into<String>) -> Self {
        Self::new(PeerErrorKind::Timeout, Sent::Maybe, text)
    }

    pub(super) fn new(kind: PeerErrorKind, sent: Sent, text: impl Into<String>) -> Self {
        Self { peer: PeerError::new(kind, sent, text), state: None }
    }

    /// `text` completes the sentence.
    pub(super) fn of_address(text: &str) -> Self {
        Self::unopened(format!("the address of the database {text}"))
    }

    pub(super) fn unopened(text: impl Into<String>) -> Self {
        Self::new(PeerErrorKind::Connect, Sent::No, text)
    }

    /// A socket failed to connect.
    pub(super) fn unconnected(error: PeerError) -> Self {
        Self { peer: error.map_text(|text| format!("cannot connect to the database: {text}")), state: None }
    }

    /// The connection to the server `at` cannot be protected.
    pub(super) fn unsecured(error: &io::Error, at: &HostPort) -> Self {
        let mut failed =
            Self::new(PeerErrorKind::Tls, Sent::No, format!("cannot connect to the database: {error}"));
        failed.peer.advice = Some(format!(
            "openssl s_client -starttls postgres -connect {at} </dev/null | openssl x509 -noout -subject -issuer -dates"
        ));
        failed
    }

    /// The driver panicked.
    pub(super) fn of_panic(action: &str, panic: &PeerError) -> Self {
        Self::new(panic.kind, panic.sent, format!("{action}: {panic}"))
    }

    /// `action` names the request of `login`.
    pub(super) fn of_request(action: &str, error: &Error, login: &Login) -> Self {
        let Some(db_error) = error.as_db_error() else { return Self::of_connection(action, error) };
        let (kind, sent) = match db_error.parsed_severity() {
            // It ends the connection, perhaps after a commit.
            Some(Severity::Fatal | Severity::Panic) => (PeerErrorKind::Lost, Sent::Maybe),
            _ => (PeerErrorKind::Refused, Sent::Yes),
        };
        let (code, text) = (db_error.code(), text(db_error));
        let text = match is_invalid_data(code) {
            true => format!("the database refuses the data while {action}: {text}"),
            false => format!("the database failed while {action}: {text}"),
        };
        let peer = PeerError::new(kind, sent, text).with_advice(login.advice(code));
        Self { peer, state: Some(code.clone()) }
    }

    /// The connection ended during a request.
    pub(super) fn of_connection(action: &str, error: &Error) -> Self {
        let kind = match excess(error) {
            Some(Excess::Length { .. } | Excess::Type(_) | Excess::Unasked(_)) => PeerErrorKind::Malformed,
            Some(Excess::Answer(_)) | None => PeerErrorKind::Lost,
        };
        let text = format!("the connection to the database broke while {action}: {}", reason(error));
        Self::new(kind, Sent::Maybe, text)
    }

    /// None unless the answer of a query exceeds the limit.
    pub(super) fn of_long_answer(error: &Error) -> Option<Self> {
        match excess(error) {
            Some(excess @ Excess::Answer(_)) => {
                Some(Self::new(PeerErrorKind::TooLarge, Sent::Yes, excess.to_string()))
            }
            _ => None,
        }
    }

    /// The connection is closed without a reason.
    pub(super) fn closed(action: &str) -> Self {
        let text = format!("the connection to the database broke while {action}: connection closed");
        Self::new(PeerErrorKind::Lost, Sent::Maybe, text)
    }

    /// The request was not sent.
    pub(super) fn unsent(mut self) -> Self {
        self.peer.sent = Sent::No;
        self
    }

    /// The session was not opened.
    pub(super) fn while_opening(mut self) -> Self {
        if self.state.is_some() {
            self.peer.kind = PeerErrorKind::Refused;
        } else if !matches!(self.peer.kind, PeerErrorKind::Tls | PeerErrorKind::Timeout) {
            self.peer.kind = PeerErrorKind::Connect;
        }
        self.unsent()
    }
}

fn reason(error: &Error) -> String {
    match (excess(error), error.as_db_error(), error.source()) {
        (Some(excess), ..) => excess.to_string(),
        (None, Some(db_error), _) => text(db_error),
        (None, None, Some(source)) => format!("{error}: {source}"),
        (None, None, None) => error.to_string(),
    }
}

fn excess(error: &Error) -> Option<&Excess> {
    error.source()?.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}

fn is_invalid_data(code: &SqlState) -> bool {
    // The values are valid: another row, or a sequence behind its table, has them.
    let blames_data = ["22", "23", "54"].iter().any(|class| code.code().starts_with(class));
    blames_data && *code != SqlState::UNIQUE_VIOLATION
}

fn text(db_error: &DbError) -> String {
    format!("{} (SQLSTATE {})", sanitize(db_error.message()), sanitize(db_error.code().code()))
}
