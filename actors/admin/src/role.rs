//! Who asks, and what they may do. Pure.

use serde::Serialize;

/// What a caller may do; each role may do what the ones before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Looks.
    Viewer,
    /// Looks and commands.
    Operator,
}

/// Who sent a request, once that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The token's name, or the other end of the connection.
    pub(crate) who: String,
    pub(crate) role: Role,
}

impl Role {
    pub(crate) const ALL: [Role; 2] = [Role::Viewer, Role::Operator];

    /// The word in the tokens file.
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
