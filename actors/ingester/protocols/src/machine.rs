//! State machine of most protocols: wait for a start, pass items, stop at the end (CONTRACT IP11,
//! IP12).

use std::{collections::VecDeque, fmt};

use bytes::Bytes;
use orchestrator_text::sanitize_to;

use crate::item::{Item, Parts};

/// Most bytes of a message shown in a reason.
const EXCERPT: usize = 120;
/// Longest excerpt after escaping, bytes.
const EXCERPT_ESCAPED: usize = 10 * EXCERPT;

/// Recogniser of one run's messages. It outlives connections.
pub trait Recognise: fmt::Debug {
    /// Processes one message and appends its items to `out`. Never panics, whatever the message is.
    fn feed(&mut self, message: Parts, out: &mut VecDeque<Item>) -> Outcome;
}

/// Outcome of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It became one or several items, or part of an item.
    Taken,
    /// It is valid but dropped: before the start, after the end, or a repeated start.
    Outside,
    /// Its protocol never makes it an item, e.g. a heartbeat.
    Ignored,
    /// It is invalid and dropped, for this reason. Within a series, later frames go to earlier events.
    Invalid(String),
}

/// Kind of a message, independent of its position in the series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Start of a series.
    Start,
    /// One item, with the number given by the source.
    Data(Option<i128>),
    /// End of the series.
    End,
    /// Valid, but never an item.
    Nothing,
    /// Invalid, for this reason.
    Invalid(String),
}

/// Classifier of messages.
pub trait Classify: fmt::Debug {
    /// Type of the items, by which workers choose their parser.
    const TYP: &'static str;

    /// Classifies a message with at least one part. State may only make later calls faster.
    fn classify(&mut self, parts: &[Bytes]) -> Kind;
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SeriesPhase {
    #[default]
    WaitStart,
    Running,
    Done,
}

/// State machine around a classifier.
#[derive(Debug)]
pub struct Machine<C> {
    classifier: C,
    series: Series,
}

impl<C: Classify> Machine<C> {
    /// Waits for a start.
    pub fn new(classifier: C) -> Self {
        Self { classifier, series: Series::default() }
    }
}

impl<C: Classify> Recognise for Machine<C> {
    fn feed(&mut self, message: Parts, out: &mut VecDeque<Item>) -> Outcome {
        if self.series.is_over() {
            return Outcome::Outside;
        }
        if message.is_empty() {
            return Outcome::Invalid(no_parts(C::TYP));
        }
        let kind = self.classifier.classify(&message);
        self.series.step(kind, C::TYP, message, out)
    }
}

/// Progress of one series.
#[derive(Debug, Default)]
pub(crate) struct Series {
    phase: SeriesPhase,
    numbers: Numbers,
}

impl Series {
    pub(crate) fn is_over(&self) -> bool {
        self.phase == SeriesPhase::Done
    }

    /// Takes a message of `kind` and appends it to `out` if it is an item of type `typ`.
    pub(crate) fn step(
        &mut self,
        kind: Kind,
        typ: &'static str,
        message: Parts,
        out: &mut VecDeque<Item>,
    ) -> Outcome {
        let number = match (kind, self.phase) {
            (Kind::Invalid(reason), _) => return Outcome::Invalid(reason),
            (Kind::Nothing, _) => return Outcome::Ignored,
            (Kind::Start, SeriesPhase::WaitStart) => {
                self.phase = SeriesPhase::Running;
                None
            }
            (Kind::Data(number), SeriesPhase::Running) => self.numbers.relative(number),
            (Kind::End, SeriesPhase::Running) => {
                self.phase = SeriesPhase::Done;
                None
            }
            _ => return Outcome::Outside,
        };
        out.push_back(Item { typ: typ.into(), frames: message, number });
        Outcome::Taken
    }
}

/// Counter of a series' numbers from its first data item.
#[derive(Debug, Default)]
pub struct Numbers {
    first: Option<i128>,
}

impl Numbers {
    /// `number` relative to the first one. A smaller number is 0, which gap detection reports.
    pub(crate) fn relative(&mut self, number: Option<i128>) -> Option<u64> {
        let number = number?;
        let first = *self.first.get_or_insert(number);
        Some(u64::try_from(number.saturating_sub(first).max(0)).unwrap_or(u64::MAX))
    }
}

/// Reason for an invalid message of type `typ`, with the beginning of its first part.
pub fn invalid(typ: &str, parts: &[Bytes]) -> String {
    let part = parts.first().map(Bytes::as_ref).unwrap_or_default();
    let shown = excerpt(part);
    format!("invalid {typ} message: check what the sender writes: {} parts, part 0 = {shown}", parts.len())
}

/// Like [`invalid`], with what is wrong.
pub(crate) fn invalid_for(typ: &str, reason: &str, parts: &[Bytes]) -> String {
    invalid(typ, parts).replacen(" message: ", &format!(" message: {reason}: "), 1)
}

/// Beginning of a source's text, escaped.
pub fn excerpt(text: impl AsRef<[u8]>) -> String {
    let text = text.as_ref();
    // Cut before escaping, since the text may be as long as a frame.
    let shown = sanitize_to(&text[..text.len().min(EXCERPT)], EXCERPT_ESCAPED);
    let more = if text.len() > EXCERPT { ".." } else { "" };
    shown + more
}

pub(crate) fn no_parts(typ: &str) -> String {
    format!("invalid {typ} message: it has no parts: check what the sender writes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_from_the_first() {
        let mut numbers = Numbers::default();
        let given = [Some(7), Some(8), None, Some(3), Some(i128::MAX), Some(i128::MIN)];
        let found = given.map(|number| numbers.relative(number));
        assert_eq!(found, [Some(0), Some(1), None, Some(0), Some(u64::MAX), Some(0)]);
    }
}
