//! Writer of JSON in the form of the original's models: compact, members in order, shortest floats
//! with `.0` kept, NaN and infinities as `null`. Verified against the original by
//! `../tests/golden/pcap-odd.cbors`.

use std::{borrow::Cow, collections::HashMap, fmt::Write};

use crate::json::Raw;

/// Members in the order of their first occurrence, each with its last value, as in a Python dict.
pub(crate) fn unique<'a>(members: &[(Raw<'a>, Raw<'a>)]) -> Vec<(Cow<'a, str>, Raw<'a>)> {
    let mut positions: HashMap<Cow<'a, str>, usize> = HashMap::with_capacity(members.len());
    let mut out: Vec<(Cow<'a, str>, Raw<'a>)> = Vec::with_capacity(members.len());
    for (key, value) in members {
        let key = key.string().unwrap_or_default();
        match positions.get(&key) {
            Some(position) => out[*position].1 = *value,
            None => {
                positions.insert(key.clone(), out.len());
                out.push((key, *value));
            }
        }
    }
    out
}

/// Appends `,"key":`.
pub(crate) fn key(name: &str, out: &mut String) {
    out.push(',');
    string(name, out);
    out.push(':');
}

/// Appends a string with its quotes.
pub(crate) fn string(text: &str, out: &mut String) {
    // Serializing a string cannot fail.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// Appends a float with the fewest digits, or `null` if it is not finite. Exponents are used where
/// the original uses them.
pub(crate) fn float(value: f64, out: &mut String) {
    if !value.is_finite() {
        out.push_str("null");
        return;
    }
    let (digits, whole) = shortest(value.abs());
    let sign = if value.is_sign_negative() { "-" } else { "" };
    out.push_str(sign);
    match usize::try_from(whole) {
        Ok(whole @ 1..=16) if digits.len() <= whole => {
            let _ = write!(out, "{digits:0<whole$}.0");
        }
        Ok(whole @ 1..=16) => {
            let _ = write!(out, "{}.{}", &digits[..whole], &digits[whole..]);
        }
        _ if (-4..=0).contains(&whole) => {
            let _ = write!(out, "0.{}{digits}", "0".repeat(whole.unsigned_abs() as usize));
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            let _ = write!(out, "{first}{point}{rest}e{}", whole - 1);
        }
    }
}

/// Shortest decimal digits of a float, and the number of digits before the decimal point. They are
/// taken from the JSON crate, whose own layout may change.
fn shortest(value: f64) -> (String, i32) {
    let text = serde_json::to_string(&value).unwrap_or_default();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [before, after].concat();
    let digits = all.trim_start_matches('0');
    let zeros = all.len() - digits.len();
    let moved = i32::try_from(before.len()).unwrap_or_default() - i32::try_from(zeros).unwrap_or_default();
    match digits.trim_end_matches('0') {
        "" => ("0".to_owned(), 1),
        digits => (digits.to_owned(), moved + exponent.parse::<i32>().unwrap_or_default()),
    }
}

/// Appends any value. Its depth was bounded when it was parsed.
pub(crate) fn value(raw: Raw<'_>, out: &mut String) {
    match raw.lead() {
        b'"' => string(&raw.string().unwrap_or_default(), out),
        b'[' => {
            out.push('[');
            for (at, element) in raw.elements().into_iter().flatten().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                value(element, out);
            }
            out.push(']');
        }
        b'{' => {
            out.push('{');
            for (at, (name, member)) in unique(&raw.members().unwrap_or_default()).iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                string(name, out);
                out.push(':');
                value(*member, out);
            }
            out.push('}');
        }
        b'-' | b'0'..=b'9' => number(raw.text(), out),
        b'N' | b'I' => out.push_str("null"),
        _ => out.push_str(raw.text()),
    }
}

fn number(text: &str, out: &mut String) {
    if text.contains(['.', 'e', 'E', 'I']) {
        float(text.parse().unwrap_or(f64::NAN), out);
    } else {
        // Integers of any size stay unchanged, except `-0`.
        out.push_str(if text == "-0" { "0" } else { text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_sixteen_digits_before_the_point_need_no_exponent() {
        for (value, text) in [
            (1e15, "1000000000000000.0"),
            (1_234_567_890_123_456.5, "1234567890123456.5"),
            (-9_007_199_254_740_992.0, "-9007199254740992.0"),
            (1e16, "1e16"),
        ] {
            let mut out = String::new();
            float(value, &mut out);
            assert_eq!(out, text);
        }
    }
}
