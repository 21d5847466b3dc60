//! Keys of the section `[queue]` that only this store has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Action on a damaged database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnCorrupt {
    /// Rename it to `DB.corrupt-<time>` and rebuild the queue from the fetcher files.
    #[default]
    Rebuild,
    /// Exit with an error and leave the file unchanged.
    Refuse,
}

/// Durability of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    /// Synced to disk: answered requests survive a power failure.
    #[default]
    Full,
    /// Written to the operating system: answered requests survive a crash of the process. A power
    /// failure can lose the last ones.
    Normal,
}
