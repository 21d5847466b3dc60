//! MongoDB client with a thread of its own, which reads from the primary with time-outs. No text contains the password; texts of the
//! server are escaped and limited.

mod address;
mod client;
mod driver;

use mongodb::error::{Error, ErrorKind, WriteFailure};
use orchestrator_supervise::sanitize;

pub use self::client::{Batch, Batches, Client};

use crate::{PeerError, PeerErrorKind, Sent, has_password, without_credentials};

/// Error code: not authorised.
const NO_PERMISSION: i32 = 13;
/// Error code: wrong credentials.
const AUTHENTICATION_FAILED: i32 = 18;
/// Error code: disk full.
const OUT_OF_DISK: i32 = 14_031;

/// Returns the address of the database without credentials and options; an invalid address is shown as `?`.
pub fn endpoint(uri: &str, database: &str) -> String {
    if address::parse(uri).is_err() {
        return format!("mongodb://?/{database}");
    }
    let uri = without_credentials(uri).unwrap_or_default();
    let hosts: Vec<&str> = uri.splitn(4, '/').take(3).collect();
    let hosts = hosts.join("/");
    format!("{}/{database}", hosts.split('?').next().unwrap_or_default())
}

/// Returns true if the address contains a password, also in the option `tlsCertificateKeyFilePassword`.
pub fn contains_password(uri: &str) -> bool {
    uri.contains("assword") || has_password(uri)
}

/// Checks the syntax of the address `uri`.
///
/// # Errors
/// The address is invalid. The text does not contain it, since it may have a password.
pub fn check_address(uri: &str) -> Result<(), String> {
    address::parse(uri).map(drop)
}

/// Returns the error of a call with what to do; `action` describes the call.
fn peer_error(action: &str, error: &Error) -> PeerError {
    let is_refused = matches!(*error.kind, ErrorKind::Command(_) | ErrorKind::Write(_));
    let kind = if is_refused { PeerErrorKind::Refused } else { PeerErrorKind::Lost };
    let text = match &*error.kind {
        ErrorKind::Command(said) => describe_failure(action, &said.message, said.code),
        ErrorKind::Write(WriteFailure::WriteError(said)) => {
            describe_failure(action, &said.message, said.code)
        }
        ErrorKind::Write(WriteFailure::WriteConcernError(said)) => {
            describe_not_durable(action, &said.message, said.code)
        }
        ErrorKind::Authentication { message, .. } => {
            let message = sanitize(message);
            format!("the database refuses the credentials while {action}: {message}; correct the credentials")
        }
        ErrorKind::ServerSelection { message, .. } => {
            format!("no primary of the database was found while {action}: {}", sanitize(message))
        }
        kind => {
            format!("the connection to the database broke while {action}: {}", sanitize(kind.to_string()))
        }
    };
    PeerError::new(kind, Sent::Maybe, text)
}

/// Describes the server's error of a command or write, and what to do.
pub fn describe_failure(action: &str, message: &str, code: i32) -> String {
    let advice = match code {
        NO_PERMISSION => "; grant the role readWrite",
        AUTHENTICATION_FAILED => "; correct the credentials",
        OUT_OF_DISK => "; free space on its disk",
        _ => "",
    };
    format!("the database failed while {action}: {} (code {code}){advice}", sanitize(message))
}

/// Describes a write that is done, but not yet durable on a majority of servers.
pub fn describe_not_durable(action: &str, message: &str, code: i32) -> String {
    format!(
        "the database cannot make it durable while {action}: {} (code {code}); bring up more of its servers",
        sanitize(message)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_contains_no_secrets() {
        for (uri, shown, secret) in [
            ("mongodb://127.0.0.1:27017", "mongodb://127.0.0.1:27017/d", false),
            ("mongodb://me:p%2F@a:1,b/admin?w=1", "mongodb://a:1,b/d", true),
            ("mongodb://me@a:1/?authMechanism=MONGODB-X509", "mongodb://a:1/d", false),
            ("mongodb://a?tlsCertificateKeyFilePassword=x", "mongodb://?/d", true),
            ("mongodb://me:p?x@a", "mongodb://?/d", true),
            ("nonsense", "mongodb://?/d", false),
        ] {
            assert_eq!((endpoint(uri, "d").as_str(), contains_password(uri)), (shown, secret), "{uri}");
        }
    }

    #[test]
    fn advice_follows_the_code() {
        assert!(
            describe_failure("writing", "no", AUTHENTICATION_FAILED)
                .ends_with("(code 18); correct the credentials")
        );
        assert!(describe_failure("writing", "no", 1).ends_with("no (code 1)"));
    }
}
