//! Translation of MongoDB's errors. All of them are retried, and each text says what to do.

use ::mongodb::error::{Error, ErrorKind, WriteFailure};
use orchestrator_edge::mongodb::{self, CallError};

use crate::store::StoreError;

/// Code `NamespaceNotFound`.
pub(super) const NO_COLLECTION: i32 = 26;

/// Translates an error of `action`.
pub(super) fn explain(action: &str, error: &CallError) -> StoreError {
    let error = match error {
        CallError::Lost(reason) => return StoreError::Unavailable(reason.clone()),
        CallError::Failed(error) => error,
    };
    StoreError::Unavailable(match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteError(said)) => {
            mongodb::describe_failure(action, &said.message, said.code)
        }
        ErrorKind::Write(WriteFailure::WriteConcernError(said)) => {
            mongodb::describe_not_durable(action, &said.message, said.code)
        }
        _ => mongodb::describe_error(action, error),
    })
}

/// Returns the server's error code, if it answered.
pub(super) fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(said) => Some(said.code),
        _ => None,
    }
}
