//! Section `[[hook]]` of the configuration.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use orchestrator_edge::delivery::ReceiverSettings;
use orchestrator_subsystem::{CommandLine, WebhookUrl};
use orchestrator_text::sanitize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tree ids of the children of the branch that are no hook.
pub(crate) const OUTBOX: &str = "outbox";
pub(crate) const COLLECTOR: &str = "collector";
/// Maximum number of hooks.
const HOOKS_MAX: usize = 32;
/// Maximum length of a name.
const NAME_MAX: usize = 64;

/// A hook: a program or a webhook that is told about each occurrence of a kind, at least once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name", "on"]))]
pub struct HookConfig {
    /// Name of the hook in the tree: letters, digits, `_` and `-`.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Occurrences that the hook reports.
    pub on: HookEventKind,
    /// Program and arguments, started without a shell for each occurrence. It reads the occurrence from
    /// standard input, as one line of JSON. It is started again until it exits with 0; 64 or 65 refuses the
    /// occurrence, and at the fifth time it is put aside.
    #[serde(skip_serializing_if = "CommandLine::is_empty")]
    pub argv: CommandLine,
    /// Address that the JSON is posted to, `http://host:port/path` or `https`, until it answers with a status
    /// from 200 to 299. An occurrence whose content it refuses five times, such as with 413, is put aside. A
    /// secret belongs into `headers_file`.
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

/// Kind of occurrences.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum HookEventKind {
    /// A worker reported a job with an exit code other than 0.
    #[default]
    #[serde(rename = "queue.failed")]
    QueueFailed,
    /// A row of a catalog is dead: its last attempt failed, or its handler said so.
    #[serde(rename = "catalog.dead")]
    CatalogDead,
    /// Frames of a detector are missing, repeated or late; at most once in 10 s for each stream.
    #[serde(rename = "ingester.gap")]
    IngesterGap,
    /// A subsystem failed too often and was stopped, to be tried again later.
    #[serde(rename = "subsystem.gave_up")]
    SubsystemGaveUp,
}

impl HookEventKind {
    /// As in the configuration and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::QueueFailed => "queue.failed",
            Self::CatalogDead => "catalog.dead",
            Self::IngesterGap => "ingester.gap",
            Self::SubsystemGaveUp => "subsystem.gave_up",
        }
    }
}

impl Default for HookConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            on: HookEventKind::default(),
            argv: CommandLine::new([]),
            url: None,
            headers_file: None,
            ca_file: None,
            timeout_secs: 60,
        }
    }
}

impl HookConfig {
    pub(crate) fn section(&self) -> String {
        format!("hook.{}", self.name)
    }

    pub(crate) fn receiver<'a>(&'a self, section: &'a str) -> ReceiverSettings<'a> {
        ReceiverSettings {
            section,
            argv: self.argv.expose(),
            url: self.url.as_ref().map(WebhookUrl::expose),
            headers_file: self.headers_file.as_deref(),
            ca_file: self.ca_file.as_deref(),
            timeout: Duration::from_secs(self.timeout_secs.into()),
        }
    }
}

/// Returns the errors of all hooks that the schema does not express. Each begins with `hook.NAME.key = ..`.
pub fn check(hooks: &[HookConfig]) -> Vec<String> {
    let (mut errors, mut names) = (Vec::new(), BTreeSet::new());
    if hooks.len() > HOOKS_MAX {
        errors.push(format!("hook = {}: there are more than {HOOKS_MAX} hooks", hooks.len()));
    }
    for hook in hooks {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if !hook.name.chars().all(is_plain) || hook.name.len() > NAME_MAX {
            let shown = sanitize(&hook.name);
            errors.push(format!(
                "hook.name = {shown}: a name has letters, digits, _ and - only, at most {NAME_MAX}"
            ));
            continue;
        }
        let section = hook.section();
        if [OUTBOX, COLLECTOR].contains(&hook.name.as_str()) || !names.insert(&hook.name) {
            errors.push(format!("{section}.name = {}: the name is taken: choose another one", hook.name));
        }
        let receiver = hook.receiver(&section);
        errors.extend(receiver.check());
        if !receiver.is_set() {
            errors.push(format!("{section}.argv = []: nothing receives the occurrences: set argv or url"));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(name: &str) -> HookConfig {
        HookConfig {
            name: name.to_owned(),
            argv: CommandLine::new(["/bin/true".to_owned()]),
            ..HookConfig::default()
        }
    }

    #[test]
    fn mistakes_of_hooks_are_reported_together() {
        assert_eq!(check(&[hook("a"), hook("b-2_C")]), [""; 0]);
        let mistakes = check(&[
            hook("a"),
            hook("a"),
            hook("outbox"),
            hook("a/b"),
            HookConfig { argv: CommandLine::new([]), ..hook("none") },
            HookConfig { url: Some(WebhookUrl::new("http://x")), ..hook("both") },
        ]);
        for (mistake, text) in mistakes.iter().zip([
            "hook.a.name = a: the name is taken",
            "hook.outbox.name = outbox: the name is taken",
            "hook.name = a/b: a name has letters",
            "hook.none.argv = []: nothing receives",
            "hook.both.url = ..: there is a program, too",
        ]) {
            assert!(mistake.starts_with(text), "{mistake}");
        }
        assert_eq!(mistakes.len(), 5);
    }

    #[test]
    fn names_of_kinds_are_those_of_the_configuration() {
        for kind in [
            HookEventKind::QueueFailed,
            HookEventKind::CatalogDead,
            HookEventKind::IngesterGap,
            HookEventKind::SubsystemGaveUp,
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
