//! The description of the program that the endpoint serves.

use serde_json::Value;

use crate::Reload;

/// Description of the program, from the binary.
#[derive(Debug, Clone, Default)]
pub struct ProgramInfo {
    /// Version of the program.
    pub version: String,
    /// Cargo features of the build.
    pub features: Vec<String>,
    /// Names of the configured subsystems.
    pub subsystems: Vec<String>,
    /// The configuration without secrets, for `GET /v1/config`.
    pub config: Value,
    /// Flag with which the binary requests that the endpoint reads its files again.
    pub reload: Reload,
}
