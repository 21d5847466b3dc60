//! LeCroy oscilloscopes (CONTRACT IP22, IP23). `ZmqSubLecroyIngester`. Traces are gathered until their sequence ends: that is one item.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::{
    item::{Item, Parts},
    protocol::{
        json::Object,
        machine::{Recognise, Verdict, invalid, no_parts},
    },
};

const TYP: &str = "lecroy_9fwdWp6Rq7";
/// What may be gathered for one item, in bytes: a sequence that never ends must not fill the memory.
const GATHERED_MAX: usize = 1 << 30;
/// The same, in parts.
const PARTS_MAX: usize = 1 << 20;

/// Makes items of an oscilloscope's messages.
#[derive(Debug, Default)]
pub struct Lecroy {
    phase: Phase,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    WaitPrepare,
    /// Only a sequence start right behind it makes this a start.
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

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A scan will start.
    Prepare,
    /// A sequence starts.
    SequenceStart {
        /// There is one such message for all sequences.
        continuous: bool,
    },
    /// A sequence ends.
    SequenceEnd,
    /// The scan has ended.
    Stop,
    /// Traces of one channel.
    Traces,
}

/// What a message is by its first part; None if it is invalid.
pub fn classify(parts: &[Bytes]) -> Option<What> {
    let header = Object::parse(parts.first()?)?;
    header.int("frame")?;
    traces(&header).or_else(|| message(&header))
}

fn traces(header: &Object<'_>) -> Option<What> {
    header.string("htype").filter(|htype| htype == "traces")?;
    header.int("ch")?;
    header.float("ts")?;
    header.float("horiz_offset")?;
    header.float("horiz_interval")?;
    (header.has_ints("shape") && header.has_string("dtype")).then_some(What::Traces)
}

fn message(header: &Object<'_>) -> Option<What> {
    let says = |what| header.is_number("what", what);
    // The stop is told by its number alone.
    if says(3) {
        return header.int("frames").map(|_| What::Stop);
    }
    header.string("htype").filter(|htype| htype == "msg")?;
    if says(0) {
        Some(What::Prepare)
    } else if says(1) {
        header.int("seqno")?;
        let triggers = header.int("ntriggers")?;
        header.has_ints("channels").then_some(What::SequenceStart { continuous: triggers == -1 })
    } else {
        says(2).then_some(What::SequenceEnd)
    }
}

impl Recognise for Lecroy {
    fn feed(&mut self, message: Parts, out: &mut VecDeque<Item>) -> Verdict {
        if matches!(self.phase, Phase::Done) {
            return Verdict::Outside;
        }
        if message.is_empty() {
            return Verdict::Invalid(no_parts(TYP));
        }
        let what = classify(&message);
        match &mut self.phase {
            Phase::Running(series) => match what {
                None => Verdict::Invalid(invalid(TYP, &message)),
                Some(What::Stop) => {
                    out.push_back(item(message));
                    self.phase = Phase::Done;
                    Verdict::Taken
                }
                Some(what) => series.feed(what, message, out),
            },
            Phase::Prepared(prepare) => {
                if let Some(What::SequenceStart { continuous }) = what {
                    out.push_back(item(std::mem::take(prepare)));
                    self.phase =
                        Phase::Running(Running { bytes: size(&message), gathered: message, continuous });
                    return Verdict::Taken;
                }
                // Whatever else it is, a prepare too: it is gone with the one before it.
                self.phase = Phase::WaitPrepare;
                if what.is_some() { Verdict::Outside } else { Verdict::Invalid(invalid(TYP, &message)) }
            }
            Phase::WaitPrepare if what == Some(What::Prepare) => {
                self.phase = Phase::Prepared(message);
                Verdict::Taken
            }
            _ if what.is_some() => Verdict::Outside,
            _ => Verdict::Invalid(invalid(TYP, &message)),
        }
    }
}

impl Running {
    fn feed(&mut self, what: What, message: Parts, out: &mut VecDeque<Item>) -> Verdict {
        if matches!(what, What::Prepare | What::Stop) {
            return Verdict::Outside;
        }
        self.bytes += size(&message);
        self.gathered.extend(message);
        if what == What::SequenceEnd {
            // The one sequence start of continuous mode is the first part of every item.
            let kept = self.gathered.first().filter(|_| self.continuous).cloned().into_iter().collect();
            out.push_back(item(std::mem::replace(&mut self.gathered, kept)));
            self.bytes = size(&self.gathered);
        } else if self.bytes > GATHERED_MAX || self.gathered.len() > PARTS_MAX {
            self.gathered.truncate(usize::from(self.continuous));
            self.bytes = size(&self.gathered);
            return Verdict::Invalid(format!(
                "no sequence end within {GATHERED_MAX} bytes of traces: they are thrown away: check what the sender writes"
            ));
        }
        Verdict::Taken
    }
}

fn size(parts: &[Bytes]) -> usize {
    parts.iter().map(Bytes::len).sum()
}

fn item(frames: Parts) -> Item {
    Item { typ: TYP.into(), frames, number: None }
}
