//! Line of the audit log.

use serde::Serialize;
use serde_json::Value;

/// One line of the audit log.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Record {
    pub(crate) at: String,
    pub(crate) who: String,
    pub(crate) role: &'static str,
    pub(crate) path: String,
    pub(crate) verb: String,
    pub(crate) reason: String,
    /// Arguments of a console verb.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) args: Option<Value>,
    /// `ok`, or the kind and message of the error.
    pub(crate) outcome: String,
    /// State of the child before a command.
    pub(crate) before: Option<String>,
    /// State of the child after a command.
    pub(crate) after: Option<String>,
}
