//! From MongoDB's errors to the store's: all of them are waited for, each says what to do.

use mongodb::error::{Error, ErrorKind, WriteFailure};

use crate::store::StoreError;

/// There is no such collection.
pub(super) const NO_COLLECTION: i32 = 26;

/// Translates; `action` says what was tried.
pub(super) fn explain(action: &str, error: &Error) -> StoreError {
    StoreError::Away(match &*error.kind {
        ErrorKind::Command(said) => refusal(action, &said.message, said.code),
        ErrorKind::Write(WriteFailure::WriteError(said)) => refusal(action, &said.message, said.code),
        ErrorKind::Write(WriteFailure::WriteConcernError(said)) => format!(
            "the database cannot make it durable while {action}: {} (code {}); bring up more of its servers",
            said.message, said.code
        ),
        ErrorKind::Authentication { message, .. } => {
            format!("the database turns us away while {action}: {message}; correct the credentials")
        }
        ErrorKind::ServerSelection { message, .. } => {
            format!("no primary of the database was found while {action}: {message}")
        }
        kind => format!("the connection to the database broke while {action}: {kind}"),
    })
}

/// What an address that is none is told with.
pub(super) fn no_address(error: &Error) -> StoreError {
    StoreError::Away(format!("correct the address of the database: {}", error.kind))
}

/// The server's code, if it answered.
pub(super) fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(said) => Some(said.code),
        _ => None,
    }
}

fn refusal(action: &str, message: &str, code: i32) -> String {
    let advice = match code {
        13 => "; grant the role readWrite",
        18 => "; correct the credentials",
        14_031 => "; free space on its disk",
        _ => "",
    };
    format!("the database failed while {action}: {message} (code {code}){advice}")
}
