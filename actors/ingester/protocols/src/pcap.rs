//! PandABox data over ZeroMQ (CONTRACT IP20). `ZmqSubPCAPIngester`. One message has lists with one
//! element for each trigger and is split into one item for each.

use std::collections::VecDeque;

use bytes::Bytes;
use smallvec::smallvec;

use crate::{
    compact, datetime,
    item::{Item, Parts},
    json::{Elements, Object},
    machine::{Kind, Numbers, Outcome, Recognise, invalid, no_parts},
};

const TYP: &str = "PCAP";
/// Most bytes in memory of all items of one message, without the elements of its lists. Scalars are
/// repeated in each item.
const SPLIT_MAX: usize = 1 << 30;
/// Memory of an item beside its members, bytes: the item, its declared fields, and allocations.
const ITEM_BYTES: usize = 256;
/// Fields declared by the original, which come first.
const DECLARED: [&str; 4] = ["message_id", "version", "message_type", "frame_number"];

/// Recogniser of a PandABox's messages.
#[derive(Debug, Default)]
pub struct Pcap {
    phase: PcapPhase,
    numbers: Numbers,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum PcapPhase {
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
        if self.phase == PcapPhase::Done {
            return Outcome::Outside;
        }
        if message.is_empty() {
            return Outcome::Invalid(no_parts(TYP));
        }
        match (classify(&message), &self.phase) {
            (Kind::Invalid(reason), _) => return Outcome::Invalid(reason),
            (Kind::Start, PcapPhase::WaitStart) => self.phase = PcapPhase::Running,
            (Kind::End, PcapPhase::Running) => self.phase = PcapPhase::Done,
            (Kind::Data(_), PcapPhase::Running) => return self.split(&message, out),
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
    /// A value as written in each item.
    Scalar(String),
    List(Elements<'a>),
}

impl<'a> Split<'a> {
    fn of(part: &'a [u8]) -> Result<Self, String> {
        let missing = || "a PCAP message has lost its fields: report this bug".to_owned();
        let header = Object::parse(part).ok_or_else(missing)?;
        let message_id = header.int(DECLARED[0]).ok_or_else(missing)?;
        let frame_number = header.int(DECLARED[3]).ok_or_else(missing)?;
        let (mut count, mut item_bytes, mut extras) = (None, ITEM_BYTES, Vec::new());
        for (name, raw) in compact::unique(header.members()) {
            if DECLARED.contains(&name.as_ref()) {
                continue;
            }
            item_bytes += name.len() + 4;
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
                    let mut scalar = String::new();
                    compact::value(raw, &mut scalar);
                    item_bytes += scalar.len();
                    (name, Extra::Scalar(scalar))
                }
            });
        }
        let count = count
            .ok_or_else(|| format!("PCAP message {message_id} has no list: check what the sender writes"))?;
        if count.saturating_mul(item_bytes) > SPLIT_MAX {
            return Err(format!(
                "PCAP message {message_id} would grow beyond {SPLIT_MAX} bytes: send fewer scalars, or lists shorter than {count}"
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
                    Extra::Scalar(scalar) => text.push_str(scalar),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn data(count: usize, scalar: &str) -> String {
        let list = vec!["1"; count].join(",");
        format!(
            r#"{{"message_id":1,"version":1,"message_type":"data","frame_number":0,"x":[{list}],"y":{scalar}}}"#
        )
    }

    /// Each element takes two bytes of the message, and an item of some hundred bytes in memory.
    #[test]
    fn a_message_of_many_short_elements_is_refused() {
        assert!(Split::of(data(1_000_000, "7").as_bytes()).is_ok());
        let reason = Split::of(data(5_000_000, "7").as_bytes()).err().expect("more than 1 GiB");
        assert!(reason.contains("would grow beyond"), "{reason}");
    }

    /// `1e15` is written with all its digits in each item.
    #[test]
    fn scalars_count_as_they_are_written() {
        let scalar = |count| format!(r#"{{"z":[{}]}}"#, vec!["1e15"; count].join(","));
        assert!(Split::of(data(1_000, &scalar(20_000)).as_bytes()).is_ok());
        assert!(Split::of(data(1_000, &scalar(80_000)).as_bytes()).is_err());
    }
}
