//! Section `[producer.on_complete]`.

use std::path::PathBuf;

use orchestrator_edge::http::Target;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[producer.on_complete]`: a program or a webhook that receives each completed TCN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OnCompleteConfig {
    /// Program and arguments, started without a shell for each completed TCN. It reads the TCN with its counts from standard input, as
    /// one line of JSON. It is started again until it exits with 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("format" = "command"))]
    pub argv: Vec<String>,
    /// Address that the JSON is posted to, `http://host:port/path` or `https`, until it answers with a status from 200 to 299. A secret
    /// belongs into `headers_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "webhook"))]
    pub url: Option<String>,
    /// File with secret headers for `url`, one a line, e.g. `Authorization: Bearer ..`. It is read for each request.
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
    pub fn is_configured(&self) -> bool {
        !self.argv.is_empty() || self.url.is_some()
    }

    /// Returns the errors that the schema cannot express.
    pub(super) fn check(&self) -> Vec<String> {
        let mut errors = Vec::new();
        let mut say = |key: &str, value: &str, text: &str| {
            errors.push(format!("producer.on_complete.{key} = {value}: {text}"))
        };
        if let Some(program) = self.argv.first() {
            if program.is_empty() {
                say("argv", "..", "name a program, e.g. [\"/usr/local/bin/tcn-complete\"]");
            } else if program.contains('/') && !program.starts_with('/') {
                say("argv", "..", "write the whole path of the program, or a name that is in PATH");
            }
            if self.argv.iter().any(|argument| argument.contains('\0')) {
                say("argv", "..", "an argument cannot have a NUL: leave it out");
            }
            if self.url.is_some() {
                say("url", "..", "there is a program, too: leave out url or argv");
            }
        }
        // The file with the authorities is read at the start.
        if let Some(Err(reason)) = self.url.as_deref().map(|url| Target::new(url, None)) {
            say("url", "..", &reason);
        }
        for (key, is_set) in
            [("headers_file", self.headers_file.is_some()), ("ca_file", self.ca_file.is_some())]
        {
            if is_set && self.url.is_none() {
                say(key, "..", "it is for url, which is missing: set url, or leave it out");
            }
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_key_and_repeat_no_value() {
        let program = || vec!["/bin/secret".to_owned()];
        let url = || Some("http://secret".to_owned());
        let none = OnCompleteConfig::default();
        for (config, said) in [
            (OnCompleteConfig { argv: vec![String::new()], ..none.clone() }, "argv = ..: name a program"),
            (
                OnCompleteConfig { argv: vec!["secret/x".to_owned()], ..none.clone() },
                "argv = ..: write the whole",
            ),
            (
                OnCompleteConfig { argv: vec!["x".to_owned(), "\0".to_owned()], ..none.clone() },
                "argv = ..: an arg",
            ),
            (
                OnCompleteConfig { argv: program(), url: url(), ..none.clone() },
                "url = ..: there is a program",
            ),
            (
                OnCompleteConfig { url: Some("ftp://secret".to_owned()), ..none.clone() },
                "url = ..: its scheme",
            ),
            (
                OnCompleteConfig { ca_file: Some("/secret".into()), ..none.clone() },
                "ca_file = ..: it is for url",
            ),
            (
                OnCompleteConfig { headers_file: Some("/s".into()), ..none.clone() },
                "headers_file = ..: it is for",
            ),
        ] {
            let errors = config.check();
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert!(errors[0].starts_with(&format!("producer.on_complete.{said}")), "{errors:?}");
            assert!(!errors[0].contains("secret"), "{errors:?}");
        }
        assert!(!none.is_configured() && none.check().is_empty());
        for config in [
            OnCompleteConfig { argv: program(), ..none.clone() },
            OnCompleteConfig { url: url(), ..none.clone() },
        ] {
            assert!(config.is_configured() && config.check().is_empty());
        }
    }
}
