//! The four flavors of the schema (CONTRACT PD06, PD09).

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a database keeps its relations; chosen when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Flavor {
    /// One row for each pair, with its path.
    #[default]
    WithPath,
    /// One row for each pair; paths are not kept.
    WithoutPath,
    /// One row for each source, with arrays of destinations and paths.
    WithPathDenormalized,
    /// One row for each source, with an array of destinations; paths are not kept.
    WithoutPathDenormalized,
}

impl Flavor {
    /// All four.
    pub const ALL: [Self; 4] =
        [Self::WithPath, Self::WithoutPath, Self::WithPathDenormalized, Self::WithoutPathDenormalized];

    /// Its value in the database and in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::WithPath => "with-path",
            Self::WithoutPath => "without-path",
            Self::WithPathDenormalized => "with-path-denormalized",
            Self::WithoutPathDenormalized => "without-path-denormalized",
        }
    }

    /// Are paths kept?
    pub fn has_paths(self) -> bool {
        matches!(self, Self::WithPath | Self::WithPathDenormalized)
    }

    /// Are the relations of contents and directories one row for each source?
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
    type Err = NotFlavor;

    fn from_str(text: &str) -> Result<Self, NotFlavor> {
        Self::ALL.into_iter().find(|flavor| flavor.name() == text).ok_or_else(|| NotFlavor(text.to_owned()))
    }
}

/// A text that names no flavor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no flavor `{0}`: there are with-path, without-path, with-path-denormalized and without-path-denormalized"
)]
pub struct NotFlavor(String);
