//! Sessions with a provenance database: settings, limits, and errors as a store reports them.

use std::time::Duration;

use orchestrator_edge::{
    PeerErrorKind,
    postgres::{Address, PostgresError, Session, SessionSettings, SqlState},
};

use orchestrator_observe::LinkFailure;

use crate::store::StoreError;

/// Default application name of the connection.
pub(crate) const APPLICATION: &str = "orchestrator provenance";

/// `synchronous_commit = off` would break CONTRACT PS02.
const SETTINGS: SessionSettings = SessionSettings {
    sql: &["SET timezone = 'UTC';", SessionSettings::PLANS_BY_INDEX, SessionSettings::DURABLE],
    connect_timeout: Duration::from_secs(10),
    // Some queries scan whole tables, and writes may wait for other programs' locks.
    answer_timeout: Duration::from_secs(600),
    // Identifiers, dates, urls and paths.
    row_max: 1 << 20,
    answer_max: 64 << 20,
};

/// Parses the address of a database (CONTRACT PF18).
///
/// # Errors
/// [`StoreError::Refused`]: `dsn` is invalid, or its options cannot be met.
fn parse_address(dsn: &str) -> Result<Address, StoreError> {
    Address::parse(dsn, APPLICATION).map_err(|error| StoreError::Refused(error.to_string()))
}

/// Connects to the database at `dsn`.
///
/// # Errors
/// As of [`parse_address`]; [`StoreError::Unavailable`] if the database cannot be reached.
pub(super) async fn open(dsn: &str) -> Result<Session, StoreError> {
    let mut session = Session::open(&parse_address(dsn)?, &SETTINGS).await?;
    session.check_encoding().await?;
    Ok(session)
}

impl From<PostgresError> for StoreError {
    fn from(error: PostgresError) -> Self {
        let failure = LinkFailure::from(&error);
        let text = error.peer.text.clone();
        if error.is_invalid_data() || error.peer.kind == PeerErrorKind::TooLarge {
            return Self::Refused(text);
        }
        match error.state {
            // A trigger or view of the site may refuse one row, or all rows for a while (CONTRACT PE17).
            Some(SqlState::RAISE_EXCEPTION | SqlState::WITH_CHECK_OPTION_VIOLATION) => Self::Undecided(text),
            // The upserts violate no unique constraint; a sequence behind its table does.
            Some(SqlState::UNIQUE_VIOLATION) => Self::Unavailable(
                failure.with_help("setval() the sequence of the column to its largest value"),
            ),
            _ => Self::Unavailable(failure),
        }
    }
}
