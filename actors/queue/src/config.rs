//! Section `[queue]` of the configuration.

use std::path::{Path, PathBuf};

use orchestrator_supervise::sanitize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::edge::sqlite;

/// What the queue works on. Every key has a default; the defaults live under `./var/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueueConfig {
    /// The SQLite file; created if it is missing.
    #[schemars(length(min = 1))]
    pub database: PathBuf,
    /// The directory that fetchers write to; created with its parents if it is missing.
    #[schemars(length(min = 1))]
    pub input_dir: PathBuf,
    /// The unix socket that workers connect to.
    #[schemars(length(min = 1))]
    pub socket: PathBuf,
    /// How long an attribute path that was handed out and not reported done is held back, seconds; a year at most.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub hold_secs: u32,
    /// Hand a job out again when its hold is over and nobody reported it done. The original never does.
    pub redeliver_after_lease: bool,
    /// What to do with a damaged database.
    pub on_corrupt: OnCorrupt,
    /// How far a commit goes before its answers leave.
    pub synchronous: Synchronous,
}

/// What to do with a damaged database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnCorrupt {
    /// Keep it aside as `DB.corrupt-<time>` and rebuild the queue from the fetcher files.
    #[default]
    Rebuild,
    /// End with an error and touch nothing.
    Refuse,
}

/// How far a commit goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    /// On disk: nothing that was answered is lost in a power cut.
    #[default]
    Full,
    /// With the kernel: nothing is lost when the process dies, a power cut may take the last moments.
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
        }
    }
}

/// Page cache of the store's connection, bytes: a million rows stay within 120 MiB of memory.
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
            cache_bytes: CACHE_BYTES,
        }
    }
}

impl QueueConfig {
    /// For a person at a terminal: how to hand it a first job.
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
