//! A site that runs catalogs only: one catalog, with rules of the test's choice.

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;

use crate::{Ermrest, Instance, TestEnv};

/// A rule `work` with everything: a token, a lease of 5 s, attempts. The handler is left to the test.
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

/// A site with a configuration file, which a test may write again.
#[derive(Debug)]
pub struct CatalogEnv {
    base: TestEnv,
    head: String,
    rules: String,
}

impl CatalogEnv {
    /// For the binary at `binary` and the catalog of `server`, without notices; it looks often.
    pub fn new(binary: impl Into<PathBuf>, server: &Ermrest) -> Self {
        Self::at(binary, &server.url())
    }

    /// As [`CatalogEnv::new`], for a catalog at `url`.
    pub fn at(binary: impl Into<PathBuf>, url: &str) -> Self {
        let head = format!("[[catalog]]\nname = \"lab\"\nbase = {url:?}\npoll_without_notices_secs = 0.25\n");
        Self { base: TestEnv::new(binary), head, rules: String::new() }
    }

    /// Hears notices from the broker at `url`.
    #[must_use]
    pub fn notices(self, url: &str) -> Self {
        self.key(&format!("amqp = {url:?}"))
    }

    /// Adds a key of the catalog.
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

    /// Forgets all rules.
    pub fn clear_rules(&mut self) {
        self.rules.clear();
    }

    /// Adds rules, or keys of the last one, while it runs; [`CatalogEnv::write`] writes them.
    pub fn add_rule(&mut self, text: &str) {
        self.rules.push_str(text);
    }

    /// The directory.
    pub fn base(&self) -> &TestEnv {
        &self.base
    }

    /// Writes the configuration file and gives its path.
    pub fn write(&self) -> PathBuf {
        let path = self.base.path().join("catalog.toml");
        let amqp = if self.head.contains("amqp") { "" } else { "amqp = \"\"\n" };
        fs::write(&path, format!("{}{amqp}{}", self.head, self.rules)).expect("write the configuration");
        path
    }

    /// The command that runs the catalog on this site, without starting it.
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

    /// What the poller says of itself.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn status(&self) -> Value {
        self.base.status_of("catalog/lab/catalog_poller")
    }

    /// What the poller says of a rule.
    ///
    /// # Panics
    /// As [`CatalogEnv::status`].
    pub fn rule_status(&self, rule: &str) -> Value {
        self.status()["rules"][rule].clone()
    }
}
