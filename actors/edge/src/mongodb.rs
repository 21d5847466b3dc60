//! The session that every user of a MongoDB starts from: asked at the primary with patience that ends, told without the password
//! in any text, and with the server's texts escaped and limited.

mod address;

use std::time::Duration;

use mongodb::{
    Client, Database,
    error::{Error, ErrorKind},
    options::{ClientOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern},
};
use orchestrator_supervise::sanitize;

use crate::{has_password, without_credentials};

/// How long a primary is looked for, unless the address says otherwise; whoever waits tries again by itself.
const SELECTION: Duration = Duration::from_secs(5);

/// Not authorised.
const NO_PERMISSION: i32 = 13;
/// The credentials are wrong.
const NOT_LET_IN: i32 = 18;
/// The disk is full.
const OUT_OF_DISK: i32 = 14_031;

/// Where the database is, without user, password and options; of what is no address nothing.
pub fn endpoint(uri: &str, database: &str) -> String {
    if address::parse(uri).is_err() {
        return format!("mongodb://?/{database}");
    }
    let uri = without_credentials(uri).unwrap_or_default();
    let hosts: Vec<&str> = uri.splitn(4, '/').take(3).collect();
    let hosts = hosts.join("/");
    format!("{}/{database}", hosts.split('?').next().unwrap_or_default())
}

/// Does the address hold a password? Also in an option: `tlsCertificateKeyFilePassword`.
pub fn contains_password(uri: &str) -> bool {
    uri.contains("assword") || has_password(uri)
}

/// Whether `uri` is an address, as far as that can be told without asking anybody.
///
/// # Errors
/// It is none; the text does not repeat it, since it may hold a password.
pub fn check_address(uri: &str) -> Result<(), String> {
    address::parse(uri).map(drop)
}

/// A client of the database `name`, which reads at the primary; `app` is what the server shows, unless the address names another,
/// and `concern` what a write waits for, unless its command says so itself. Nothing is connected yet.
///
/// # Errors
/// The address is none.
pub async fn open(
    uri: &str,
    name: &str,
    app: &str,
    concern: Option<WriteConcern>,
) -> Result<Database, String> {
    let address = address::parse(uri)?;
    // The driver's text may repeat the address.
    let unusable = |_: Error| address::unusable(uri);
    let mut options = ClientOptions::parse(address).await.map_err(unusable)?;
    options.server_selection_timeout.get_or_insert(SELECTION);
    options.connect_timeout.get_or_insert(SELECTION);
    options.app_name.get_or_insert_with(|| app.to_owned());
    options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    options.read_concern = Some(ReadConcern::local());
    options.write_concern = concern.or(options.write_concern);
    Ok(Client::with_options(options).map_err(unusable)?.database(name))
}

/// Waits for an answer, but not for ever: a server that stands still keeps its connections open. `action` says what is tried.
///
/// # Errors
/// None came within `span`.
pub async fn with_timeout<T>(
    action: &str,
    span: Duration,
    answer: impl Future<Output = T>,
) -> Result<T, String> {
    tokio::time::timeout(span, answer)
        .await
        .map_err(|_| format!("the database did not answer within {} s while {action}", span.as_secs()))
}

/// What to do about an error that time may heal; `action` says what was tried.
pub fn describe_error(action: &str, error: &Error) -> String {
    match &*error.kind {
        ErrorKind::Command(said) => describe_failure(action, &said.message, said.code),
        ErrorKind::Authentication { message, .. } => {
            let message = sanitize(message);
            format!("the database turns us away while {action}: {message}; correct the credentials")
        }
        ErrorKind::ServerSelection { message, .. } => {
            format!("no primary of the database was found while {action}: {}", sanitize(message))
        }
        kind => {
            format!("the connection to the database broke while {action}: {}", sanitize(kind.to_string()))
        }
    }
}

/// What the server said of a command or one of its writes, and what helps.
pub fn describe_failure(action: &str, message: &str, code: i32) -> String {
    let advice = match code {
        NO_PERMISSION => "; grant the role readWrite",
        NOT_LET_IN => "; correct the credentials",
        OUT_OF_DISK => "; free space on its disk",
        _ => "",
    };
    format!("the database failed while {action}: {} (code {code}){advice}", sanitize(message))
}

/// What the server said of a write that is done, but not on a majority's disks yet.
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
    fn where_a_database_is_is_told_without_its_secrets() {
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
            describe_failure("writing", "no", NOT_LET_IN).ends_with("(code 18); correct the credentials")
        );
        assert!(describe_failure("writing", "no", 1).ends_with("no (code 1)"));
    }
}
