//! Sources that number events themselves (CONTRACT IP38). A PUSH socket gives each message to one of
//! several ingesters, so none of them gets all messages of a series.

use std::{collections::VecDeque, fmt};

use bytes::Bytes;

use crate::{
    Classify, Kind,
    eiger_legacy::EigerLegacy,
    htype::Header,
    item::{Item, Parts},
    lax,
    machine::{Outcome, Recognise, invalid, invalid_for, no_parts},
    stins::{self, Stins},
    template::Template,
};

/// Numbering of the messages of one protocol.
pub trait Number: fmt::Debug {
    /// Type of the items, by which workers choose their parser.
    const TYP: &'static str;

    /// Kind of a message with at least one part, and the number of its event; None: it is no item.
    /// State may only make later calls faster.
    fn number(&mut self, parts: &[Bytes]) -> (Kind, Option<i128>);
}

/// STINS by `msg_number`. `StinsParallelIngester`.
#[derive(Debug, Default)]
pub struct StinsNumbers {
    last: Template,
}

impl Number for StinsNumbers {
    const TYP: &'static str = Stins::TYP;

    fn number(&mut self, parts: &[Bytes]) -> (Kind, Option<i128>) {
        let part = parts.first().map(Bytes::as_ref).unwrap_or_default();
        if let Some(number) = self.last.frame_of(part) {
            return (Kind::Data(None), Some(number));
        }
        let found =
            Header::read(part).and_then(|header| Some((stins::kind(&header)?, lax::int(header.msg_number?))));
        if let Some((Kind::Data(_), _)) = found {
            self.last.keep(part, "msg_number");
        }
        found.unwrap_or_else(|| (Kind::Invalid(invalid(Self::TYP, parts)), None))
    }
}

/// DECTRIS stream v1: the header is event 0, an image the one after its `frame`, the end none.
/// `Stream1ParallelIngester`.
#[derive(Debug, Default)]
pub struct EigerLegacyNumbers;

impl Number for EigerLegacyNumbers {
    const TYP: &'static str = EigerLegacy::TYP;

    fn number(&mut self, parts: &[Bytes]) -> (Kind, Option<i128>) {
        let kind = EigerLegacy.classify(parts);
        let number = match &kind {
            Kind::Start => Some(0),
            Kind::Data(frame) => frame.and_then(|frame| frame.checked_add(1)),
            _ => None,
        };
        (kind, number)
    }
}

/// Recogniser of one ingester's share of a series. It takes all messages up to an end, since the
/// start may go to another ingester.
#[derive(Debug, Default)]
pub struct Numbered<N> {
    numbering: N,
    has_item: bool,
    is_over: bool,
}

impl<N: Number> Recognise for Numbered<N> {
    fn feed(&mut self, message: Parts, out: &mut VecDeque<Item>) -> Outcome {
        if self.is_over {
            return Outcome::Outside;
        }
        if message.is_empty() {
            return Outcome::Invalid(no_parts(N::TYP));
        }
        let (kind, number) = self.numbering.number(&message);
        if let Kind::Invalid(reason) = kind {
            return Outcome::Invalid(reason);
        }
        let event = match number.map(u64::try_from) {
            Some(Ok(event)) => Some(event),
            None => None,
            Some(Err(_)) => {
                return Outcome::Invalid(invalid_for(N::TYP, "its number is no event's", &message));
            }
        };
        // A scan ends without waiting for a message that is no event, so it may come in the next scan.
        self.is_over = kind == Kind::End && (self.has_item || event.is_some());
        if event.is_none() {
            return Outcome::Ignored;
        }
        self.has_item = true;
        out.push_back(Item { typ: N::TYP.into(), frames: message, number: event });
        Outcome::Taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed<N: Number + Default>(texts: &[&str]) -> (Vec<Outcome>, Vec<Option<u64>>) {
        let (mut numbered, mut items) = (Numbered::<N>::default(), VecDeque::new());
        let message =
            |text: &str| [Bytes::from(text.to_owned()), Bytes::from_static(b".")].into_iter().collect();
        let outcomes = texts.iter().map(|text| numbered.feed(message(text), &mut items)).collect();
        (outcomes, items.iter().map(|item| item.number).collect())
    }

    #[test]
    fn stins_messages_have_the_event_of_their_number() {
        let image = |number: &str, frame: u64| {
            format!(
                r#"{{"htype":"image","frame":{frame},"shape":[2],"type":"u1","compression":"none","msg_number":{number}}}"#
            )
        };
        let texts = [
            image("2", 1),
            image("4", 3),
            image("14", 13),
            r#"{"htype":"header","filename":"","msg_number":0}"#.to_owned(),
            r#"{"htype":"header","filename":""}"#.to_owned(),
            image("-1", 0),
            image("340282366920938463463374607431768211455", 0),
            image("\"16\"", 15),
            r#"{"htype":"series_end","msg_number":17}"#.to_owned(),
            image("18", 0),
        ];
        let (outcomes, numbers) = feed::<StinsNumbers>(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(numbers, [2, 4, 14, 0, 16, 17].map(Some));
        let invalid: Vec<_> = outcomes.iter().map(|outcome| matches!(outcome, Outcome::Invalid(_))).collect();
        assert_eq!(invalid, [false, false, false, false, true, true, true, false, false, false]);
        assert_eq!(outcomes[9], Outcome::Outside);
        assert!(format!("{:?}", outcomes[5]).contains("its number is no event's"), "{outcomes:?}");
    }

    #[test]
    fn the_end_of_an_eigers_legacy_stream_is_no_event() {
        let image = r#"{"htype":"dimage-1.0","series":1,"frame":7}"#;
        let end = r#"{"htype":"dseries_end-1.0","series":1}"#;
        let (outcomes, numbers) =
            feed::<EigerLegacyNumbers>(&[end, image, r#"{"htype":"dheader-1.0","series":1}"#, end, image]);
        assert_eq!(numbers, [8, 0].map(Some));
        use Outcome::{Ignored, Outside, Taken};
        assert_eq!(outcomes, [Ignored, Taken, Taken, Ignored, Outside], "a late end ends nothing");
    }
}
