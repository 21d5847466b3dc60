//! Errors of a configuration, each with its position and key, reported all at once.

use std::{borrow::Cow, fmt};

use orchestrator_text::sanitize_to;
use serde::Serialize;

use orchestrator_subsystem::redaction::redact;

/// Longest excerpt of a value, in characters.
const EXCERPT_MAX: usize = 60;

/// Longest error message, in bytes. A message may list all keys of a section.
const MESSAGE_MAX: usize = 4_096;
/// Longest position, in bytes.
const POSITION_MAX: usize = 512;

/// One error of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Diagnostic {
    /// `FILE:LINE`, `environment NAME` or `--set KEY=VALUE`.
    pub(crate) position: String,
    /// Dotted path of the key; empty if the error concerns no key.
    pub(crate) key: String,
    /// Reason, and what to do.
    pub(crate) text: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.key.as_str() {
            "" => format!("{}: {}", self.position, self.text),
            key => format!("{}: {key}: {}", self.position, self.text),
        };
        // The text may quote the configuration.
        f.write_str(&sanitize_to(redact(&text), MESSAGE_MAX))
    }
}

/// All errors of an invalid configuration. Never empty.
#[derive(Debug)]
pub(crate) struct InvalidConfig(Vec<Diagnostic>);

impl InvalidConfig {
    /// `Ok` if there are no errors.
    ///
    /// # Errors
    /// All `diagnostics`, sorted as [`in_order`] does.
    pub(crate) fn unless_empty(diagnostics: Vec<Diagnostic>) -> Result<(), Self> {
        if diagnostics.is_empty() { Ok(()) } else { Err(Self(in_order(diagnostics))) }
    }
}

impl fmt::Display for InvalidConfig {
    /// Writes one line for each error, which begins with file and line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = if self.0.len() == 1 { "error" } else { "errors" };
        write!(f, "the configuration has {} {errors}", self.0.len())?;
        self.0.iter().try_for_each(|diagnostic| write!(f, "\n{diagnostic}"))
    }
}

impl std::error::Error for InvalidConfig {}

/// Errors of an invalid configuration. Any other error is one without position and key.
pub(crate) fn errors(error: &anyhow::Error) -> Vec<Diagnostic> {
    let shown = |text: &str| sanitize_to(redact(text), MESSAGE_MAX);
    match error.downcast_ref::<InvalidConfig>() {
        Some(InvalidConfig(errors)) => {
            let shown = |error: &Diagnostic| Diagnostic { text: shown(&error.text), ..error.clone() };
            errors.iter().map(shown).collect()
        }
        None => vec![Diagnostic {
            position: String::new(),
            key: String::new(),
            text: shown(&format!("{error:#}")),
        }],
    }
}

/// Sorts `diagnostics` by source, in the order of their first appearance, then by line.
pub(crate) fn in_order(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut sources: Vec<String> = Vec::new();
    for diagnostic in &diagnostics {
        let (source, _) = parts(&diagnostic.position);
        if !sources.iter().any(|other| other == source) {
            sources.push(source.to_owned());
        }
    }
    diagnostics.sort_by_key(|diagnostic| {
        let (source, line) = parts(&diagnostic.position);
        (sources.iter().position(|other| other == source), line, diagnostic.key.clone())
    });
    diagnostics
}

/// Splits a position, `SOURCE:LINE` or `SOURCE:LINE:COLUMN`, into source and line. The line is 0 if it is
/// missing.
fn parts(position: &str) -> (&str, usize) {
    let number = |position: &str| -> Option<(usize, usize)> {
        let (before, number) = position.rsplit_once(':')?;
        Some((before.len(), number.parse().ok()?))
    };
    let Some((end, last)) = number(position) else { return (position, 0) };
    match number(&position[..end]) {
        Some((end, line)) => (&position[..end], line),
        None => (&position[..end], last),
    }
}

/// Formats `text` of the command line or the environment as one line of limited length.
pub(crate) fn one_line(text: impl AsRef<[u8]>) -> String {
    sanitize_to(text, POSITION_MAX)
}

/// First 60 characters of `text`.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(EXCERPT_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}..", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sorted_by_source_and_line() {
        // The name of a file may end with a digit.
        let positions = ["b5:10", "--set a=1", "b5:9:3", "a.toml:2", "a.toml", "b5:1"];
        let diagnostic = |position: &str| Diagnostic {
            position: position.to_owned(),
            key: String::new(),
            text: String::new(),
        };
        let ordered = in_order(positions.map(diagnostic).to_vec());
        let ordered: Vec<_> = ordered.iter().map(|diagnostic| diagnostic.position.as_str()).collect();
        assert_eq!(ordered, ["b5:1", "b5:9:3", "b5:10", "--set a=1", "a.toml", "a.toml:2"]);
    }

    #[test]
    fn long_texts_are_cut_and_line_ends_are_escaped() {
        assert_eq!(excerpt("short"), "short");
        assert_eq!(excerpt(&"\u{e9}".repeat(61)), format!("{}..", "\u{e9}".repeat(60)));
        assert_eq!(one_line("a\n\x1bb"), "a\\n\\u{1b}b");
    }
}
