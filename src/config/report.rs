//! What is wrong with a configuration: everything at once, each with its place and key.

use std::{borrow::Cow, fmt};

use orchestrator_supervise::sanitize_to;

use orchestrator_subsystem::redaction::scrubbed;

/// Longest part of a value that is shown, characters.
const SHOWN_MAX: usize = 60;

/// Longest complaint, bytes. One lists the keys of a section, or names of entries.
const COMPLAINT_MAX: usize = 4_096;
/// Longest place, bytes.
const PLACE_MAX: usize = 512;

/// One thing to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// `FILE:LINE`, `environment NAME` or `--set KEY=VALUE`.
    pub(crate) place: String,
    /// Dotted path of the key; empty where no key is to blame.
    pub(crate) key: String,
    /// What is wrong and what to do.
    pub(crate) text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = match self.key.as_str() {
            "" => format!("{}: {}", self.place, self.text),
            key => format!("{}: {key}: {}", self.place, self.text),
        };
        // Whatever quoted what somebody wrote: no password, and one line.
        f.write_str(&sanitize_to(scrubbed(&told), COMPLAINT_MAX))
    }
}

/// Why a configuration is refused. Never empty.
#[derive(Debug)]
pub(crate) struct Report(Vec<Refusal>);

impl Report {
    /// A report of all `refusals`, in the order of [`in_order`], or none if there are none.
    ///
    /// # Errors
    /// There are some.
    pub(crate) fn unless_empty(refusals: Vec<Refusal>) -> Result<(), Self> {
        if refusals.is_empty() { Ok(()) } else { Err(Self(in_order(refusals))) }
    }
}

impl fmt::Display for Report {
    /// A line for each, so that editors and `grep` find file and line at its beginning.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = if self.0.len() == 1 { "error" } else { "errors" };
        write!(f, "the configuration has {} {errors}", self.0.len())?;
        self.0.iter().try_for_each(|refusal| write!(f, "\n{refusal}"))
    }
}

impl std::error::Error for Report {}

/// `refusals` by source, as the sources come, then by line.
pub(crate) fn in_order(mut refusals: Vec<Refusal>) -> Vec<Refusal> {
    let mut sources: Vec<String> = Vec::new();
    for refusal in &refusals {
        let (source, _) = parts(&refusal.place);
        if !sources.iter().any(|other| other == source) {
            sources.push(source.to_owned());
        }
    }
    refusals.sort_by_key(|refusal| {
        let (source, line) = parts(&refusal.place);
        (sources.iter().position(|other| other == source), line, refusal.key.clone())
    });
    refusals
}

/// Source and line of a place, `SOURCE:LINE` or `SOURCE:LINE:COLUMN`; line 0 if it has none.
fn parts(place: &str) -> (&str, usize) {
    let number = |place: &str| -> Option<(usize, usize)> {
        let (before, number) = place.rsplit_once(':')?;
        Some((before.len(), number.parse().ok()?))
    };
    let Some((end, last)) = number(place) else { return (place, 0) };
    match number(&place[..end]) {
        Some((end, line)) => (&place[..end], line),
        None => (&place[..end], last),
    }
}

/// `text` as one line: what an operator passes in may hold anything.
pub(crate) fn one_line(text: impl AsRef<[u8]>) -> String {
    sanitize_to(text, PLACE_MAX)
}

/// The beginning of `text`, enough to know it by.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}..", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_come_by_source_then_by_line() {
        // The names of files may end in digits as well.
        let places = ["b5:10", "--set a=1", "b5:9:3", "a.toml:2", "a.toml", "b5:1"];
        let refusal =
            |place: &str| Refusal { place: place.to_owned(), key: String::new(), text: String::new() };
        let ordered = in_order(places.map(refusal).to_vec());
        let ordered: Vec<_> = ordered.iter().map(|refusal| refusal.place.as_str()).collect();
        assert_eq!(ordered, ["b5:1", "b5:9:3", "b5:10", "--set a=1", "a.toml", "a.toml:2"]);
    }

    #[test]
    fn what_is_long_is_cut_and_what_is_several_lines_is_one() {
        assert_eq!(excerpt("short"), "short");
        assert_eq!(excerpt(&"\u{e9}".repeat(61)), format!("{}..", "\u{e9}".repeat(60)));
        assert_eq!(one_line("a\n\x1bb"), "a\\n\\u{1b}b");
    }
}
