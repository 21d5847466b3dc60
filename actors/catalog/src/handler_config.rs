//! Table `handler` of a rule in the configuration.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use orchestrator_catalog_rules::{outcome_kind::ExitCodes, text_template::TextTemplate};
use orchestrator_edge::{
    http::{Target, Webhook, plain_headers},
    process::Environment,
};
use orchestrator_exchange::JobQueue;
use orchestrator_subsystem::{CommandLine, HeaderLine, Secret, WebhookUrl, secret::exposed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    edge::handlers::{AnyHandler, Command, REASON_KEPT},
    queue_handler::QueueHandler,
};

/// Handler of a rule's rows. Keys of another kind are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HandlerConfig {
    /// Kind of the handler.
    pub kind: HandlerKind,
    /// command, http: maximum time for one row, in seconds.
    #[schemars(range(min = 1, max = 604_800))]
    pub timeout_secs: u32,
    /// command, http: maximum size of an answer, in bytes; a longer one counts as a failure.
    #[schemars(range(min = 1_024, max = 67_108_864))]
    pub answer_bytes: u32,
    /// command: program and arguments, started without a shell. The row is one line of JSON on its
    /// standard input.
    #[serde(skip_serializing_if = "CommandLine::is_empty")]
    pub argv: CommandLine,
    /// command: working directory. Default: that of this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// command: environment variables, whose values are not shown. The program also gets HOME,
    /// LANG, LANGUAGE, LC_*, LOGNAME, PATH, SHELL, TMPDIR, TZ, TZDIR and USER of this process, and
    /// ORCHESTRATOR_RULE, _TOKEN and _ATTEMPT.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Secret>,
    /// command: names of further variables that the program inherits from this process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_pass: Vec<String>,
    /// command: time between SIGTERM at the time-out and SIGKILL, in milliseconds.
    #[schemars(range(max = 600_000))]
    pub grace_ms: u32,
    /// command, queue: exit codes for a row that is done.
    pub done_codes: Vec<u8>,
    /// command, queue: exit codes for a row that could not be processed now; not counted as an attempt.
    pub later_codes: Vec<u8>,
    /// command, queue: exit codes for a permanent failure. All other codes count as a failed attempt.
    pub dead_codes: Vec<u8>,
    /// http: address that rows are posted to, `http://host:port/path` or `https`. A secret belongs
    /// into `headers_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<WebhookUrl>,
    /// http: additional headers, each `Name: value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HeaderLine>,
    /// http: file with secret headers, one a line, e.g. `Authorization: Bearer ..`. It is read for
    /// each request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers_file: Option<PathBuf>,
    /// http: file with the certificate authorities (PEM) trusted for https, in place of the public
    /// ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// queue: attribute path of the job, a text with words such as `$row.id`; different for each row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attr_path: Option<String>,
    /// queue: text behind the attribute path, with words such as `$row.file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
}

/// Kinds of handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandlerKind {
    /// No handler: a claimed row is done at once.
    #[default]
    None,
    /// A program, started for each row.
    Command,
    /// A webhook: each row is posted to an address.
    Http,
    /// The queue of this process: each row is a job for its workers.
    Queue,
}

impl Default for HandlerConfig {
    fn default() -> Self {
        let ExitCodes { done, later, dead } = ExitCodes::default();
        Self {
            kind: HandlerKind::default(),
            timeout_secs: 300,
            answer_bytes: 1 << 20,
            argv: CommandLine::new([]),
            cwd: None,
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            grace_ms: 5_000,
            done_codes: done,
            later_codes: later,
            dead_codes: dead,
            url: None,
            headers: Vec::new(),
            headers_file: None,
            ca_file: None,
            attr_path: None,
            payload: None,
        }
    }
}

/// Reason to refuse a rule whose jobs nobody takes.
pub(crate) const NO_QUEUE: &str = "handler.kind = queue: this process has had no queue for jobs since its start: configure [queue], and restart";

impl HandlerConfig {
    /// Returns every problem that the schema cannot express. The texts begin with `handler.key =
    /// value`.
    pub fn check(&self) -> Vec<String> {
        let mut problems = self.misplaced_keys();
        let mut say =
            |key: &str, value: &str, text: &str| problems.push(format!("handler.{key} = {value}: {text}"));
        match self.kind {
            HandlerKind::None => {}
            HandlerKind::Command => {
                for (key, value, text) in program_problems(self.argv.expose(), &self.environment()) {
                    say(&key, &value, &text);
                }
            }
            HandlerKind::Http => {
                // The file is read when the rule starts.
                match self.url.as_ref().map(|url| Target::new(url.expose(), None)) {
                    None => say("url", "..", "it is missing: write http://HOST:PORT/PATH, or https"),
                    Some(Err(error)) => say("url", "..", &error.to_string()),
                    Some(Ok(_)) => {}
                }
                if let Err(error) = plain_headers(self.header_lines()) {
                    say("headers", "..", &error.to_string());
                }
            }
            HandlerKind::Queue => {
                if self.attr_path.as_deref().is_none_or(str::is_empty) {
                    say("attr_path", "..", "it is missing: write for example \"$row.id\"");
                }
                for (key, text) in [("attr_path", &self.attr_path), ("payload", &self.payload)] {
                    let text = text.as_deref().unwrap_or_default();
                    if let Err(reason) = TextTemplate::parse(text) {
                        say(key, text, &reason);
                    }
                }
            }
        }
        if let Some(code) = self.exit_codes().ambiguous() {
            say("done_codes, later_codes, dead_codes", "..", &format!("{code} is there twice: leave one"));
        }
        problems
    }

