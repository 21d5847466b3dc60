//! LeCroy oscilloscopes (CONTRACT IP22, IP23). `ZmqSubLecroyIngester`. All traces of a sequence
//! become one item.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::{
    item::{Item, Parts},
    json::Object,
    machine::{Outcome, Recognise, invalid, no_parts},
};

const TYP: &str = "lecroy_9fwdWp6Rq7";
/// Most bytes gathered for one item, in case a sequence never ends.
const GATHERED_MAX: usize = 1 << 30;
/// Most parts gathered for one item.
const PARTS_MAX: usize = 1 << 20;

/// Recogniser of an oscilloscope's messages.
#[derive(Debug, Default)]
pub struct Lecroy {
    phase: LecroyPhase,
}

#[derive(Debug, Default)]
enum LecroyPhase {
    #[default]
    WaitPrepare,
    /// A prepare, which is a start only if a sequence start follows directly.
    Prepared(Parts),
    Running(Running),
    Done,
}

#[derive(Debug)]
struct Running {
    gathered: Parts,
    bytes: usize,
    continuous: bool,
}

/// Kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// A scan is prepared.
    Prepare,
    /// A sequence starts.
    SequenceStart {
        /// One sequence start for all sequences.
        continuous: bool,
    },
    /// A sequence ends.
    SequenceEnd,
    /// The scan has ended.
    Stop,
    /// Traces of one channel.
    Traces,
}

/// Kind of a message by its first part; None if it is invalid.
pub fn classify(parts: &[Bytes]) -> Option<MessageKind> {
    let header = Object::parse(parts.first()?)?;
    header.int("frame")?;
    traces(&header).or_else(|| message(&header))
}

fn traces(header: &Object<'_>) -> Option<MessageKind> {
    header.string("htype").filter(|htype| htype == "traces")?;
    header.int("ch")?;
    header.float("ts")?;
    header.float("horiz_offset")?;
    header.float("horiz_interval")?;
    (header.has_ints("shape") && header.has_string("dtype")).then_some(MessageKind::Traces)
}

fn message(header: &Object<'_>) -> Option<MessageKind> {
    let says = |what| header.is_number("what", what);
    // The stop has no `htype`.
    if says(3) {
        return header.int("frames").map(|_| MessageKind::Stop);
    }
    header.string("htype").filter(|htype| htype == "msg")?;
    if says(0) {
        Some(MessageKind::Prepare)
    } else if says(1) {
        header.int("seqno")?;
        let triggers = header.int("ntriggers")?;
        header.has_ints("channels").then_some(MessageKind::SequenceStart { continuous: triggers == -1 })
    } else {
        says(2).then_some(MessageKind::SequenceEnd)
    }
}

impl Recognise for Lecroy {
    fn feed(&mut self, message: Parts, out: &mut VecDeque<Item>) -> Outcome {
        if matches!(self.phase, LecroyPhase::Done) {
            return Outcome::Outside;
        }
        if message.is_empty() {
            return Outcome::Invalid(no_parts(TYP));
        }
        let what = classify(&message);
        match &mut self.phase {
            LecroyPhase::Running(series) => match what {
                None => Outcome::Invalid(invalid(TYP, &message)),
                Some(MessageKind::Stop) => {
                    out.push_back(item(message));
                    self.phase = LecroyPhase::Done;
                    Outcome::Taken
                }
                Some(what) => series.feed(what, message, out),
            },
            LecroyPhase::Prepared(prepare) => {
                if let Some(MessageKind::SequenceStart { continuous }) = what {
                    out.push_back(item(std::mem::take(prepare)));
                    self.phase = LecroyPhase::Running(Running {
                        bytes: size(&message),
                        gathered: message,
                        continuous,
                    });
                    return Outcome::Taken;
                }
                // Any other message, including another prepare, discards the pending one.
                self.phase = LecroyPhase::WaitPrepare;
                if what.is_some() { Outcome::Outside } else { Outcome::Invalid(invalid(TYP, &message)) }
            }
            LecroyPhase::WaitPrepare if what == Some(MessageKind::Prepare) => {
                self.phase = LecroyPhase::Prepared(message);
                Outcome::Taken
            }
            _ if what.is_some() => Outcome::Outside,
            _ => Outcome::Invalid(invalid(TYP, &message)),
        }
    }
}

impl Running {
    fn feed(&mut self, what: MessageKind, message: Parts, out: &mut VecDeque<Item>) -> Outcome {
        if matches!(what, MessageKind::Prepare | MessageKind::Stop) {
            return Outcome::Outside;
        }
        self.bytes += size(&message);
        self.gathered.extend(message);
        if what == MessageKind::SequenceEnd {
            // In continuous mode the sequence start is the first part of every item.
            let kept = self.gathered.first().filter(|_| self.continuous).cloned().into_iter().collect();
            out.push_back(item(std::mem::replace(&mut self.gathered, kept)));
            self.bytes = size(&self.gathered);
        } else if self.bytes > GATHERED_MAX || self.gathered.len() > PARTS_MAX {
            self.gathered.truncate(usize::from(self.continuous));
            self.bytes = size(&self.gathered);
            return Outcome::Invalid(format!(
                "no sequence end within {GATHERED_MAX} bytes of traces, which are dropped: check what the sender writes"
            ));
        }
        Outcome::Taken
    }
}

fn size(parts: &[Bytes]) -> usize {
    parts.iter().map(Bytes::len).sum()
}

fn item(frames: Parts) -> Item {
    Item { typ: TYP.into(), frames, number: None }
}
