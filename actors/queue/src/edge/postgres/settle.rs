//! Sets or takes the rules that all instances share.

use super::{
    rules::Rules,
    session::{first, get},
    store::PostgresStore,
};
use orchestrator_queue_rules::storage::{Limit, Storage as _, StorageError};

/// Number of attribute paths whose classes are computed by one statement.
const RECLASSED: i32 = 2_000;

impl PostgresStore {
    /// Sets the rules of the database, or takes its rules if other instances run with them.
    pub(super) fn settle_rules(&mut self) -> Result<(), StorageError> {
        let configured = self.settings.rules.clone();
        self.begin_with("reading the rules", "SELECT 1 FROM property WHERE name = 'version' FOR UPDATE;")?;
        let rows = self.query(
            "reading the rules",
            "SELECT (SELECT value FROM property WHERE name = 'rules'),
                 EXISTS (SELECT 1 FROM instance WHERE instance <> $1 AND lease_until > clock_timestamp())",
            vec![Box::new(self.settings.instance.clone())],
        )?;
        let known: Option<Rules> =
            first::<String>(&rows)?.and_then(|known| serde_json::from_str(&known).ok());
        let is_shared = rows.first().map_or(Ok(false), |row| get(row, 1))?;
        match known {
            Some(known) if known == configured => {}
            Some(known) if is_shared => {
                tracing::warn!(
                    ?known,
                    ?configured,
                    "other instances share the queue with other rules: taking theirs; to change them, stop all instances and start \
                     one with the new configuration"
                );
                self.settings.rules = known;
            }
            known => {
                self.write_rules(&configured)?;
                if known.is_none_or(|known| known.limit != configured.limit) {
                    self.write_limits(&configured.limit)?;
                }
            }
        }
        self.commit()
    }

    fn write_rules(&mut self, rules: &Rules) -> Result<(), StorageError> {
        let text = serde_json::to_string(rules).unwrap_or_default();
        self.query(
            "settling the rules",
            "INSERT INTO property VALUES ('rules', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            vec![Box::new(text)],
        )?;
        Ok(())
    }

    fn write_limits(&mut self, limits: &[Limit]) -> Result<(), StorageError> {
        let attrs: Vec<Option<String>> =
            limits.iter().map(|limit| limit.attr_path.as_deref().map(like)).collect();
        let fetchers: Vec<Option<String>> =
            limits.iter().map(|limit| limit.fetcher.as_deref().map(like)).collect();
        let numbers: Vec<i32> =
            limits.iter().map(|limit| i32::try_from(limit.in_flight).unwrap_or(i32::MAX)).collect();
        self.query(
            "settling the limits",
            "SELECT set_limits($1, $2, $3)",
            vec![Box::new(attrs), Box::new(fetchers), Box::new(numbers)],
        )?;
        let mut after = String::new();
        loop {
            let rows = self.query(
                "settling the limits",
                "SELECT reclass($1, $2)",
                vec![Box::new(after), Box::new(RECLASSED)],
            )?;
            match first::<String>(&rows)? {
                Some(last) => after = last,
                None => return Ok(()),
            }
        }
    }
}

/// Converts a pattern with `*` and `?`.
fn like(pattern: &str) -> String {
    let mut like = String::with_capacity(pattern.len());
    for character in pattern.chars() {
        match character {
            '*' => like.push('%'),
            '?' => like.push('_'),
            '%' | '_' | '\\' => like.extend(['\\', character]),
            other => like.push(other),
        }
    }
    like
}
