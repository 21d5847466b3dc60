//! What the endpoint tells of the program that it knows nothing about.

use serde_json::Value;

use crate::Reload;

/// Said by the binary.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// Of the program.
    pub version: String,
    /// What was compiled in.
    pub features: Vec<String>,
    /// What is configured to run.
    pub subsystems: Vec<String>,
    /// The configuration as it is shown to whoever may look, without anything secret.
    pub config: Value,
    /// Its other half asks for the files to be read again.
    pub reload: Reload,
}
