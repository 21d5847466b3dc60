//! Section `[producer.on_complete]`.

use std::{path::PathBuf, time::Duration};

use orchestrator_edge::delivery::ReceiverSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[producer.on_complete]`: a program or a webhook that receives each completed TCN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OnCompleteConfig {
    /// Program and arguments, started without a shell for each completed TCN. It reads the TCN with its
    /// counts from standard input, as one line of JSON. It is started again until it exits with 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("format" = "command"))]
    pub argv: Vec<String>,
    /// Address that the JSON is posted to, `http://host:port/path` or `https`, until it answers with a status
    /// from 200 to 299. A secret belongs into `headers_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "webhook"))]
    pub url: Option<String>,
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
        Self { argv: Vec::new(), url: None, headers_file: None, ca_file: None, timeout_secs: 60 }
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
            argv: &self.argv,
            url: self.url.as_deref(),
            headers_file: self.headers_file.as_deref(),
            ca_file: self.ca_file.as_deref(),
            timeout: Duration::from_secs(self.timeout_secs.into()),
        }
    }
}
