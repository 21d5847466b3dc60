//! Section `[producer.on_complete]`.

use std::{path::PathBuf, time::Duration};

use orchestrator_edge::delivery::ReceiverSettings;
use orchestrator_subsystem::{CommandLine, WebhookUrl};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[producer.on_complete]`: a program or a webhook that receives each completed TCN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OnCompleteConfig {
    /// Program and arguments, started without a shell for each completed TCN. It reads the TCN with its
    /// counts from standard input, as one line of JSON. It is started again until it exits with 0.
    #[serde(skip_serializing_if = "CommandLine::is_empty")]
    pub argv: CommandLine,
    /// Address that the JSON is posted to, `http://host:port/path` or `https`, until it answers with a status
    /// from 200 to 299. A secret belongs into `headers_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<WebhookUrl>,
    /// File with secret headers for `url`, one a line, e.g. `Authorization: Bearer ..`. It is read for each
    /// request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers_file: Option<PathBuf>,
    /// PEM file with certificate authorities that replace the public ones, for https.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Time-out of one attempt, in seconds.
    #[schemars(range(min = 1, max = 3_600))]
    pub timeout_secs: u32,
}

impl Default for OnCompleteConfig {
    fn default() -> Self {
        Self { argv: CommandLine::new([]), url: None, headers_file: None, ca_file: None, timeout_secs: 60 }
    }
}

impl OnCompleteConfig {
    /// Returns true if there is a program or a webhook.
    pub(crate) fn is_configured(&self) -> bool {
        self.receiver().is_set()
    }

    /// Returns the errors that the schema cannot express.
    pub(super) fn check(&self) -> Vec<String> {
        self.receiver().check()
    }

    pub(crate) fn receiver(&self) -> ReceiverSettings<'_> {
        ReceiverSettings {
            section: "producer.on_complete",
            argv: self.argv.expose(),
            url: self.url.as_ref().map(WebhookUrl::expose),
            headers_file: self.headers_file.as_deref(),
            ca_file: self.ca_file.as_deref(),
            timeout: Duration::from_secs(self.timeout_secs.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Compat, ProducerConfig};

    #[test]
    fn strict_refuses_on_complete() {
        let on_complete =
            OnCompleteConfig { argv: CommandLine::new(["true".to_owned()]), ..OnCompleteConfig::default() };
        let mut config = ProducerConfig { on_complete, compat: Compat::Strict, ..ProducerConfig::default() };
        assert!(config.check()[0].starts_with("producer.compat = \"strict\": "));
        config.compat = Compat::Default;
        assert_eq!(config.check(), Vec::<String>::new());
    }
}
