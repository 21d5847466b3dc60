//! Times as accepted by the original's validation: a date with optional time and offset, or seconds
//! or milliseconds since 1970. Verified by `../tests/golden/vectors.json`.

use std::str::FromStr;

use crate::{json::Raw, lax};

/// Larger numbers are milliseconds.
const SECONDS_MAX: f64 = 2e10;
/// Milliseconds from 1970 to the beginning of year 0 and to the end of year 9999.
const MILLIS: std::ops::Range<f64> = -62_167_219_200_000.0..253_402_300_800_000.0;

pub(crate) fn is_datetime(raw: Raw<'_>) -> bool {
    match raw.lead() {
        b'"' => raw.string().is_some_and(|text| is_count_text(&text) || is_date_time(&text)),
        b'-' | b'0'..=b'9' => lax::float(raw).is_some_and(is_count),
        _ => false,
    }
}

fn is_count(count: f64) -> bool {
    MILLIS.contains(&if count.abs() > SECONDS_MAX { count } else { count * 1e3 })
}

/// Exponents are accepted only with a decimal point.
fn is_count_text(text: &str) -> bool {
    let (mut plain, point) = (text.bytes(), text.contains('.'));
    plain.all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'+' | b'-') || point && matches!(byte, b'e' | b'E'))
        && text.parse().is_ok_and(is_count)
}

fn is_date_time(text: &str) -> bool {
    let Some((date, rest)) = text.split_at_checked(10) else {
        return false;
    };
    let mut rest = rest.chars();
    match rest.next() {
        None => is_date(date),
        Some('T' | 't' | ' ' | '_') => is_date(date) && is_time(rest.as_str()),
        Some(_) => false,
    }
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(year), Some(month), Some(day)) = (number(text, 0..4), number(text, 5..7), number(text, 8..10))
    else {
        return false;
    };
    bytes[4] == b'-' && bytes[7] == b'-' && year > 0 && jiff::civil::Date::new(year, month, day).is_ok()
}

/// `08:49`, `08:49:10`, `08:49:10.627`, each with an optional offset.
fn is_time(text: &str) -> bool {
    let in_range = |at, end| number::<u8>(text, at..at + 2).is_some_and(|number| number < end);
    if !in_range(0, 24) || text.as_bytes().get(2) != Some(&b':') || !in_range(3, 60) {
        return false;
    }
    let Some(rest) = text[5..].strip_prefix(':') else {
        return is_offset(&text[5..]);
    };
    if !in_range(6, 60) {
        return false;
    }
    let Some(fraction) = rest[2..].strip_prefix(['.', ',']) else {
        return is_offset(&rest[2..]);
    };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && is_offset(&fraction[digits..])
}

/// Empty, `Z`, `+02:00`, `-0200`; the sign may be U+2212.
fn is_offset(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['+', '-', '\u{2212}']) else {
        return matches!(text, "" | "Z" | "z");
    };
    let minutes = if rest.as_bytes().get(2) == Some(&b':') { 3 } else { 2 };
    let in_range = |at, end| number::<u8>(rest, at..at + 2).is_some_and(|number| number < end);
    rest.len() == minutes + 2 && in_range(0, 24) && in_range(minutes, 60)
}

fn number<N: FromStr>(text: &str, at: std::ops::Range<usize>) -> Option<N> {
    let digits = text.get(at)?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_digits_only() {
        assert!(is_date("2026-11-20"));
        for text in ["20x6-11-20", "2026-x1-20", "2026-11-2x", "+026-11-20"] {
            assert!(!is_date(text), "{text}");
        }
    }
}
