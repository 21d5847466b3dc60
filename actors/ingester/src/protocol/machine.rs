//! The state machine that most protocols share: wait for a start, pass items, stop at the end (CONTRACT IP11, IP12).

use std::{collections::VecDeque, fmt};

use bytes::Bytes;
use orchestrator_supervise::sanitize_to;

use crate::item::{Item, Parts};

/// Longest part of a message that a reason shows, bytes of the message.
const EXCERPT: usize = 120;
/// The same when each of them is escaped.
const EXCERPT_ESCAPED: usize = 10 * EXCERPT;

/// Makes items of messages. It holds one series and outlives connections; a new run gets a new one.
pub trait Recognise: fmt::Debug {
    /// Takes one message and appends its items to `out`. Never panics, whatever the message is.
    fn feed(&mut self, message: Parts, out: &mut VecDeque<Item>) -> Verdict;
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is an item, several, or a part of one that is still gathered.
    Taken,
    /// It is valid and thrown away: before the start, after the end, a start within a series.
    Outside,
    /// It is none of the series by its protocol, e.g. a heartbeat.
    Ignored,
    /// It is thrown away as invalid, with the reason. Later frames shift against events.
    Invalid(String),
}

/// What a message is by itself, wherever it comes in the series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Starts a series.
    Start,
    /// One item, with the number that its source gave it.
    Data(Option<i128>),
    /// Ends the series.
    End,
    /// Valid, and never an item.
    Nothing,
    /// Not of this protocol; says why.
    Invalid(String),
}

/// Tells what a message is.
pub trait Classify: fmt::Debug {
    /// The type of the items, as workers' parsers know it.
    const TYP: &'static str;

    /// Looks at a message that has at least one part. What it keeps of one may make the next one cheaper, and no more than that.
    fn classify(&mut self, parts: &[Bytes]) -> Kind;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    WaitStart,
    Running,
    Done,
}

/// The common machine around a classifier.
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

    fn take(&mut self, message: Parts, number: Option<u64>, out: &mut VecDeque<Item>) -> Verdict {
        out.push_back(Item { typ: C::TYP.into(), frames: message, number });
        Verdict::Taken
    }
}

impl<C: Classify> Recognise for Machine<C> {
    fn feed(&mut self, message: Parts, out: &mut VecDeque<Item>) -> Verdict {
        if self.phase == Phase::Done {
            return Verdict::Outside;
        }
        if message.is_empty() {
            return Verdict::Invalid(no_parts(C::TYP));
        }
        match (self.classifier.classify(&message), self.phase) {
            (Kind::Invalid(reason), _) => Verdict::Invalid(reason),
            (Kind::Nothing, _) => Verdict::Ignored,
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
            _ => Verdict::Outside,
        }
    }
}

/// Counts a series' numbers from its first data item.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    first: Option<i128>,
}

impl Numbers {
    /// `number` counted from 0. One before the first is 0: that it goes backwards is what gap checking tells of it.
    pub(crate) fn relative(&mut self, number: Option<i128>) -> Option<u64> {
        let number = number?;
        let first = *self.first.get_or_insert(number);
        Some(u64::try_from(number.saturating_sub(first).max(0)).unwrap_or(u64::MAX))
    }
}

/// The reason of a message that is none of `typ`, with the begin of its first part.
pub(crate) fn invalid(typ: &str, parts: &[Bytes]) -> String {
    let part = parts.first().map(Bytes::as_ref).unwrap_or_default();
    let shown = excerpt(part);
    format!("no valid {typ} message: check what the sender writes: {} parts, part 0 = {shown}", parts.len())
}

/// The begin of a source's text, escaped.
pub(crate) fn excerpt(text: impl AsRef<[u8]>) -> String {
    let text = text.as_ref();
    // Cut first: it may be as long as a frame.
    let shown = sanitize_to(&text[..text.len().min(EXCERPT)], EXCERPT_ESCAPED);
    let more = if text.len() > EXCERPT { ".." } else { "" };
    shown + more
}

pub(crate) fn no_parts(typ: &str) -> String {
    format!("no valid {typ} message: it has no parts: check what the sender writes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_from_the_first() {
        let mut numbers = Numbers::default();
        let given = [Some(7), Some(8), None, Some(3), Some(i128::MAX), Some(i128::MIN)];
        let told = given.map(|number| numbers.relative(number));
        assert_eq!(told, [Some(0), Some(1), None, Some(0), Some(u64::MAX), Some(0)]);
    }
}
