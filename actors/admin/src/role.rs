//! Roles and callers. No I/O.

use schemars::JsonSchema;
use serde::Serialize;

/// Role of a caller. Each role includes the rights of the former ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// May read.
    Viewer,
    /// May read and send commands.
    Operator,
}

/// Authenticated sender of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Caller {
    pub(crate) role: Role,
    /// Name of the token, or the peer of the connection.
    pub(crate) who: String,
}

impl Role {
    pub(crate) const ALL: [Role; 2] = [Role::Viewer, Role::Operator];

    /// As in the tokens file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == word)
    }
}
