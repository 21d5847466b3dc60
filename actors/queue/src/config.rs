//! Section `[queue]` of the configuration.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use orchestrator_edge::{SettingError, SocketAccess, check_database_path, check_socket_path};
use orchestrator_queue_rules::storage::{HandoutSettings, LIMITS_MAX, Limit, Limits};
use orchestrator_queue_sqlite::{OnCorrupt, Options, SqliteQueue, Synchronous};
use orchestrator_queue_store::Store;
use orchestrator_subsystem::Period;
use orchestrator_text::sanitize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::PostgresConfig;

/// Configuration of the queue. Every key has a default; the default paths are under `./var/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueueConfig {
    /// Where the queue is stored.
    pub store: StoreKind,
    /// Path of the SQLite database; created if it is missing. Other stores keep only the directory's history
    /// there.
    #[schemars(length(min = 1))]
    pub database: PathBuf,
    /// The PostgreSQL database, for the store `postgres`.
    pub postgres: PostgresConfig,
    /// Directory of the fetcher files; created with its parents if it is missing at the start.
    #[schemars(length(min = 1))]
    pub input_dir: PathBuf,
    /// Path of the unix socket that workers connect to.
    #[schemars(length(min = 1))]
    pub socket: PathBuf,
    /// Mode of the socket, such as `"0660"`. Unset: 0777 without the bits of the umask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket_mode: Option<String>,
    /// Owner of the socket, a name in `/etc/passwd` or a number. Unset: the user of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket_owner: Option<String>,
    /// Group of the socket, a name in `/etc/group` or a number. Unset: the group of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket_group: Option<String>,
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
    /// first. With 0, only the last one of each attribute path is known, without fetcher and connection.
    #[schemars(range(max = 1_000_000))]
    pub attempts: u32,
    /// Limits of jobs in flight; a job counts against the first one that it matches. At most 16.
    pub limit: Vec<Limit>,
    /// Fetchers whose input is late if they add no file for a period. At most 64.
    pub expect: Vec<ExpectedFetcher>,
}

/// Store of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// A SQLite file, used by one instance.
    #[default]
    Sqlite,
    /// A PostgreSQL database that several instances share.
    Postgres,
}

/// Fetcher that adds a file at least once in a period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["fetcher", "every"]))]
pub struct ExpectedFetcher {
    /// Pattern of fetchers, the stems of their file names: `*` stands for any characters, `?` for one. One
    /// of them is enough.
    #[schemars(length(min = 1))]
    pub fetcher: String,
    /// Longest time between two files: a number and `s`, `m`, `h` or `d`.
    pub every: Period,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            store: StoreKind::default(),
            database: "var/queue.db".into(),
            postgres: PostgresConfig::default(),
            input_dir: "var/fetchers".into(),
            socket: "var/worker.sock".into(),
            socket_mode: None,
            socket_owner: None,
            socket_group: None,
            hold_secs: 43_200,
            redeliver_after_lease: false,
            on_corrupt: OnCorrupt::default(),
            synchronous: Synchronous::default(),
            attempts: 200_000,
            limit: Vec::new(),
            expect: Vec::new(),
        }
    }
}

impl Default for ExpectedFetcher {
    fn default() -> Self {
        Self { fetcher: String::new(), every: Period::DAY }
    }
}

/// Limit of jobs of all other subsystems that no configured limit matches, so that they do not starve the
/// files.
const OFFERED_IN_FLIGHT: u32 = 8;

/// Maximum number of expected fetchers.
const EXPECTED_MAX: usize = 64;

/// Maximum length of a pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1_000;

impl QueueConfig {
    /// Returns the configured store, which opens nothing yet.
    pub(crate) fn make_store(&self) -> Arc<dyn Store> {
        self.postgres_store().unwrap_or_else(|| self.on_sqlite(&self.database))
    }

    /// The same queue in the file `database`.
    pub(crate) fn on_sqlite(&self, database: &Path) -> Arc<dyn Store> {
        let options = Options::new(self.handouts(), self.synchronous);
        Arc::new(SqliteQueue::new(database.to_owned(), self.on_corrupt, options))
    }

    /// Settings of hand-outs.
    pub(crate) fn handouts(&self) -> HandoutSettings {
        HandoutSettings {
            hold_secs: i64::from(self.hold_secs),
            redeliver_after_lease: self.redeliver_after_lease,
            attempts: u64::from(self.attempts),
            limits: Limits(self.limit.clone()),
        }
    }

