//! The header of a series' last image, to know the next one by. The images of a series say the same of themselves but for their
//! numbers; a header that differs from the last one in the digits of whole numbers alone is the same kind of message, and that is
//! seen several times faster than its text is read.

use std::ops::Range;

use crate::protocol::json::{Raw, each_member};

/// Longer headers are read each time, bytes.
const TEXT_MAX: usize = 4 * 1024;
/// Digits that fit 64 bits for certain.
const DIGITS_MAX: usize = 18;

/// Must be the same.
const SAME: u8 = 0;
/// May be another digit.
const DIGIT: u8 = 1;
/// May be another digit but 0, which no number of several digits begins with.
const LEADING: u8 = 2;

/// A header, and which of its bytes may be others.
#[derive(Debug, Default)]
pub(crate) struct Template {
    text: Vec<u8>,
    rules: Vec<u8>,
    /// Where its frame's number is; empty: nothing is kept.
    frame: Range<usize>,
}

impl Template {
    /// The frame's number of a header that differs from the kept one in whole numbers only.
    pub(crate) fn frame_of(&self, part: &[u8]) -> Option<i128> {
        if self.frame.is_empty() || part.len() != self.text.len() {
            return None;
        }
        // Without a branch, so that many bytes are compared at once.
        let differs = self.text.iter().zip(&self.rules).zip(part).fold(0, |differs, ((kept, rule), byte)| {
            let digit = u8::from(byte.is_ascii_digit());
            let zero_leads = u8::from(*rule == LEADING) & u8::from(*byte == b'0');
            let allowed = digit & u8::from(*rule != SAME) & !zero_leads;
            differs | ((u8::from(kept == byte) | allowed) ^ 1)
        });
        if differs != 0 {
            return None;
        }
        let digits = part[self.frame.clone()].iter();
        Some(digits.fold(0_i64, |number, digit| number * 10 + i64::from(digit - b'0')).into())
    }

    /// Keeps an image's header whose frame number is the member `name`. Not kept is one whose number is not plain.
    pub(crate) fn keep(&mut self, part: &[u8], name: &str) {
        self.frame = 0..0;
        if part.len() > TEXT_MAX {
            return;
        }
        self.text.clear();
        self.text.extend_from_slice(part);
        self.rules.clear();
        self.rules.resize(part.len(), SAME);
        let (rules, frame) = (&mut self.rules, &mut self.frame);
        let _ = each_member(part, |key, value| {
            let named = key.string().is_some_and(|key| key == name);
            if named {
                // Of repeated ones the last counts.
                *frame = 0..0;
            }
            let Some(range) = plain(part, value) else { return };
            rules[range.clone()].fill(DIGIT);
            if range.len() > 1 {
                rules[range.start] = LEADING;
            }
            if named && range.len() <= DIGITS_MAX {
                *frame = range;
            }
        });
    }
}

/// Where `value` is in `part`, if it is digits alone.
fn plain(part: &[u8], value: Raw<'_>) -> Option<Range<usize>> {
    let text = value.text().as_bytes();
    let start = text.as_ptr().addr().checked_sub(part.as_ptr().addr())?;
    text.iter().all(u8::is_ascii_digit).then(|| start..start + text.len())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::{Classify, stins::Stins};

    fn member() -> impl Strategy<Value = String> {
        let number = prop_oneof!["[1-9][0-9]{0,12}", "0", "-[1-9]", "[0-9]\\.[0-9]{1,3}", "[1-9]e[0-9]"];
        let name = prop_oneof!["frame", "msg_number", "timestamp", "fr\\\\u0061me"];
        prop_oneof![
            4 => (name, number).prop_map(|(name, number)| format!("\"{name}\": {number}")),
            1 => Just("\"nested\":{\"frame\":12}".to_owned()),
            1 => Just("\"text\":\"frame 12\"".to_owned()),
            1 => Just("\"htype\":\"image\"".to_owned()),
        ]
    }

    fn header() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(member(), 0..6).prop_map(|members| {
            let fixed = r#""shape":[10,20],"type":"uint8","compression":"none","frame":10,"msg_number":11"#;
            format!("{{{fixed},{}}}", members.join(",")).replace(",}", "}").into_bytes()
        })
    }

    proptest! {
        /// Whatever becomes of the digits, or of any byte, of a header that was kept: it is read as by one that keeps nothing.
        #[test]
        fn what_is_known_again_is_what_would_have_been_read(
            header in header(),
            digits in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(b'0'), b'0'..=b'9']), 1..9),
            other in prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let mut keeping = Stins::default();
            keeping.classify(&[Bytes::from(header.clone())]);
            let places: Vec<usize> = (0..header.len()).filter(|at| header[*at].is_ascii_digit()).collect();
            let mut changed = header.clone();
            digits.iter().for_each(|(at, digit)| changed[*at.get(&places)] = *digit);
            if let Some((at, byte)) = other {
                changed[at.index(header.len())] = byte;
            }
            let parts = [Bytes::from(changed)];
            prop_assert_eq!(keeping.classify(&parts), Stins::default().classify(&parts));
        }
    }

    #[test]
    fn a_series_is_known_by_its_first_image() {
        let image =
            |frame: u32, at: u32| format!(r#"{{"frame":{frame},"htype":"image","x":{at}.5,"t":{at}}}"#);
        let mut template = Template::default();
        template.keep(image(10, 3).as_bytes(), "frame");
        assert_eq!(template.frame_of(image(99, 3).as_bytes()), Some(99));
        assert_eq!(template.frame_of(image(100, 3).as_bytes()), None, "it is longer");
        assert_eq!(template.frame_of(image(11, 4).as_bytes()), None, "a float is another one");
        assert_eq!(
            template.frame_of(image(11, 3).replace(":11", ":01").as_bytes()),
            None,
            "that is no number"
        );
        template.keep(br#"{"frame":"10"}"#, "frame");
        assert_eq!(template.frame_of(br#"{"frame":"10"}"#), None);
    }
}
