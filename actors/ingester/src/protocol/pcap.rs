//! PandABox data over ZeroMQ (CONTRACT IP20). `ZmqSubPCAPIngester`. One message has lists with one
//! element for each trigger and is split into one item for each.

use std::collections::VecDeque;

use bytes::Bytes;
use smallvec::smallvec;

use crate::{
    item::{Item, Parts},
    protocol::{
        compact, datetime,
        json::{Elements, Object, Raw},
        machine::{Kind, Numbers, Outcome, Recognise, invalid, no_parts},
    },
};

const TYP: &str = "PCAP";
/// Most bytes of all items of one message without their lists; scalars are repeated in each item.
const SPLIT_MAX: usize = 1 << 30;
/// Fields declared by the original, which come first.
const DECLARED: [&str; 4] = ["message_id", "version", "message_type", "frame_number"];

/// Recogniser of a PandABox's messages.
#[derive(Debug, Default)]
pub struct Pcap {
    phase: Phase,
    numbers: Numbers,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    WaitStart,
    Running,
    Done,
}

/// Kind of a message by its first part. It does not check that the message can be split.
pub fn classify(parts: &[Bytes]) -> Kind {
    let kind = parts.first().and_then(|part| Object::parse(part)).and_then(|header| kind(&header));
    kind.unwrap_or_else(|| Kind::Invalid(invalid(TYP, parts)))
}

fn kind(header: &Object<'_>) -> Option<Kind> {
    header.int("message_id")?;
    if !header.is_number("version", 1) {
        return None;
    }
    match header.string("message_type")?.as_ref() {
        "data" => header.int("frame_number").map(|number| Kind::Data(Some(number))),
        "series-start" => datetime::is_datetime(header.get("arm_time")?).then_some(Kind::Start),
        "series-end" => Some(Kind::End),
        _ => None,
    }
}

impl Recognise for Pcap {
    fn feed(&mut self, message: Parts, out: &mut VecDeque<Item>) -> Outcome {
        if self.phase == Phase::Done {
            return Outcome::Outside;
        }
        if message.is_empty() {
            return Outcome::Invalid(no_parts(TYP));
        }
        match (classify(&message), &self.phase) {
            (Kind::Invalid(reason), _) => return Outcome::Invalid(reason),
            (Kind::Start, Phase::WaitStart) => self.phase = Phase::Running,
            (Kind::End, Phase::Running) => self.phase = Phase::Done,
            (Kind::Data(_), Phase::Running) => return self.split(&message, out),
            _ => return Outcome::Outside,
        }
        out.push_back(Item { typ: TYP.into(), frames: message, number: None });
        Outcome::Taken
    }
}

impl Pcap {
    fn split(&mut self, message: &[Bytes], out: &mut VecDeque<Item>) -> Outcome {
        if message.len() != 1 {
            let parts = message.len();
            return Outcome::Invalid(format!(
                "data of {parts} parts: a PCAP message has one: check what the sender writes"
            ));
        }
        match Split::of(&message[0]) {
            Ok(split) => {
                split.items(&mut self.numbers, out);
                Outcome::Taken
            }
            Err(reason) => Outcome::Invalid(reason),
        }
    }
}

/// One message, ready to be split.
struct Split<'a> {
    message_id: i128,
    frame_number: i128,
    count: usize,
    extras: Vec<(std::borrow::Cow<'a, str>, Extra<'a>)>,
}

enum Extra<'a> {
    Scalar(Raw<'a>),
    List(Elements<'a>),
}

impl<'a> Split<'a> {
    fn of(part: &'a [u8]) -> Result<Self, String> {
        let missing = || "a PCAP message has lost its fields: report this bug".to_owned();
        let header = Object::parse(part).ok_or_else(missing)?;
        let message_id = header.int(DECLARED[0]).ok_or_else(missing)?;
        let frame_number = header.int(DECLARED[3]).ok_or_else(missing)?;
        let (mut count, mut scalars, mut extras) = (None, 0, Vec::new());
        for (name, raw) in compact::unique(header.members()) {
            if DECLARED.contains(&name.as_ref()) {
                continue;
            }
            scalars += name.len() + 4;
            extras.push(match raw.elements() {
                Some(elements) => {
                    let length = elements.clone().count();
                    if *count.get_or_insert(length) != length {
                        return Err(format!(
                            "the lists of PCAP message {message_id} differ in length ({name} has {length}): \
                             check what the sender writes"
                        ));
                    }
                    (name, Extra::List(elements))
                }
                None => {
                    scalars += raw.text().len();
                    (name, Extra::Scalar(raw))
                }
            });
        }
        let count = count
            .ok_or_else(|| format!("PCAP message {message_id} has no list: check what the sender writes"))?;
        if count.saturating_mul(scalars) > SPLIT_MAX {
            return Err(format!(
                "PCAP message {message_id} would grow beyond {SPLIT_MAX} bytes: send fewer scalars with lists of {count}"
            ));
        }
        Ok(Self { message_id, frame_number, count, extras })
    }

    fn items(mut self, numbers: &mut Numbers, out: &mut VecDeque<Item>) {
        for at in 0..self.count {
            let number = self.frame_number.saturating_add(at as i128);
            let mut text = format!(
                r#"{{"message_id":{},"version":1,"message_type":"data","frame_number":{number}"#,
                self.message_id
            );
            for (name, extra) in &mut self.extras {
                compact::key(name, &mut text);
                match extra {
                    Extra::Scalar(raw) => compact::value(*raw, &mut text),
                    Extra::List(elements) => {
                        if let Some(raw) = elements.next() {
                            compact::value(raw, &mut text);
                        }
                    }
                }
            }
            text.push('}');
            let number = numbers.relative(Some(number));
            out.push_back(Item { typ: TYP.into(), frames: smallvec![Bytes::from(text)], number });
        }
    }
}
