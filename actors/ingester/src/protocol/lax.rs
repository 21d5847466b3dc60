//! Field types as the original's validation takes them ("lax", CONTRACT IP13; the details were found by running it, and
//! `tests/golden/vectors.json` holds them): numbers in strings, integral floats and booleans are integers, too.

use std::borrow::Cow;

use crate::protocol::json::{Object, Raw};

/// First float that is no integer any more, by its size.
const INTEGRAL_MAX: f64 = 9_223_372_036_854_775_807.0;

/// An integer. One beyond 128 bits is refused, where the original takes up to 4300 digits.
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

/// What fits 64 bits, as nearly all does, is read several times faster so.
fn integer(text: &str) -> Result<i128, std::num::ParseIntError> {
    text.parse::<i64>().map(i128::from).or_else(|_| text.parse())
}

/// A list of integers.
pub(crate) fn is_ints(raw: Raw<'_>) -> bool {
    raw.elements().is_some_and(|mut each| each.all(|raw| int(raw).is_some()))
}

/// An integral float.
pub(crate) fn int_float(float: f64) -> Option<i128> {
    #[expect(clippy::cast_possible_truncation, reason = "within the range of i64")]
    (float.fract() == 0.0 && float.abs() < INTEGRAL_MAX).then_some(float as i128)
}

/// An integer as text: `7`, ` +1_000 `, `7.00`.
pub(crate) fn int_text(text: &str) -> Option<i128> {
    let text = text.trim();
    let digits = match text.split_once('.') {
        Some((digits, zeros)) if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') => digits,
        Some(_) => return None,
        None => text,
    };
    without_underscores(digits)?.parse().ok()
}

/// A float.
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

/// A float as text: ` 7. `, `.5`, `1_0e3`, `nan`, `-inf`, `Infinity`. Underscores stand anywhere inside, but then space is not taken.
pub(crate) fn float_text(text: &str) -> Option<f64> {
    if let Ok(float) = text.trim().parse() {
        return Some(float);
    }
    let single = !text.starts_with('_') && !text.ends_with('_') && !text.contains("__");
    text.replace('_', "").parse().ok().filter(|_| single)
}

/// Underscores stand between digits only.
fn without_underscores(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('_') {
        return Some(Cow::Borrowed(text));
    }
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let between = text.match_indices('_').all(|(at, _)| digit(at.checked_sub(1)) && digit(Some(at + 1)));
    between.then(|| Cow::Owned(text.replace('_', "")))
}

/// Members of an object, by the types that are asked for.
impl<'a> Object<'a> {
    /// The integer `name`.
    pub(crate) fn int(&self, name: &str) -> Option<i128> {
        int(self.get(name)?)
    }

    /// The float `name`.
    pub(crate) fn float(&self, name: &str) -> Option<f64> {
        float(self.get(name)?)
    }

    /// The string `name`; nothing else is taken for one.
    pub(crate) fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name)?.string()
    }

    /// Is `name` a string?
    pub(crate) fn has_string(&self, name: &str) -> bool {
        self.get(name).is_some_and(|raw| raw.lead() == b'"')
    }

    /// Is `name` a list of integers?
    pub(crate) fn has_ints(&self, name: &str) -> bool {
        self.get(name).is_some_and(is_ints)
    }

    /// Is `name` one of the values that stand for the number `value`: the integer, the float, for 0 and 1 the boolean?
    pub(crate) fn is_number(&self, name: &str, value: i128) -> bool {
        self.get(name).is_some_and(|raw| raw.lead() != b'"' && int(raw) == Some(value))
    }

    /// Is `name` absent, or what `check` takes?
    pub(crate) fn absent_or(&self, name: &str, check: impl FnOnce(Raw<'a>) -> bool) -> bool {
        self.get(name).is_none_or(check)
    }
}
