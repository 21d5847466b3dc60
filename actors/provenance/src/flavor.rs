//! Flavors of the PostgreSQL schema (CONTRACT PD06, PD09).

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Layout of the relations in a database, chosen at its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Flavor {
    /// One row for each pair, with its path.
    #[default]
    WithPath,
    /// One row for each pair, without paths.
    WithoutPath,
    /// One row for each source, with arrays of destinations and paths.
    WithPathDenormalized,
    /// One row for each source, with an array of destinations, without paths.
    WithoutPathDenormalized,
}

impl Flavor {
    /// All flavors.
    pub const ALL: [Self; 4] =
        [Self::WithPath, Self::WithoutPath, Self::WithPathDenormalized, Self::WithoutPathDenormalized];

    /// Value in the database and the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::WithPath => "with-path",
            Self::WithoutPath => "without-path",
            Self::WithPathDenormalized => "with-path-denormalized",
            Self::WithoutPathDenormalized => "without-path-denormalized",
        }
    }

    /// Returns true if paths are stored.
    pub fn has_paths(self) -> bool {
        matches!(self, Self::WithPath | Self::WithPathDenormalized)
    }

    /// Relations of contents and directories have one row for each source.
    pub fn is_denormalized(self) -> bool {
        matches!(self, Self::WithPathDenormalized | Self::WithoutPathDenormalized)
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Flavor {
    type Err = UnknownFlavor;

    fn from_str(text: &str) -> Result<Self, UnknownFlavor> {
        Self::ALL
            .into_iter()
            .find(|flavor| flavor.name() == text)
            .ok_or_else(|| UnknownFlavor(text.to_owned()))
    }
}

/// Error of a text that is not a flavor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown flavor `{0}`: use with-path, without-path, with-path-denormalized or without-path-denormalized"
)]
pub struct UnknownFlavor(String);
