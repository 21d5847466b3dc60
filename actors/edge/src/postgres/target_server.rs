//! libpq's `target_session_attrs`: the kind of server that a connection may use.

use super::option_error::OptionError;

/// Kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TargetServer {
    /// Any server.
    #[default]
    Any,
    /// A server that accepts writes.
    ReadWrite,
    /// A server that does not.
    ReadOnly,
    /// A server that is no standby.
    Primary,
    /// A standby.
    Standby,
    /// A standby, or any server if none is one.
    PreferStandby,
}

impl TargetServer {
    const ALL: [(&'static str, Self); 6] = [
        ("any", Self::Any),
        ("read-write", Self::ReadWrite),
        ("read-only", Self::ReadOnly),
        ("primary", Self::Primary),
        ("standby", Self::Standby),
        ("prefer-standby", Self::PreferStandby),
    ];

    pub(super) fn parse(name: &str) -> Result<Self, OptionError> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, target)| target).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            OptionError::Invalid(format!("has another target_session_attrs than {names}: write one of them"))
        })
    }

    /// Kinds to look for: the servers are tried for the first one, then for the next.
    pub(super) fn passes(self) -> Vec<Self> {
        match self {
            Self::PreferStandby => vec![Self::Standby, Self::Any],
            other => vec![other],
        }
    }

    /// Query that answers `t` if the server is of this kind; None: all are.
    pub(super) fn query(self) -> Option<&'static str> {
        match self {
            Self::Any | Self::PreferStandby => None,
            Self::ReadWrite => Some("SELECT current_setting('transaction_read_only') = 'off'"),
            Self::ReadOnly => Some("SELECT current_setting('transaction_read_only') = 'on'"),
            Self::Primary => Some("SELECT NOT pg_is_in_recovery()"),
            Self::Standby => Some("SELECT pg_is_in_recovery()"),
        }
    }
}
