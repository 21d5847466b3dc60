//! Translation of MongoDB's errors to [`StoreError`].

use ::mongodb::{
    bson::Document,
    error::{Error, ErrorKind},
};
use orchestrator_edge::mongodb;
use orchestrator_supervise::sanitize;

use crate::store::StoreError;

/// Code of a duplicate key in a unique index.
pub(super) const DUPLICATE_KEY: i32 = 11_000;

/// Codes of one invalid update: too large, a field of an unexpected type, a violated validator.
const INVALID_UPDATE: &[i32] =
    &[9, 14, 16, 28, 40, 52, 57, 121, 10_334, 17_280, 17_419, 17_420, DUPLICATE_KEY];
/// Codes of an invalid command: too large.
const INVALID_COMMAND: &[i32] = &[10_334, 17_280, 17_419, 17_420];
/// Codes that prevent a unique index for good: duplicates, a conflicting index, no permission.
const INDEX_IMPOSSIBLE: &[i32] = &[13, 67, 85, 86, DUPLICATE_KEY];

/// Translates an error; `action` names the failed operation.
pub(super) fn explain(action: &str, error: &Error) -> StoreError {
    match &*error.kind {
        ErrorKind::Command(reply) if INVALID_COMMAND.contains(&reply.code) => {
            refused(action, &reply.message, reply.code)
        }
        _ => StoreError::Unavailable(mongodb::describe_error(action, error)),
    }
}

/// Translates an entry of `writeErrors` of an update command.
pub(super) fn explain_update(action: &str, reply: &Document) -> StoreError {
    let message = reply.get_str("errmsg").unwrap_or("no reason is given");
    let code = code(reply);
    if INVALID_UPDATE.contains(&code) { refused(action, message, code) } else { away(action, message, code) }
}

/// Translates `writeConcernError` of an update command: the updates are done, but not journaled on
/// a majority.
pub(super) fn explain_concern(action: &str, reply: &Document) -> StoreError {
    let message = reply.get_str("errmsg").unwrap_or("no reason is given");
    StoreError::Unavailable(mongodb::describe_not_durable(action, message, code(reply)))
}

/// Returns the reason why a unique index is impossible; None if trying again may help.
pub(super) fn why_no_index(error: &Error) -> Option<String> {
    match &*error.kind {
        ErrorKind::Command(reply) if INDEX_IMPOSSIBLE.contains(&reply.code) => Some(sanitize(&reply.message)),
        _ => None,
    }
}

/// Returns the code in a document of the server.
pub(super) fn code(reply: &Document) -> i32 {
    reply.get_i32("code").unwrap_or_default()
}

fn refused(action: &str, message: &str, code: i32) -> StoreError {
    let message = sanitize(message);
    StoreError::Refused(format!("the database refuses the data while {action}: {message} (code {code})"))
}

fn away(action: &str, message: &str, code: i32) -> StoreError {
    StoreError::Unavailable(mongodb::describe_failure(action, message, code))
}
