//! From MongoDB's errors to the store's.

use ::mongodb::{
    bson::Document,
    error::{Error, ErrorKind},
};
use orchestrator_edge::mongodb;
use orchestrator_supervise::sanitize;

use crate::store::StoreError;

/// A key that a unique index has already.
pub(super) const DUPLICATE_KEY: i32 = 11_000;

/// Codes that blame one update or the document that it would make: too large, a field of another type than ours, a rule of the
/// collection's validator.
const OF_THE_DATA: &[i32] = &[9, 14, 16, 28, 40, 52, 57, 121, 10_334, 17_280, 17_419, 17_420, DUPLICATE_KEY];
/// Codes that blame a command as a whole: it is too large.
const OF_THE_COMMAND: &[i32] = &[10_334, 17_280, 17_419, 17_420];
/// Why a unique index cannot be made although the server is well: twins, another index in its place, no permission.
const NO_INDEX: &[i32] = &[13, 67, 85, 86, DUPLICATE_KEY];

/// Translates; `action` says what was tried.
pub(super) fn explain(action: &str, error: &Error) -> StoreError {
    match &*error.kind {
        ErrorKind::Command(said) if OF_THE_COMMAND.contains(&said.code) => {
            refused(action, &said.message, said.code)
        }
        _ => StoreError::Away(mongodb::describe_error(action, error)),
    }
}

/// What an update command says of one of its updates, a document of `writeErrors`.
pub(super) fn explain_update(action: &str, said: &Document) -> StoreError {
    let message = said.get_str("errmsg").unwrap_or("no reason is given");
    let code = code(said);
    if OF_THE_DATA.contains(&code) { refused(action, message, code) } else { away(action, message, code) }
}

/// What an update command says of all of it, `writeConcernError`: it was done, but is not on a majority's disks yet.
pub(super) fn explain_concern(action: &str, said: &Document) -> StoreError {
    let message = said.get_str("errmsg").unwrap_or("no reason is given");
    StoreError::Away(mongodb::describe_not_durable(action, message, code(said)))
}

/// Why a unique index cannot be had for good; None if trying again may help.
pub(super) fn why_no_index(error: &Error) -> Option<String> {
    match &*error.kind {
        ErrorKind::Command(said) if NO_INDEX.contains(&said.code) => Some(sanitize(&said.message)),
        _ => None,
    }
}

/// The code in a document of the server.
pub(super) fn code(said: &Document) -> i32 {
    said.get_i32("code").unwrap_or_default()
}

fn refused(action: &str, message: &str, code: i32) -> StoreError {
    let message = sanitize(message);
    StoreError::Refused(format!("the database refuses the data while {action}: {message} (code {code})"))
}

fn away(action: &str, message: &str, code: i32) -> StoreError {
    StoreError::Away(mongodb::describe_failure(action, message, code))
}
