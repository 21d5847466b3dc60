//! Console of a child: operator verbs that the child answers itself.

use actix::Message;
use serde::{Deserialize, Serialize};

/// Request to a child's console.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConsoleRequest {
    /// Verb, for example `peek`.
    pub verb: String,
    /// Arguments of the verb.
    pub args: serde_json::Value,
}

/// Answer of a child's console.
pub type ConsoleReply = Result<serde_json::Value, ConsoleError>;

/// Error of a child's console.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "error", content = "detail", rename_all = "snake_case")]
pub enum ConsoleError {
    /// The child does not know the verb; the text lists those it knows.
    #[error("unknown verb: this child answers {0}")]
    UnknownVerb(String),
    /// The arguments are invalid.
    #[error("{0}")]
    BadArguments(String),
    /// The child cannot carry out the verb now.
    #[error("{0}")]
    Refused(String),
}

impl Message for ConsoleRequest {
    type Result = ConsoleReply;
}
