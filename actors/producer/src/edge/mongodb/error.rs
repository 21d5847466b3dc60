//! From MongoDB's errors to the store's: all of them are waited for, each says what to do.

use ::mongodb::error::{Error, ErrorKind, WriteFailure};
use orchestrator_edge::mongodb;

use crate::store::StoreError;

/// There is no such collection.
pub(super) const NO_COLLECTION: i32 = 26;

/// Translates; `action` says what was tried.
pub(super) fn explain(action: &str, error: &Error) -> StoreError {
    StoreError::Away(match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteError(said)) => {
            mongodb::describe_failure(action, &said.message, said.code)
        }
        ErrorKind::Write(WriteFailure::WriteConcernError(said)) => {
            mongodb::describe_not_durable(action, &said.message, said.code)
        }
        _ => mongodb::describe_error(action, error),
    })
}

/// The server's code, if it answered.
pub(super) fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(said) => Some(said.code),
        _ => None,
    }
}
