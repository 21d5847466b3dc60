//! Redis, the control plane: keys and streams of spec §2. A Redis that is away is waited for; data in flight goes on meanwhile.
//!
//! One child owns two connections: one for commands, one that waits for updates. Assignments have a third, of the child that
//! wants them: what blocks on a stream must not hold up anything else.

mod assigned;
mod commands;
mod connection;
mod entry;
mod limited;
mod log;
mod reader;
mod updates;

use std::{fmt, sync::Arc, time::Duration};

use orchestrator_supervise::{Backoff, Factory, Fault, InboxSlot, Recipient, StartCx};
use redis::Client;
use uuid::Uuid;

use self::connection::{Connection, RequestError};
pub use self::updates::Position;
pub(crate) use self::{assigned::follow as follow_assigned, log::factory as log_factory};
use crate::messages::{RedisCommand, UpdatesArrived};

/// How long a connection may take to be made, and a command that does not wait to be answered.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two tries.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(2) };

/// Where Redis is, and under which name this ingester is known there.
#[derive(Clone)]
pub struct Place {
    client: Client,
    endpoint: Arc<str>,
    name: Arc<str>,
    service_uuid: Uuid,
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
    async fn connect(&self, blocking: Duration, reply_max: usize) -> Result<Connection, RequestError> {
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

/// The child: carries out commands, and hands every update to `ingester`, in order, one batch at a time. `position` is how far
/// the updates were handled; it outlives the child.
pub(crate) fn factory(
    place: Place,
    commands: InboxSlot<RedisCommand>,
    ingester: Recipient<UpdatesArrived>,
    position: Arc<Position>,
) -> Factory {
    let slot = commands.clone();
    let factory = Factory::task(move |cx: StartCx| {
        let (place, commands, ingester, position) =
            (place.clone(), commands.clone(), ingester.clone(), position.clone());
        async move {
            let serving = commands::serve(&place, &commands, &cx);
            let following = updates::follow(&place, &ingester, &position, &cx);
            futures_util::future::join(serving, following).await;
            Ok::<(), Fault>(())
        }
    });
    factory.with_inbox("commands", &slot)
}

/// What is said of an error, and what to do.
fn advice(error: &RequestError, endpoint: &str) -> String {
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
