//! What the parts of the subsystem tell each other.

use orchestrator_supervise::Reply;
use serde::Serialize;
use serde_json::Value;

use crate::{
    row::Rows,
    store::{Found, Question, StoreError},
};

/// One message of a client on its way to the worker of its exchange and range.
#[derive(Debug)]
pub struct Request {
    /// Its rows, as sent: in order, possibly repeating keys.
    pub rows: Rows,
    /// Where what became of it is told. Dropped = the worker ended before it was done: deliver the message again.
    pub reply: Reply<Settled>,
}

/// What became of a message: each of its rows is stored or refused for good.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settled {
    /// How many of its rows are stored, repeated ones included: what its client is told.
    pub stored: u32,
    /// The others.
    pub refused: Vec<Refusal>,
}

/// A row that can never be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its position among the rows of the request.
    pub index: u32,
    /// Why.
    pub reason: String,
}

/// From a worker to the writer.
#[derive(Debug)]
pub struct WriteRequest {
    /// Rows of one method, in the order of their arrival.
    pub rows: Rows,
    /// Told which rows can never be stored, in order, once the others are durable. Dropped = the writer was restarted: ask again.
    pub reply: Reply<Vec<Refusal>>,
}

/// From whoever asks to the reader.
#[derive(Debug)]
pub struct ReadRequest {
    /// What is asked.
    pub question: Question,
    /// The answer. Dropped = the reader was restarted: ask again.
    pub reply: Reply<Result<Found, StoreError>>,
}

/// A row that can never be stored, as it is kept where there is no broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadLetter {
    /// The row as it is imported: see [`json`](crate::json).
    pub line: Value,
    /// Why.
    pub reason: String,
    /// When it came last, seconds since 1970.
    pub last_at: i64,
    /// How often it came.
    pub times: u32,
}

impl DeadLetter {
    /// One that is new.
    pub fn new(line: Value, reason: String) -> Self {
        Self { line, reason, last_at: 0, times: 1 }
    }
}

/// To the child that keeps dead letters. A dropped reply = it was restarted: ask again.
#[derive(Debug)]
pub enum DeadLetterRequest {
    /// Keep them.
    Keep {
        /// Which.
        letters: Vec<DeadLetter>,
        /// Told once they are durable.
        reply: Reply<()>,
    },
    /// Show them.
    List {
        /// At most so many, the latest first.
        limit: u32,
        /// The answer.
        reply: Reply<Result<Vec<DeadLetter>, StoreError>>,
    },
}
