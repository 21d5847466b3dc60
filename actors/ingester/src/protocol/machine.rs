//! State machine of most protocols: wait for a start, pass items, stop at the end (CONTRACT IP11,
//! IP12).

use std::{collections::VecDeque, fmt};

use bytes::Bytes;
use orchestrator_supervise::sanitize_to;

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
    /// It is invalid and dropped, for this reason. Later frames go to earlier events.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    WaitStart,
    Running,
    Done,
}

/// State machine around a classifier.
#[derive(Debug)]
pub struct Machine<C> {
    classifier: C,
    phase: Phase,
    numbers: Numbers,
}

impl<C: Classify> Machine<C> {
    /// Waits for a start.
    pub fn new(classifier: C) -> Self {
        Self { classifier, phase: Phase::WaitStart, numbers: Numbers::default() }
    }

    fn take(&mut self, message: Parts, number: Option<u64>, out: &mut VecDeque<Item>) -> Outcome {
        out.push_back(Item { typ: C::TYP.into(), frames: message, number });
        Outcome::Taken
    }
}

impl<C: Classify> Recognise for Machine<C> {
    fn feed(&mut self, message: Parts, out: &mut VecDeque<Item>) -> Outcome {
        if self.phase == Phase::Done {
            return Outcome::Outside;
        }
        if message.is_empty() {
            return Outcome::Invalid(no_parts(C::TYP));
        }
        match (self.classifier.classify(&message), self.phase) {
            (Kind::Invalid(reason), _) => Outcome::Invalid(reason),
            (Kind::Nothing, _) => Outcome::Ignored,
            (Kind::Start, Phase::WaitStart) => {
                self.phase = Phase::Running;
                self.take(message, None, out)
            }
            (Kind::Data(number), Phase::Running) => {
                let number = self.numbers.relative(number);
                self.take(message, number, out)
            }
            (Kind::End, Phase::Running) => {
                self.phase = Phase::Done;
                self.take(message, None, out)
            }
            _ => Outcome::Outside,
        }
    }
}

/// Counter of a series' numbers from its first data item.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
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
pub(crate) fn invalid(typ: &str, parts: &[Bytes]) -> String {
    let part = parts.first().map(Bytes::as_ref).unwrap_or_default();
    let shown = excerpt(part);
    format!("invalid {typ} message: check what the sender writes: {} parts, part 0 = {shown}", parts.len())
}

/// Beginning of a source's text, escaped.
pub(crate) fn excerpt(text: impl AsRef<[u8]>) -> String {
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
