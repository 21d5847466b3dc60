//! Settings of hand-outs, which all instances share: the first instance that runs alone sets them, and one
//! that starts beside others takes theirs.

use super::{
    server_session::Session,
    session::{first, get},
    store::PostgresStore,
};
use orchestrator_queue_rules::storage::{HandoutSettings, Limits, Storage as _, StorageError};

/// Number of attribute paths whose classes are computed by one statement.
const RECLASSED: i32 = 2_000;

impl PostgresStore {
    /// Sets the settings of the database, or takes its settings if other instances run with them.
    pub(super) fn agree_on_settings(&mut self) -> Result<(), StorageError> {
        let configured = self.settings.handouts.clone();
        self.begin_with("reading the settings", "SELECT 1 FROM property WHERE name = 'version' FOR UPDATE;")?;
        let rows = self.query(
            "reading the settings",
            "SELECT (SELECT value FROM property WHERE name = 'rules'),
                 EXISTS (SELECT 1 FROM instance WHERE instance <> $1 AND lease_until > clock_timestamp())",
            vec![Box::new(self.settings.instance.clone())],
        )?;
        let known: Option<HandoutSettings> =
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
                self.settings.handouts = known;
            }
            known => {
                self.write_settings(&configured)?;
                if known.is_none_or(|known| known.limits != configured.limits) {
                    self.write_limits(&configured.limits)?;
                }
            }
        }
        self.commit()
    }

    fn write_settings(&mut self, settings: &HandoutSettings) -> Result<(), StorageError> {
        let text = serde_json::to_string(settings).unwrap_or_default();
        self.query(
            "writing the settings",
            "INSERT INTO property VALUES ('rules', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            vec![Box::new(text)],
        )?;
        Ok(())
    }

    fn write_limits(&mut self, Limits(limits): &Limits) -> Result<(), StorageError> {
        let attrs: Vec<Option<String>> =
            limits.iter().map(|limit| limit.attr_path.as_deref().map(like)).collect();
        let fetchers: Vec<Option<String>> =
            limits.iter().map(|limit| limit.fetcher.as_deref().map(like)).collect();
        let numbers: Vec<i32> =
            limits.iter().map(|limit| i32::try_from(limit.in_flight).unwrap_or(i32::MAX)).collect();
        self.query(
            "writing the limits",
            "SELECT set_limits($1, $2, $3)",
            vec![Box::new(attrs), Box::new(fetchers), Box::new(numbers)],
        )?;
        let mut after = String::new();
        loop {
            let rows = self.query(
                "writing the limits",
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

/// None if the database has no settings yet.
pub(super) async fn read(session: &mut Session) -> Result<Option<HandoutSettings>, StorageError> {
    let sql = "SELECT value FROM property WHERE name = 'rules'";
    let rows = session.query("reading the settings", sql, vec![]).await?;
    Ok(first::<String>(&rows)?.and_then(|known| serde_json::from_str(&known).ok()))
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
