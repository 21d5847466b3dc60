//! Address of Redis, and connections to it.

use std::{fmt, sync::Arc, time::Duration};

use orchestrator_supervise::Backoff;
use redis::{Client, ConnectionAddr};
use uuid::Uuid;

use super::connection::{Connection, RequestError};

/// Delays between two attempts to connect.
pub(super) const BACKOFF: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(2) };

/// Address of Redis and the identity of this ingester there.
#[derive(Clone)]
pub(crate) struct RedisTarget {
    pub(super) client: Client,
    pub(super) endpoint: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) service_uuid: Uuid,
}

impl RedisTarget {
    /// Parses `redis://[user:password@]host[:port][/db]` or `unix:///path`.
    ///
    /// # Errors
    /// The URL is invalid. The text does not repeat it, since it may contain a password.
    pub(crate) fn new(url: &str, name: &str, service_uuid: Uuid) -> Result<Self, String> {
        let client = Client::open(url)
            .map_err(|_| "not a URL of Redis: write redis://host:port/0 or unix:///path".to_owned())?;
        let endpoint = client.get_connection_info().addr().to_string().into();
        Ok(Self { client, endpoint, name: name.into(), service_uuid })
    }

    /// Address without credentials.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Options of `redis-cli` that name this server and database.
    pub(crate) fn cli_options(&self) -> String {
        let info = self.client.get_connection_info();
        let database = info.redis_settings().db();
        match info.addr() {
            ConnectionAddr::Unix(path) => format!("-s {} -n {database}", path.display()),
            tcp => format!("-u redis://{tcp}/{database}"),
        }
    }

    /// Connects. A command may block for `blocking`; a reply may have `reply_max` bytes.
    pub(super) async fn connect(
        &self,
        blocking: Duration,
        reply_max: usize,
    ) -> Result<Connection, RequestError> {
        Connection::open(self.client.get_connection_info(), blocking, reply_max).await
    }
}

impl fmt::Debug for RedisTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("endpoint", &self.endpoint)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Text of an error with advice.
pub(super) fn advice(error: &RequestError, endpoint: &str) -> String {
    match error {
        RequestError::Refused(_) => {
            format!("{error}: check the type of the keys of Redis at {endpoint} and the user's permissions")
        }
        RequestError::Failed(_) | RequestError::TimedOut(_) => {
            format!("{error}: check that Redis runs at {endpoint} and that redis_url is correct")
        }
        _ => format!("{error}: the server at {endpoint} does not behave like Redis"),
    }
}
