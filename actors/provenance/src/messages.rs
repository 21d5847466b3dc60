//! Messages between the parts of the subsystem.

use orchestrator_supervise::Reply;
use orchestrator_text::TIME;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    row::Rows,
    store::{Query, QueryResult, StoreError},
};

/// One message of a client, for the worker of its exchange and range.
#[derive(Debug)]
pub(crate) struct Request {
    /// Rows in the order sent; keys may repeat.
    pub rows: Rows,
    /// Receives the outcome. A dropped reply means that the worker ended first: deliver the message
    /// again.
    pub reply: Reply<Outcome>,
}

/// Outcome of a message or a call: each of its rows is stored or permanently refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Outcome {
    /// Number of stored rows, including repeated ones; the response to a message.
    pub stored: u64,
    /// The refused rows, in order. Always empty for a call behind a broker, where a call with a
    /// refused row times out (CONTRACT PE07).
    pub refused: Vec<Refusal>,
}

/// A row that is malformed or that the store permanently refuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Refusal {
    /// Position of the row in the request.
    pub index: u32,
    /// Reason, for the dead letter.
    pub reason: String,
}

impl Refusal {
    /// Sorts refusals by position.
    pub(crate) fn sort(refused: &mut [Self]) {
        refused.sort_unstable_by_key(|refusal| refusal.index);
    }
}

/// Request of a worker to the writer.
#[derive(Debug)]
pub(crate) struct WriteRequest {
    /// Rows of one method, in order of arrival.
    pub rows: Rows,
    /// Receives the permanently refused rows, in order, once the others are durable. A dropped
    /// reply means that the writer was restarted: send the request again.
    pub reply: Reply<Vec<Refusal>>,
}

#[derive(Debug)]
pub(crate) struct ReadRequest {
    pub query: Query,
    /// Receives the result. A dropped reply means that the reader was restarted: send the request
    /// again.
    pub reply: Reply<Result<QueryResult, StoreError>>,
}

/// A permanently refused row, as stored where there is no broker (CONTRACT PD15).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct DeadLetter {
    /// Number of refusals.
    pub times: u32,
    /// Time of the last refusal, in seconds since 1970.
    #[schemars(extend("format" = TIME))]
    pub last_at: i64,
    /// Reason of the last refusal.
    pub reason: String,
    /// The row in the format of an import: see [`json`](crate::json).
    pub line: Value,
}

impl DeadLetter {
    /// The letter was refused once.
    pub(crate) fn new(line: Value, reason: String) -> Self {
        Self { line, reason, last_at: 0, times: 1 }
    }
}

/// Request to the child that stores dead letters. A dropped reply means that it was restarted: send
/// the request again.
#[derive(Debug)]
#[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "only the child with SQLite reads them"))]
pub(crate) enum DeadLetterRequest {
    /// Stores letters.
    Keep {
        letters: Vec<DeadLetter>,
        /// Answered once they are durable.
        reply: Reply<()>,
    },
    /// Lists letters, the latest first.
    List {
        /// Maximum number of letters.
        limit: u32,
        /// Receives the letters.
        reply: Reply<Result<Vec<DeadLetter>, StoreError>>,
    },
}
