//! The address of Redis, and connections to it.

use std::{fmt, sync::Arc, time::Duration};

use orchestrator_supervise::Backoff;
use redis::Client;
use uuid::Uuid;

use super::connection::{Connection, RequestError};

/// Between two tries.
pub(super) const BACKOFF: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(2) };

/// Where Redis is, and under which name this ingester is known there.
#[derive(Clone)]
pub struct Place {
    pub(super) client: Client,
    pub(super) endpoint: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) service_uuid: Uuid,
}

impl Place {
    /// `url` as `redis://[user:password@]host[:port][/db]` or `unix:///path`.
    ///
    /// # Errors
    /// It is none; the text does not repeat it, since it may have a password.
    pub fn new(url: &str, name: &str, service_uuid: Uuid) -> Result<Self, String> {
        let client = Client::open(url)
            .map_err(|_| "no address of Redis: write redis://host:port/0 or unix:///path".to_owned())?;
        let endpoint = client.get_connection_info().addr().to_string().into();
        Ok(Self { client, endpoint, name: name.into(), service_uuid })
    }

    /// Without credentials.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// A connection on which a command may block for `blocking`, and no reply may be longer than `reply_max` bytes.
    pub(super) async fn connect(
        &self,
        blocking: Duration,
        reply_max: usize,
    ) -> Result<Connection, RequestError> {
        Connection::open(self.client.get_connection_info(), blocking, reply_max).await
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("endpoint", &self.endpoint)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What is said of an error, and what to do.
pub(super) fn advice(error: &RequestError, endpoint: &str) -> String {
    match error {
        RequestError::Refused(_) => {
            format!("{error}: look at the keys of redis at {endpoint} and at the user's rights")
        }
        RequestError::Failed(_) | RequestError::Silent(_) => {
            format!("{error}: is Redis running at {endpoint}, and is redis_url right?")
        }
        _ => format!("{error}: what answers at {endpoint} does not behave as Redis does"),
    }
}
