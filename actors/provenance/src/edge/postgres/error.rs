//! Translation of PostgreSQL's errors to [`StoreError`].

use std::{error::Error as _, io};

use orchestrator_supervise::sanitize;
use tokio_postgres::{
    Error,
    error::{DbError, SqlState},
};

use super::limits::Excess;
use crate::store::StoreError;

/// Translates an error; `action` names the failed operation.
pub(super) fn explain(action: &str, error: &Error) -> StoreError {
    match error.as_db_error() {
        Some(db_error) if is_invalid_data(db_error.code()) => {
            StoreError::Refused(format!("the database refuses the data while {action}: {}", text(db_error)))
        }
        Some(db_error) => StoreError::Unavailable(format!(
            "the database failed while {action}: {}{}",
            text(db_error),
            advice(db_error.code())
        )),
        None => connection_error(action, error),
    }
}

/// Translates the error of a connection, which never refuses rows.
pub(super) fn connection_error(action: &str, error: &Error) -> StoreError {
    StoreError::Unavailable(format!("the connection to the database broke while {action}: {}", reason(error)))
}

/// Translates the error of a socket that failed to connect.
pub(super) fn unconnected(error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("cannot connect to the database: {error}: check that it runs there"))
}

/// Translates the error of a connection that cannot be protected.
pub(super) fn unsecured(error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("cannot connect to the database: {error}"))
}

/// Returns true if the answer to a query exceeds its limit.
pub(super) fn is_answer_too_long(error: &Error) -> bool {
    excess(error) == Some(&Excess::Answer)
}

/// Returns the cause of a connection's error.
pub(super) fn reason(error: &Error) -> String {
    match (excess(error), error.as_db_error(), error.source()) {
        (Some(excess), ..) => excess.to_string(),
        (None, Some(db_error), _) => format!("{}{}", text(db_error), advice(db_error.code())),
        (None, None, Some(source)) => format!("{error}: {source}"),
        (None, None, None) => error.to_string(),
    }
}

fn excess(error: &Error) -> Option<&Excess> {
    error.source()?.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}

/// Returns true for SQLSTATE classes about invalid values: data exceptions, violated constraints,
/// limits.
fn is_invalid_data(code: &SqlState) -> bool {
    // The upserts violate no unique constraint; a sequence behind its table does.
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

fn text(db_error: &DbError) -> String {
    format!("{} (SQLSTATE {})", sanitize(db_error.message()), sanitize(db_error.code().code()))
}
