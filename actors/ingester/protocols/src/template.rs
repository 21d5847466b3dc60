//! Header of a series' last image as a template for the next. Headers within a series usually
//! differ only in the digits of whole numbers, and comparing them is several times faster than
//! parsing.

use std::ops::Range;

use crate::json::{Raw, each_member};

/// Longest header kept as a template, bytes.
const TEXT_MAX: usize = 4 * 1024;
/// Digits that always fit 64 bits.
const DIGITS_MAX: usize = 18;

/// The byte must be equal.
const SAME: u8 = 0;
/// The byte may be any digit.
const DIGIT: u8 = 1;
/// The byte may be any digit but 0: the first of several.
const LEADING: u8 = 2;

/// A header, and a rule for each byte.
#[derive(Debug, Default)]
pub(crate) struct Template {
    text: Vec<u8>,
    rules: Vec<u8>,
    /// Range of the frame number; empty: no template.
    frame: Range<usize>,
}

impl Template {
    /// Frame number of a header that matches the template.
    pub(crate) fn frame_of(&self, part: &[u8]) -> Option<i128> {
        if self.frame.is_empty() || part.len() != self.text.len() {
            return None;
        }
        // Without branches, so that the compiler vectorizes the comparison.
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

    /// Keeps an image's header as a template; `name` is the member with the frame number. It is not
    /// kept if that number is not plain digits.
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
                // The last of repeated members wins.
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

/// Range of `value` in `part`, if it has only digits.
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
    use crate::{Classify, stins::Stins};

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
        /// Changes digits and other bytes of a kept header and compares with a classifier without a
        /// template.
        #[test]
        fn a_template_match_equals_a_full_parse(
            header in header(),
            digits in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(b'0'), b'0'..=b'9']), 1..9),
            other in prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let mut keeping = Stins::default();
            keeping.classify(&[Bytes::from(header.clone())]);
            let digit_positions: Vec<usize> = (0..header.len()).filter(|at| header[*at].is_ascii_digit()).collect();
            let mut changed = header.clone();
            digits.iter().for_each(|(at, digit)| changed[*at.get(&digit_positions)] = *digit);
            if let Some((at, byte)) = other {
                changed[at.index(header.len())] = byte;
            }
            let parts = [Bytes::from(changed)];
            prop_assert_eq!(keeping.classify(&parts), Stins::default().classify(&parts));
        }
    }

    #[test]
    fn a_template_matches_the_images_of_its_series() {
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
