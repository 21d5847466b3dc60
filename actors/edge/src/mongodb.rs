//! MongoDB client with a thread of its own, which reads from the primary with time-outs. No text contains the
//! password; texts of the server are escaped and limited.

mod address;
mod client;
mod driver;
mod servers;

use mongodb::error::{Error, ErrorKind, WriteFailure};
use orchestrator_observe::{FailureKind, LinkFailure};
use orchestrator_text::sanitize;

pub use self::client::{Batch, Batches, Client};

use crate::{PeerError, PeerErrorKind, Sent, SettingError, without_credentials};

/// Error code: not authorised.
const NO_PERMISSION: i32 = 13;
/// Error code: wrong credentials.
const AUTHENTICATION_FAILED: i32 = 18;
/// Error codes of a server that takes no writes: not the primary, or no member yet.
const NOT_PRIMARY: [i32; 5] = [189, 10_058, 10_107, 13_435, 13_436];
/// Error code: disk full.
const OUT_OF_DISK: i32 = 14_031;

/// Address of the database without credentials and options; an invalid address is shown as `?`.
pub fn endpoint(uri: &str, database: &str) -> String {
    if address::parse(uri).is_err() {
        return format!("mongodb://?/{database}");
    }
    let uri = without_credentials(uri).unwrap_or_default();
    let hosts: Vec<&str> = uri.splitn(4, '/').take(3).collect();
    let hosts = hosts.join("/");
    format!("{}/{database}", hosts.split('?').next().unwrap_or_default())
}

/// Checks the syntax of the address `uri`.
///
/// # Errors
/// The address is invalid. The text does not contain it, since it may have a password.
pub fn check_address(uri: &str) -> Result<(), SettingError> {
    address::parse(uri)?;
    Ok(())
}

/// `action` describes the call.
fn peer_error(action: &str, error: &Error) -> PeerError {
    let refused = |failure: LinkFailure| {
        PeerError::new(PeerErrorKind::Refused, Sent::Maybe, failure.reason).with_advice(failure.help)
    };
    match &*error.kind {
        ErrorKind::Command(said) => refused(command_failure(action, &said.message, said.code)),
        ErrorKind::Write(WriteFailure::WriteError(said)) => {
            refused(command_failure(action, &said.message, said.code))
        }
        ErrorKind::Write(WriteFailure::WriteConcernError(said)) => {
            refused(not_durable(action, &said.message, said.code))
        }
        ErrorKind::Authentication { message, .. } => {
            let text = format!("the database refuses the credentials while {action}: {}", sanitize(message));
            // The driver's connections are replaced.
            PeerError::new(PeerErrorKind::Unsuitable, Sent::Maybe, text)
                .with_advice(advice(AUTHENTICATION_FAILED).map(str::to_owned))
        }
        ErrorKind::ServerSelection { message, .. } => PeerError::lost(format!(
            "no primary of the database was found while {action}: {}",
            sanitize(message)
        )),
        kind => PeerError::lost(format!(
            "the connection to the database broke while {action}: {}",
            sanitize(kind.to_string())
        )),
    }
}

/// Failure of a command or write by the server's error.
pub fn command_failure(action: &str, message: &str, code: i32) -> LinkFailure {
    let reason = format!("the database failed while {action}: {} (code {code})", sanitize(message));
    let kind = if code == OUT_OF_DISK { FailureKind::DiskFull } else { FailureKind::Refused };
    LinkFailure { reason, kind, help: advice(code).map(str::to_owned) }
}

/// The write is done, but not yet durable on a majority of servers.
pub fn not_durable(action: &str, message: &str, code: i32) -> LinkFailure {
    let reason =
        format!("the database cannot make it durable while {action}: {} (code {code})", sanitize(message));
    LinkFailure::refused(reason, "mongosh --eval 'rs.status()'; bring up more of its servers")
}

fn advice(code: i32) -> Option<&'static str> {
    Some(match code {
        NO_PERMISSION => {
            "in mongosh, in the database of the user: db.grantRolesToUser(\"USER\", [{role: \"readWrite\", db: \"DATABASE\"}])"
        }
        AUTHENTICATION_FAILED => {
            "correct user, password and authSource in the uri, or in mongosh: db.changeUserPassword(\"USER\", passwordPrompt())"
        }
        OUT_OF_DISK => "df -h on its host; free space for its dbPath",
        _ if NOT_PRIMARY.contains(&code) => {
            "mongosh --eval 'rs.status()' shows the primary; name all members and replicaSet in the uri"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_contains_no_secrets() {
        for (uri, shown) in [
            ("mongodb://127.0.0.1:27017", "mongodb://127.0.0.1:27017/d"),
            ("mongodb://me:p%2F@a:1,b/admin?w=1", "mongodb://a:1,b/d"),
            ("mongodb://me@a:1/?authMechanism=MONGODB-X509", "mongodb://a:1/d"),
            ("mongodb://a?tlsCertificateKeyFilePassword=x", "mongodb://?/d"),
            ("mongodb://me:p?x@a", "mongodb://?/d"),
            ("nonsense", "mongodb://?/d"),
        ] {
            assert_eq!(endpoint(uri, "d"), shown, "{uri}");
        }
    }

    #[test]
    fn advice_follows_the_code() {
        for (code, kind, help) in [
            (NO_PERMISSION, FailureKind::Refused, "db.grantRolesToUser("),
            (AUTHENTICATION_FAILED, FailureKind::Refused, "authSource"),
            (OUT_OF_DISK, FailureKind::DiskFull, "df -h"),
            (10_107, FailureKind::Refused, "rs.status()"),
            (1, FailureKind::Refused, ""),
        ] {
            let failure = command_failure("writing", "no", code);
            assert_eq!((failure.kind, failure.reason.ends_with(&format!("no (code {code})"))), (kind, true));
            let found = failure.help.unwrap_or_default();
            assert!(found.contains(help) && found.is_empty() == help.is_empty(), "{code}: {found}");
        }
    }
}
