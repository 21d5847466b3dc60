//! Operator verbs that a child answers itself, so that admin and CLI need to know no subsystem.

use actix::Message;
use serde::{Deserialize, Serialize};

/// A verb for a child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConsoleRequest {
    /// The verb, e.g. `peek`.
    pub verb: String,
    /// Its arguments.
    pub args: serde_json::Value,
}

/// A child's answer.
pub type ConsoleReply = Result<serde_json::Value, ConsoleError>;

/// Why a child has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "error", content = "detail", rename_all = "snake_case")]
pub enum ConsoleError {
    /// The child knows no such verb; the text lists those it knows.
    #[error("unknown verb: this child answers {0}")]
    UnknownVerb(String),
    /// The arguments do not fit.
    #[error("{0}")]
    BadArguments(String),
    /// The child cannot do it now.
    #[error("{0}")]
    Refused(String),
}

impl Message for ConsoleRequest {
    type Result = ConsoleReply;
}