    fn misplaced_keys(&self) -> Vec<String> {
        let usual = Self::default();
        let codes = self.exit_codes() != usual.exit_codes();
        let command = [
            ("argv", !self.argv.is_empty()),
            ("cwd", self.cwd.is_some()),
            ("env", !self.env.is_empty()),
            ("env_pass", !self.env_pass.is_empty()),
            ("grace_ms", self.grace_ms != usual.grace_ms),
        ];
        let reports = [("done_codes, later_codes, dead_codes", codes)];
        let http = [
            ("url", self.url.is_some()),
            ("headers", !self.headers.is_empty()),
            ("headers_file", self.headers_file.is_some()),
            ("ca_file", self.ca_file.is_some()),
        ];
        let queue = [("attr_path", self.attr_path.is_some()), ("payload", self.payload.is_some())];
        let mut problems = Vec::new();
        let mut only_for = |kinds: &[HandlerKind], name: &str, keys: &[(&str, bool)]| {
            for (key, _) in keys.iter().filter(|(_, set)| *set && !kinds.contains(&self.kind)) {
                let text = format!("it is for kind = {name}: leave one of them out");
                problems.push(format!("handler.{key} = ..: {text}"));
            }
        };
        only_for(&[HandlerKind::Command], "\"command\"", &command);
        only_for(&[HandlerKind::Command, HandlerKind::Queue], "\"command\" or \"queue\"", &reports);
        only_for(&[HandlerKind::Http], "\"http\"", &http);
        only_for(&[HandlerKind::Queue], "\"queue\"", &queue);
        problems
    }

    /// Creates the handler of a rule. `owner` names the rule to the queue: catalog and rule, with dots.
    ///
    /// # Errors
    /// The first problem that [`HandlerConfig::check`] finds, a file that cannot be read, or no queue in this
    /// process.
    pub fn handler(&self, owner: Arc<str>, queue: Option<&JobQueue>) -> Result<AnyHandler, String> {
        let timeout = Duration::from_secs(self.timeout_secs.into());
        let answer_bytes = usize::try_from(self.answer_bytes).unwrap_or(usize::MAX);
        if let Some(problems) = self.check().into_iter().next() {
            return Err(problems);
        }
        Ok(match self.kind {
            HandlerKind::None => AnyHandler::Nothing,
            HandlerKind::Command => AnyHandler::Command(Command {
                argv: self.argv.expose().to_vec(),
                cwd: self.cwd.clone(),
                timeout,
                grace: Duration::from_millis(self.grace_ms.into()),
                answer_bytes,
                exit_codes: self.exit_codes(),
                environment: self.environment(),
            }),
            HandlerKind::Http => AnyHandler::Webhook(Webhook {
                target: self.target()?,
                headers: plain_headers(self.header_lines())?,
                headers_file: self.headers_file.clone(),
                timeout,
                answer_max: Some(answer_bytes),
                error_max: REASON_KEPT,
            }),
            HandlerKind::Queue => {
                let text = |text: &Option<String>| TextTemplate::parse(text.as_deref().unwrap_or_default());
                AnyHandler::Queue(QueueHandler {
                    queue: queue.cloned().ok_or(NO_QUEUE)?,
                    owner,
                    attr_path: text(&self.attr_path)?,
                    payload: text(&self.payload)?,
                    exit_codes: self.exit_codes(),
                })
            }
        })
    }

    fn target(&self) -> Result<Target, String> {
        let url = self.url.as_ref().map_or("", WebhookUrl::expose);
        // `check` has accepted the URL, so the file is the cause.
        Target::new(url, self.ca_file.as_deref()).map_err(|reason| format!("handler.{reason}"))
    }

    fn header_lines(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().map(HeaderLine::expose)
    }

    fn environment(&self) -> Environment {
        Environment { pass: self.env_pass.clone(), set: exposed(&self.env) }
    }

    fn exit_codes(&self) -> ExitCodes {
        let Self { done_codes, later_codes, dead_codes, .. } = self.clone();
        ExitCodes { done: done_codes, later: later_codes, dead: dead_codes }
    }
}

/// Each problem as key, value and text.
pub(crate) fn program_problems(argv: &[String], environment: &Environment) -> Vec<(String, String, String)> {
    let mut problems = Vec::new();
    let mut say = |key: &str, value: &str, text: &str| {
        problems.push((key.to_owned(), value.to_owned(), text.to_owned()))
    };
    let program = argv.first().map_or("", String::as_str);
    if program.is_empty() {
        say("argv", "[]", "name a program, e.g. [\"/usr/local/bin/work\", \"--fast\"]");
    } else if program.contains('/') && !program.starts_with('/') {
        let text = "it is not clear from which directory: write the whole path, or a name that is in PATH";
        say("argv", program, text);
    }
    if argv.iter().any(|argument| argument.contains('\0')) {
        say("argv", "..", "a program cannot be handed a NUL: leave it out");
    }
    for (key, name, text) in environment.check() {
        say(&format!("{key}.{name}"), "..", &text);
    }
    problems
}

#[cfg(test)]
mod tests;
