//! Section `[queue]` of the configuration.

use std::path::{Path, PathBuf};

use orchestrator_edge::{SocketAccess, check_database_path, check_socket_path};
#[cfg(feature = "postgres")]
use orchestrator_edge::{dsn_has_password, postgres::ConfiguredAddress};
use orchestrator_queue_rules::storage::{LIMITS_MAX, Limit};
use orchestrator_subsystem::Period;
use orchestrator_text::sanitize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    #[cfg(feature = "postgres")]
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
    #[cfg(feature = "postgres")]
    Postgres,
}

/// Section `[queue.postgres]`.
#[cfg(feature = "postgres")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PostgresConfig {
    /// Address of the database, with libpq's options; one with a password belongs in `dsn_file`.
    #[schemars(length(min = 1), extend("format" = "address"))]
    pub dsn: String,
    /// File that contains the DSN; replaces `dsn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dsn_file: Option<PathBuf>,
    /// Schema of the queue's tables, created if it is missing: lower-case letters, digits and `_`. Instances
    /// with the same schema share a queue.
    #[schemars(length(min = 1))]
    pub schema: String,
    /// Name of this instance, stable over restarts: letters, digits, `.`, `_` and `-`. Unset: one is made at
    /// the first start and kept in the file `INPUT_DIR.instance`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

#[cfg(feature = "postgres")]
impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            dsn: "postgresql:///orchestrator".to_owned(),
            dsn_file: None,
            schema: "orchestrator_queue".to_owned(),
            instance: None,
        }
    }
}

#[cfg(feature = "postgres")]
impl PostgresConfig {
    fn check(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        if dsn_has_password(&self.dsn) {
            mistakes.push("queue.postgres.dsn = ..: it contains a password: write the address to a file that only this program may read, and name it in queue.postgres.dsn_file".to_owned());
        } else if let Some(error) = self.address().error() {
            mistakes.push(format!("queue.postgres.dsn = ..: {error}"));
        }
        let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !self.schema.bytes().all(is_lower)
            || self.schema.bytes().next().is_none_or(|byte| byte.is_ascii_digit())
            || self.schema.len() > SCHEMA_BYTES_MAX
        {
            mistakes.push(format!(
                "queue.postgres.schema = {}: use at most {SCHEMA_BYTES_MAX} lower-case letters, digits and _, and begin with no digit",
                sanitize(&self.schema)
            ));
        }
        if let Some(instance) = self.instance.as_deref().filter(|instance| !is_instance_name(instance)) {
            mistakes.push(format!(
                "queue.postgres.instance = {}: use 1 to 100 letters, digits, '.', '_' and '-'",
                sanitize(instance)
            ));
        }
        mistakes
    }

    /// Without user and password; the path if a file contains the address.
    pub(crate) fn endpoint(&self) -> String {
        self.address().endpoint()
    }

    pub(crate) fn address(&self) -> ConfiguredAddress<'_> {
        let Self { dsn, dsn_file, .. } = self;
        let (section, application) = ("queue.postgres", APPLICATION);
        ConfiguredAddress { dsn, dsn_file: dsn_file.as_deref(), section, application }
    }
}

/// Maximum length of the name of a schema: PostgreSQL cuts longer names.
#[cfg(feature = "postgres")]
const SCHEMA_BYTES_MAX: usize = 63;

/// Application name of the sessions.
#[cfg(feature = "postgres")]
pub(crate) const APPLICATION: &str = "orchestrator queue";

#[cfg(feature = "postgres")]
pub(crate) fn is_instance_name(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=100).contains(&name.len()) && name.bytes().all(is_valid)
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
            store: StoreKind::default(),
            database: "var/queue.db".into(),
            #[cfg(feature = "postgres")]
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
        mistakes.extend(self.socket_access().err());
        mistakes.extend(check_database_path("queue.database", &self.database).err());
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
        #[cfg(feature = "postgres")]
        mistakes.extend(self.postgres.check());
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
    pub(crate) fn socket_access(&self) -> Result<SocketAccess, String> {
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
            match self.store {
                StoreKind::Sqlite => shown(&self.database),
                #[cfg(feature = "postgres")]
                StoreKind::Postgres => sanitize(self.postgres.endpoint()),
            }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(attr_path: Option<String>) -> Limit {
        Limit { attr_path, fetcher: None, in_flight: 2 }
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn mistakes_of_a_shared_queue_are_reported_without_its_password() {
        let postgres = PostgresConfig {
            dsn: "postgresql://queue:S3CR3T@db/queue".to_owned(),
            schema: "Queue-1".to_owned(),
            instance: Some("host one".to_owned()),
            ..PostgresConfig::default()
        };
        let mistakes = QueueConfig { postgres, ..QueueConfig::default() }.check();
        for (mistake, key) in mistakes.iter().zip(["dsn", "schema", "instance"]) {
            assert!(mistake.starts_with(&format!("queue.postgres.{key} = ")), "{mistake}");
            assert!(!mistake.contains("S3CR3T"), "{mistake}");
        }
        assert_eq!(mistakes.len(), 3);
        for schema in ["1queue", "queue\"", &"q".repeat(64)] {
            let postgres = PostgresConfig { schema: schema.to_owned(), ..PostgresConfig::default() };
            assert_eq!(QueueConfig { postgres, ..QueueConfig::default() }.check().len(), 1, "{schema}");
        }
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
