//! Field types as accepted by the original's validation ("lax", CONTRACT IP13): strings with
//! numbers, integral floats and booleans are integers, too. Verified by
//! `../tests/golden/vectors.json`.

use std::borrow::Cow;

use crate::json::{Object, Raw};

/// Smallest absolute float that is not accepted as an integer.
const INTEGRAL_MAX: f64 = 9_223_372_036_854_775_807.0;

/// An integer of up to 128 bits; the original takes up to 4300 digits.
pub(crate) fn int(raw: Raw<'_>) -> Option<i128> {
    match raw.lead() {
        b't' => Some(1),
        b'f' => Some(0),
        b'"' => int_text(&raw.string()?),
        b'-' | b'0'..=b'9' => match integer(raw.text()) {
            Ok(int) => Some(int),
            Err(_) => int_float(raw.text().parse().ok().filter(|_| raw.text().contains(['.', 'e', 'E']))?),
        },
        _ => None,
    }
}

/// Tries 64 bits first, which is several times faster.
fn integer(text: &str) -> Result<i128, std::num::ParseIntError> {
    text.parse::<i64>().map(i128::from).or_else(|_| text.parse())
}

pub(crate) fn is_ints(raw: Raw<'_>) -> bool {
    raw.elements().is_some_and(|mut each| each.all(|raw| int(raw).is_some()))
}

/// Integer of an integral float.
pub(crate) fn int_float(float: f64) -> Option<i128> {
    #[expect(clippy::cast_possible_truncation, reason = "within the range of i64")]
    (float.fract() == 0.0 && float.abs() < INTEGRAL_MAX).then_some(float as i128)
}

/// Integer of a text such as `7`, ` +1_000 `, `7.00`.
pub(crate) fn int_text(text: &str) -> Option<i128> {
    let text = text.trim();
    let digits = match text.split_once('.') {
        Some((digits, zeros)) if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') => digits,
        Some(_) => return None,
        None => text,
    };
    without_underscores(digits)?.parse().ok()
}

pub(crate) fn float(raw: Raw<'_>) -> Option<f64> {
    match raw.lead() {
        b't' => Some(1.0),
        b'f' => Some(0.0),
        b'"' => float_text(&raw.string()?),
        b'N' => Some(f64::NAN),
        b'I' => Some(f64::INFINITY),
        b'-' | b'0'..=b'9' => raw.text().replace("Infinity", "inf").parse().ok(),
        _ => None,
    }
}

/// Float of a text such as ` 7. `, `.5`, `1_0e3`, `nan`, `-inf`, `Infinity`. Text with underscores
/// may not have spaces.
pub(crate) fn float_text(text: &str) -> Option<f64> {
    if let Ok(float) = text.trim().parse() {
        return Some(float);
    }
    let single = !text.starts_with('_') && !text.ends_with('_') && !text.contains("__");
    text.replace('_', "").parse().ok().filter(|_| single)
}

/// Removes underscores, which must be between digits.
fn without_underscores(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('_') {
        return Some(Cow::Borrowed(text));
    }
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let between = text.match_indices('_').all(|(at, _)| digit(at.checked_sub(1)) && digit(Some(at + 1)));
    between.then(|| Cow::Owned(text.replace('_', "")))
}

/// Members of an object by type.
impl<'a> Object<'a> {
    pub(crate) fn int(&self, name: &str) -> Option<i128> {
        int(self.get(name)?)
    }

    pub(crate) fn float(&self, name: &str) -> Option<f64> {
        float(self.get(name)?)
    }

    pub(crate) fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name)?.string()
    }

    pub(crate) fn has_string(&self, name: &str) -> bool {
        self.get(name).is_some_and(|raw| raw.lead() == b'"')
    }

    pub(crate) fn has_ints(&self, name: &str) -> bool {
        self.get(name).is_some_and(is_ints)
    }

    /// True if `name` equals `value` as an integer, a float or, for 0 and 1, a boolean.
    pub(crate) fn is_number(&self, name: &str, value: i128) -> bool {
        self.get(name).is_some_and(|raw| raw.lead() != b'"' && int(raw) == Some(value))
    }

    pub(crate) fn absent_or(&self, name: &str, check: impl FnOnce(Raw<'a>) -> bool) -> bool {
        self.get(name).is_none_or(check)
    }
}
