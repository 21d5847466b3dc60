//! Test environment of the catalog subsystem: one catalog with rules that the test supplies.

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;

use crate::{Ermrest, Instance, TestEnv};

/// Rule `work` with claim token, a lease of 5 s and a limit on attempts. The test adds the handler.
pub const FULL_RULE: &str = r#"
[[catalog.rule]]
name = "work"
table = "Foo"
filter = "state=actionable"
sort = "id"
attempts_column = "attempts"
max_attempts = 5
backoff = { first_ms = 100, max_ms = 1000 }
claim.set = { state = "claimed", claimed_by = "$token", lease_until = "$now+5s", attempts = "$row.attempts+1" }
done = { state = "complete", lease_until = "$null" }
fail = { state = "actionable", claimed_by = "$null", lease_until = "$null", error = "$error" }
dead = { state = "dead", claimed_by = "$null", lease_until = "$null", error = "$error" }
"#;

/// Rule with a lease, without attempts.
pub const LEASED_RULE: &str = r#"
[[catalog.rule]]
name = "work"
table = "Foo"
filter = "state=actionable"
sort = "id"
claim.set = { state = "claimed", claimed_by = "$token", lease_until = "$now+60s" }
done = { state = "complete", lease_until = "$null" }
"#;

/// Environment with a configuration file that the test may rewrite.
#[derive(Debug)]
pub struct CatalogEnv {
    base: TestEnv,
    head: String,
    rules: String,
}

impl CatalogEnv {
    /// Creates an environment for the catalog of `server`, without change notices and with a poll interval of
    /// 0.25 s.
    pub fn new(binary: impl Into<PathBuf>, server: &Ermrest) -> Self {
        Self::at(binary, &server.url())
    }

    /// As [`CatalogEnv::new`], for a catalog at `url`.
    pub fn at(binary: impl Into<PathBuf>, url: &str) -> Self {
        let head = format!("[[catalog]]\nname = \"lab\"\nbase = {url:?}\npoll_without_notices_secs = 0.25\n");
        Self { base: TestEnv::new(binary), head, rules: String::new() }
    }

    /// Receives change notices from the broker at `url`.
    #[must_use]
    pub fn notices(self, url: &str) -> Self {
        self.key(&format!("amqp = {url:?}"))
    }

    /// Adds a configuration key of the catalog.
    #[must_use]
    pub fn key(mut self, line: &str) -> Self {
        self.head.push_str(&format!("{line}\n"));
        self
    }

    /// Adds rules, or keys of the last one.
    #[must_use]
    pub fn rule(mut self, text: &str) -> Self {
        self.rules.push_str(text);
        self
    }

    /// Removes all rules.
    pub fn clear_rules(&mut self) {
        self.rules.clear();
    }

    /// As [`CatalogEnv::rule`], for a running instance; [`CatalogEnv::write`] writes the file.
    pub fn add_rule(&mut self, text: &str) {
        self.rules.push_str(text);
    }

    /// Directory, log and command line.
    pub fn base(&self) -> &TestEnv {
        &self.base
    }

    /// Writes the configuration file and returns its path.
    pub fn write(&self) -> PathBuf {
        let path = self.base.path().join("catalog.toml");
        let amqp = if self.head.contains("amqp") { "" } else { "amqp = \"\"\n" };
        fs::write(&path, format!("{}{amqp}{}", self.head, self.rules)).expect("write the configuration");
        path
    }

    /// Command that runs the catalog.
    pub fn command(&self) -> Command {
        let mut command = self.base.command_of("catalog", &[]);
        command.arg("--config").arg(self.write());
        command
    }

    /// Starts an instance and waits until its endpoint answers.
    pub fn start(&self) -> Instance {
        self.base.start_by(self.command())
    }

    /// As [`CatalogEnv::start`], with variables in its environment.
    pub fn start_with(&self, variables: &[(&str, &str)]) -> Instance {
        let mut command = self.command();
        command.envs(variables.iter().copied());
        self.base.start_by(command)
    }

    /// Status of the poller, from its console.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn status(&self) -> Value {
        self.base.status_of("catalog/lab/catalog_poller")
    }

    /// Status of a rule, from the poller's console.
    ///
    /// # Panics
    /// As [`CatalogEnv::status`].
    pub fn rule_status(&self, rule: &str) -> Value {
        self.status()["rules"][rule].clone()
    }
}
