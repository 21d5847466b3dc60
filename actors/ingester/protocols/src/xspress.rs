//! Xspress3 (CONTRACT IP18). `ZmqSubXspressIngester`. An image is one message of three parts, or,
//! in the old form, three messages whose parts become one item.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::{
    htype::{Header, is_string},
    item::{Item, Parts},
    json::Raw,
    lax,
    machine::{Kind, Numbers, Outcome, Recognise, invalid, no_parts},
};

const TYP: &str = "xspress";
/// Messages that follow the header of an image in the old form: data and metadata.
const FOLLOWING: u8 = 2;

/// Recogniser of an Xspress3's messages.
#[derive(Debug, Default)]
pub struct Xspress {
    phase: XspressPhase,
    numbers: Numbers,
}

#[derive(Debug, Default)]
enum XspressPhase {
    #[default]
    WaitStart,
    Running,
    /// Inside an image of the old form: its parts so far, its number, and the count of missing
    /// messages.
    Gathering {
        parts: Parts,
        number: Option<u64>,
        missing: u8,
    },
    Done,
}

/// Kind of a message by its first part, independent of its position.
pub fn classify(parts: &[Bytes]) -> Kind {
    let kind = parts.first().and_then(|part| Header::read(part)).and_then(|header| kind(&header));
    kind.unwrap_or_else(|| Kind::Invalid(invalid(TYP, parts)))
}

fn kind(header: &Header<'_>) -> Option<Kind> {
    let null_or = |field: Option<Raw<'_>>, check: fn(Raw<'_>) -> bool| {
        field.is_none_or(|raw| raw.text() == "null" || check(raw))
    };
    header.kind(|image| {
        null_or(image.exptime, |raw| lax::float(raw).is_some()) && null_or(image.compression, is_string)
    })
}

impl Xspress {
    fn running(&mut self, message: Parts, out: &mut VecDeque<Item>) -> Outcome {
        let item = |frames, number| Item { typ: TYP.into(), frames, number };
        match classify(&message) {
            Kind::Data(number) => {
                let number = self.numbers.relative(number);
                if message.len() == 3 {
                    out.push_back(item(message, number));
                } else {
                    self.phase = XspressPhase::Gathering { parts: message, number, missing: FOLLOWING };
                }
                Outcome::Taken
            }
            Kind::End => {
                self.phase = XspressPhase::Done;
                out.push_back(item(message, None));
                Outcome::Taken
            }
            Kind::Start | Kind::Nothing => Outcome::Outside,
            Kind::Invalid(reason) => Outcome::Invalid(reason),
        }
    }

    fn waiting(&mut self, message: Parts, out: &mut VecDeque<Item>) -> Outcome {
        match classify(&message) {
            // A start has one part; images before it may have several.
            Kind::Start if message.len() == 1 => {
                self.phase = XspressPhase::Running;
                out.push_back(Item { typ: TYP.into(), frames: message, number: None });
                Outcome::Taken
            }
            Kind::Start => Outcome::Invalid(format!(
                "a start of {} parts: an xspress start has one: check what the sender writes",
                message.len()
            )),
            Kind::Invalid(reason) if message.len() == 1 => Outcome::Invalid(reason),
            _ => Outcome::Outside,
        }
    }
}

impl Recognise for Xspress {
    fn feed(&mut self, message: Parts, out: &mut VecDeque<Item>) -> Outcome {
        if message.is_empty() && !matches!(self.phase, XspressPhase::Done) {
            return Outcome::Invalid(no_parts(TYP));
        }
        match &mut self.phase {
            XspressPhase::WaitStart => self.waiting(message, out),
            XspressPhase::Running => self.running(message, out),
            XspressPhase::Gathering { parts, number, missing } => {
                parts.extend(message);
                *missing -= 1;
                if *missing == 0 {
                    let (frames, number) = (std::mem::take(parts), *number);
                    out.push_back(Item { typ: TYP.into(), frames, number });
                    self.phase = XspressPhase::Running;
                }
                Outcome::Taken
            }
            XspressPhase::Done => Outcome::Outside,
        }
    }
}
