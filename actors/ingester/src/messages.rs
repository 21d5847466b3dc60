//! What the children of an ingester tell each other.

use bytes::Bytes;
use orchestrator_supervise::{Message, Reply};
use uuid::Uuid;

use crate::{roster::Roster, updates::ControllerUpdate};

/// Who is connected has changed, or was heard of again.
#[derive(Debug)]
pub struct WorkersSeen {
    /// All that are connected.
    pub workers: Roster,
    /// One of them is new or gone: others wait to read of it.
    pub changed: bool,
}

impl Message for WorkersSeen {
    type Result = ();
}

/// Entries of the `updates` stream, in order. The answer is whether all were handled; if not, they are to be handed over again.
#[derive(Debug)]
pub struct UpdatesArrived(pub Vec<ControllerUpdate>);

impl Message for UpdatesArrived {
    type Result = bool;
}

/// A command to Redis; the answer says why it failed.
#[derive(Debug)]
pub struct RedisCommand {
    /// What to do.
    pub action: RedisAction,
    /// Where the answer goes.
    pub reply: Reply<Result<Option<Bytes>, RedisFailure>>,
}

/// Why a command to Redis failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisFailure {
    /// Reason and advice.
    pub text: String,
    /// Redis refused this command, for example because its key is of another type. It may take others.
    pub refused: bool,
}

/// What is asked of Redis. Keys are those of CONTRACT ID01 to ID09.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisAction {
    /// Publishes the configuration key, for ten seconds; answers with what was there before.
    Publish(Vec<u8>),
    /// Reads a version of a parameter; no answer if it is not there.
    Parameter(String, Uuid),
    /// Says that this ingester has finished a mapping.
    Finished(Uuid),
}
