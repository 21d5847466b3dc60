//! From PostgreSQL's errors to the store's.

use std::{error::Error as _, io};

use orchestrator_supervise::sanitize;
use tokio_postgres::{
    Error,
    error::{DbError, Severity, SqlState},
};

use super::limits::Excess;
use crate::store::StoreError;

/// Translates; `action` says what was tried.
pub(super) fn explain(action: &str, error: &Error) -> StoreError {
    match error.as_db_error() {
        Some(said) if is_of_the_data(said.code()) => {
            StoreError::Refused(format!("the database refuses the data while {action}: {}", text(said)))
        }
        Some(said) => StoreError::Away(format!(
            "the database failed while {action}: {}{}",
            text(said),
            advice(said.code())
        )),
        None => broke(action, error),
    }
}

/// Translates the error of a connection: whatever it says, no row is at fault.
pub(super) fn broke(action: &str, error: &Error) -> StoreError {
    StoreError::Away(format!("the connection to the database broke while {action}: {}", reason(error)))
}

/// Translates the error of a socket that was not connected.
pub(super) fn unconnected(error: &io::Error) -> StoreError {
    StoreError::Away(format!("cannot connect to the database: {error}: see that it runs there"))
}

/// Tells whether the answer to a question is longer than what is accepted.
pub(super) fn is_answer_too_long(error: &Error) -> bool {
    excess(error) == Some(&Excess::Answer)
}

/// The cause of an error of a connection.
pub(super) fn reason(error: &Error) -> String {
    match (excess(error), error.as_db_error(), error.source()) {
        (Some(excess), ..) => excess.to_string(),
        (None, Some(said), _) => format!("{}{}", text(said), advice(said.code())),
        (None, None, Some(source)) => format!("{error}: {source}"),
        (None, None, None) => error.to_string(),
    }
}

fn excess(error: &Error) -> Option<&Excess> {
    error.source()?.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}

/// Does the server end the connection with this error?
pub(super) fn is_fatal(error: &Error) -> bool {
    match error.as_db_error() {
        Some(said) => matches!(said.parsed_severity(), Some(Severity::Fatal | Severity::Panic)),
        None => error.is_closed(),
    }
}

/// Classes that blame the values: data exceptions, broken constraints, limits (a path beyond that of an index).
fn is_of_the_data(code: &SqlState) -> bool {
    // Our upserts break no unique constraint whatever the rows are; a sequence that lags behind its table does.
    let blames_data = ["22", "23", "54"].iter().any(|class| code.code().starts_with(class));
    blames_data && *code != SqlState::UNIQUE_VIOLATION
}

fn advice(code: &SqlState) -> &'static str {
    match code.code() {
        "23505" => "; set the sequence of the column beyond its largest value",
        "25006" => "; name a server that takes writes",
        "28000" | "28P01" => "; correct the credentials",
        "3D000" => "; create the database or correct its name",
        "42501" => "; grant what is missing",
        "53100" => "; free space on its disk",
        "53300" => "; raise max_connections or open fewer connections",
        _ => "",
    }
}

fn text(said: &DbError) -> String {
    format!("{} (SQLSTATE {})", sanitize(said.message()), sanitize(said.code().code()))
}
