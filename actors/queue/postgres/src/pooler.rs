//! Check for a pooler that gives a session of the server to several clients in turn, as PgBouncer does with
//! `pool_mode = transaction`. Settings and locks of a session would then be those of another client.

use std::time::Duration;

use orchestrator_edge::postgres::SessionSettings;
use orchestrator_queue_rules::storage::StorageError;
use orchestrator_supervise::StopToken;

use super::{
    error::{storage_error, unanswered, unusable},
    server_session::Session,
    session::single,
    settings::{Settings, runtime},
};

const ACTION: &str = "checking the session";
/// Time within which a notification arrives.
const ARRIVES_WITHIN: Duration = Duration::from_secs(2);
const SESSION: SessionSettings = SessionSettings {
    sql: &["SET statement_timeout = '3s';"],
    connect_timeout: Duration::from_secs(5),
    answer_timeout: Duration::from_secs(4),
    row_max: 64 << 10,
    answer_max: 1 << 20,
};

/// Checks that a session gets a notification that another one sends: the server sends it to the session that
/// listens, which a pooler has given to nobody or to another client meanwhile.
///
/// # Errors
/// It does not arrive; or the database cannot be reached.
pub(crate) fn check(settings: &Settings, stop: &StopToken) -> Result<(), StorageError> {
    let checked = async {
        tokio::select! {
            biased;
            checked = notify(settings) => checked,
            () = stop.cancelled() => Err(unanswered()),
        }
    };
    runtime()?.block_on(checked)
}

async fn notify(settings: &Settings) -> Result<(), StorageError> {
    let mut listening = Session::open(&settings.address, &SESSION).await?;
    let channel = listening.query(ACTION, "SELECT 'orchestrator_check_' || pg_backend_pid()", vec![]).await?;
    let channel: String = single(&channel)?;
    listening.batch(ACTION, &format!("LISTEN {channel}")).await?;
    let mut other = Session::open(&settings.address, &SESSION).await?;
    other.batch(ACTION, &format!("NOTIFY {channel}")).await?;
    match listening.0.notified(ARRIVES_WITHIN).await.map_err(storage_error)? {
        Some(_) => Ok(()),
        None => Err(unusable(format!(
            "{}: a NOTIFY to a session of this program did not arrive, as with PgBouncer's pool_mode = transaction: set pool_mode = session for \
                 this database, or name the server itself",
            settings.address
        ))),
    }
}
