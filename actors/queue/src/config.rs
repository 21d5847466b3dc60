//! Section `[queue]` of the configuration.

use std::path::{Path, PathBuf};

use orchestrator_supervise::sanitize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::edge::sqlite;

/// Configuration of the queue. Every key has a default; the default paths are under `./var/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueueConfig {
    /// Path of the SQLite database; created if it is missing.
    #[schemars(length(min = 1))]
    pub database: PathBuf,
    /// Directory of the fetcher files; created with its parents if it is missing at the start.
    #[schemars(length(min = 1))]
    pub input_dir: PathBuf,
    /// Path of the unix socket that workers connect to.
    #[schemars(length(min = 1))]
    pub socket: PathBuf,
    /// Seconds for which an attribute path that was handed out and not reported done is not handed
    /// out again; at most one year.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub hold_secs: u32,
    /// Hands a job out again after `hold_secs` if no worker reported it done. The original never
    /// does this.
    pub redeliver_after_lease: bool,
    /// Action on a damaged database.
    pub on_corrupt: OnCorrupt,
    /// Durability of a commit before its answers are sent.
    pub synchronous: Synchronous,
    /// Maximum number of attempts that are kept: each hand-out with its end. The oldest are removed
    /// first; 0 keeps none.
    #[schemars(range(max = 1_000_000))]
    pub attempts: u32,
}

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

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            database: "var/queue.db".into(),
            input_dir: "var/fetchers".into(),
            socket: "var/worker.sock".into(),
            hold_secs: 43_200,
            redeliver_after_lease: false,
            on_corrupt: OnCorrupt::default(),
            synchronous: Synchronous::default(),
            attempts: 200_000,
        }
    }
}

/// Page cache of the store's connection, in bytes. With it the process stays below 120 MiB for a
/// million rows.
const CACHE_BYTES: u32 = 32 << 20;

impl QueueConfig {
    pub(crate) fn store_options(&self) -> sqlite::Options {
        sqlite::Options {
            hold_secs: i64::from(self.hold_secs),
            redeliver_after_lease: self.redeliver_after_lease,
            synchronous: match self.synchronous {
                Synchronous::Full => sqlite::Synchronous::Full,
                Synchronous::Normal => sqlite::Synchronous::Normal,
            },
            attempts: u64::from(self.attempts),
            cache_bytes: CACHE_BYTES,
        }
    }
}

impl QueueConfig {
    /// Returns the text printed at a terminal on start: paths, and how to enqueue a first job.
    pub fn greeting(&self) -> String {
        let shown = |path: &Path| sanitize(path.as_os_str().as_encoded_bytes());
        let (input, socket) = (shown(&self.input_dir), shown(&self.socket));
        format!(
            "  queue   {input}/ -> {}\n          a first job:  echo 'hello 1.0 1.1' > {input}/demo.1.txt\n          \
             take it:      printf 'READY\\n' | socat -t5 - UNIX-CONNECT:{socket}\n",
            shown(&self.database)
        )
    }
}