    /// Adds a last limit for jobs of other subsystems if `offers_jobs`.
    pub(crate) fn for_offers(&self, offers_jobs: bool) -> Self {
        let mut config = self.clone();
        let others = Limit { attr_path: None, fetcher: Some("*.*".to_owned()), in_flight: OFFERED_IN_FLIGHT };
        config.limit.extend(offers_jobs.then_some(others));
        config
    }

    /// Returns mistakes that the schema does not express.
    pub(crate) fn check(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        mistakes.extend(self.socket_access().err().map(String::from));
        mistakes.extend(check_database_path("queue.database", &self.database).err().map(String::from));
        if self.limit.len() > LIMITS_MAX {
            mistakes
                .push(format!("queue.limit = {}: there are more than {LIMITS_MAX} limits", self.limit.len()));
        }
        for limit in &self.limit {
            let patterns = [&limit.attr_path, &limit.fetcher].into_iter().flatten();
            if patterns.clone().next().is_none() {
                mistakes.push(format!(
                    "queue.limit = {{ in_flight = {} }}: neither match nor fetcher is set: set match = \"*\" to limit all jobs",
                    limit.in_flight
                ));
            }
            for long in patterns.filter(|pattern| pattern.len() > PATTERN_BYTES_MAX) {
                let start: String = long.chars().take(20).collect();
                mistakes.push(format!(
                    "queue.limit = {}..: the pattern has more than {PATTERN_BYTES_MAX} bytes",
                    sanitize(&start)
                ));
            }
        }
        mistakes.extend(self.check_expected());
        mistakes.extend(self.check_postgres());
        mistakes
    }

    fn check_expected(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.expect.len() > EXPECTED_MAX {
            let count = self.expect.len();
            mistakes.push(format!("queue.expect = {count}: there are more than {EXPECTED_MAX} fetchers"));
        }
        for (at, ExpectedFetcher { fetcher, .. }) in self.expect.iter().enumerate() {
            let shown = sanitize(fetcher.chars().take(20).collect::<String>());
            if self.expect[..at].iter().any(|other| other.fetcher == *fetcher) {
                mistakes.push(format!("queue.expect = {shown}: another one has this fetcher"));
            }
            if fetcher.len() > PATTERN_BYTES_MAX {
                mistakes.push(format!(
                    "queue.expect = {shown}..: the pattern has more than {PATTERN_BYTES_MAX} bytes"
                ));
            }
        }
        mistakes
    }

    /// Returns mode, owner and group of the socket.
    ///
    /// # Errors
    /// One of them is invalid, or the path is.
    pub(crate) fn socket_access(&self) -> Result<SocketAccess, SettingError> {
        check_socket_path("queue.socket", &self.socket)?;
        let [mode, owner, group] =
            [&self.socket_mode, &self.socket_owner, &self.socket_group].map(Option::as_deref);
        SocketAccess::new("queue.socket", mode, owner, group)
    }

    /// Returns the text printed at a terminal on start: paths, and how to enqueue a first job.
    pub fn greeting(&self) -> String {
        let shown = |path: &Path| sanitize(path.as_os_str().as_encoded_bytes());
        let (input, socket) = (shown(&self.input_dir), shown(&self.socket));
        format!(
            "  queue       {input}/ -> {}\n              a first job:  echo 'hello 1.0 1.1' > {input}/demo.1.txt\n              \
             take it:      printf 'READY\\n' | socat -t5 - UNIX-CONNECT:{socket}\n",
            sanitize(self.make_store().place())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(attr_path: Option<String>) -> Limit {
        Limit { attr_path, fetcher: None, in_flight: 2 }
    }

    #[test]
    fn mistakes_of_limits_are_reported_together() {
        let good = QueueConfig { limit: vec![limit(Some("*".to_owned())); 16], ..QueueConfig::default() };
        assert_eq!(good.check(), [""; 0]);
        let mut limits = vec![limit(None), limit(Some("x".repeat(1_001)))];
        limits.resize(17, limit(Some("*".to_owned())));
        let mistakes = QueueConfig { limit: limits, ..QueueConfig::default() }.check();
        for (mistake, text) in
            mistakes.iter().zip(["more than 16 limits", "neither match", "more than 1000 bytes"])
        {
            assert!(mistake.starts_with("queue.limit = ") && mistake.contains(text), "{mistake}");
        }
        assert_eq!(mistakes.len(), 3);
    }
}
