//! The messages of an ingester's children.

use std::sync::Arc;

use bytes::Bytes;
use orchestrator_supervise::{Message, Reply};
use uuid::Uuid;

use crate::{assignment::Assignment, roster::Roster, updates::ControllerUpdate};

/// A sign of life of a worker (CONTRACT IP02), from its connection to Accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerPinged {
    /// The worker's name: the identity of its connection.
    pub worker: Arc<str>,
    /// Of this run of the worker.
    pub service_uuid: [u8; 16],
}

impl Message for WorkerPinged {
    type Result = ();
}

/// The connected workers have changed, or were heard of again: from Accept to Ingester.
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

/// A scan has started anew, and nothing of a former mapping is left: from Work to Ingester.
#[derive(Debug, Clone, Copy)]
pub struct ScanStarted {
    /// Number of the mapping that it is for.
    pub mapping: u64,
}

impl Message for ScanStarted {
    type Result = ();
}

/// A stream's source misses nothing that is sent from now on: from the stream's child to Ingester.
#[derive(Debug, Clone, Copy)]
pub struct SourceReady {
    /// Number of the mapping that it runs for.
    pub mapping: u64,
    /// Position of the stream.
    pub stream: usize,
}

impl Message for SourceReady {
    type Result = ();
}

/// The controller has said that a mapping is finished: from Ingester to Work, which sends none of its events after the answer, and to the
/// children of the streams.
#[derive(Debug, Clone, Copy)]
pub struct MappingFinished {
    /// Its number.
    pub mapping: u64,
}

impl Message for MappingFinished {
    type Result = ();
}

/// Entries of a mapping's `assigned` stream, in order: from their reader to Assign. The answer comes when Work has taken their events; it has
/// the entries that could not be read.
#[derive(Debug)]
pub struct EntriesRead(pub Vec<Vec<u8>>);

impl Message for EntriesRead {
    type Result = Vec<InvalidEntry>;
}

/// An entry that is not what a controller writes.
#[derive(Debug)]
pub struct InvalidEntry {
    /// Its position in the message.
    pub at: usize,
    /// Its content.
    pub entry: Vec<u8>,
    /// The fault that was found.
    pub error: serde_json::Error,
}

/// Events and their workers, in order: from Assign to Work. The answer comes when there is room for more.
#[derive(Debug)]
pub struct EventsAssigned(pub Vec<Assignment>);

impl Message for EventsAssigned {
    type Result = ();
}

/// Items that Work waits for are in their stream's queue: from the stream's child to Work.
///
/// The items themselves travel as batches in the queue, which is bounded in bytes. An item is one event of up to 100,000 in a second, that is
/// 10 us for everything; a message from one arbiter to another costs as much, so that it is sent only when Work has found the queue empty.
#[derive(Debug, Clone, Copy)]
pub struct ItemsIngested {
    /// Position of the stream.
    pub stream: usize,
}

impl Message for ItemsIngested {
    type Result = ();
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

/// Requests to Redis. Keys are those of CONTRACT ID01 to ID09.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisAction {
    /// Publishes the configuration key, for ten seconds; answers with what was there before.
    Publish(Vec<u8>),
    /// Reads a version of a parameter; no answer if it is not there.
    Parameter(String, Uuid),
    /// Says that this ingester has finished a mapping.
    Finished(Uuid),
}
