//! Dates: msgpack's timestamp ext, and the ISO text of old senders (CONTRACT PP12, PP13).

use jiff::{
    civil::{DateTime, Time, datetime},
    fmt::temporal::Pieces,
};
use rmp::Marker;

use super::{
    cursor::{Cursor, big_endian},
    item_error::ItemError,
};
use crate::row::Date;

/// Ext type of timestamps.
pub(super) const TIMESTAMP: i8 = -1;

/// Microseconds in a second.
pub(super) const MICROS: i64 = 1_000_000;

const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

/// Maximum length of a date as text, in bytes.
const TEXT_BYTES_MAX: usize = 64;

/// Reads a date, or nil for an unknown one.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Option<Date>, ItemError> {
    if cursor.nil() {
        return Ok(None);
    }
    if matches!(cursor.peek(), Some(Marker::FixMap(_) | Marker::Map16 | Marker::Map32)) {
        return match cursor.tagged() {
            Some((b"datetime", mut payload)) => from_text(payload.text().ok_or(ItemError::Date)?).map(Some),
            _ => Err(ItemError::Date),
        };
    }
    match cursor.ext() {
        Some((TIMESTAMP, bytes)) => from_timestamp(bytes).map(Some),
        _ => Err(ItemError::Date),
    }
}

/// Decodes a timestamp of 4, 8 or 12 bytes. Nanoseconds count forward from the seconds, also before
/// 1970, so cutting them to microseconds rounds towards the past.
fn from_timestamp(bytes: &[u8]) -> Result<Date, ItemError> {
    let (seconds, nanos) = match bytes.len() {
        4 => (big_endian(bytes) as i64, 0),
        8 => {
            let both = big_endian(bytes);
            ((both & ((1 << 34) - 1)) as i64, both >> 34)
        }
        12 => (big_endian(&bytes[4..]) as i64, big_endian(&bytes[..4])),
        _ => return Err(ItemError::Date),
    };
    if nanos > 999_999_999 {
        return Err(ItemError::Date);
    }
    let micros = seconds.checked_mul(MICROS).and_then(|micros| micros.checked_add(nanos as i64 / 1000));
    micros.and_then(Date::from_micros).ok_or(ItemError::DateRange)
}

/// Parses a text such as `2021-11-29T10:00:00.000001+02:00`. Without an offset it is UTC, without a
/// time it is midnight.
fn from_text(text: &[u8]) -> Result<Date, ItemError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(ItemError::Date);
    }
    let pieces = Pieces::parse(text).map_err(|_| ItemError::Date)?;
    if pieces.time_zone_annotation().is_some() {
        return Err(ItemError::Date);
    }
    // jiff's `Timestamp` ends a day before the year 9999.
    let local = pieces.date().to_datetime(pieces.time().unwrap_or(Time::midnight())).duration_since(EPOCH);
    let offset = pieces.to_numeric_offset().map_or(0, |offset| offset.seconds());
    let micros = local.as_nanos().div_euclid(1000) - i128::from(offset) * i128::from(MICROS);
    i64::try_from(micros).ok().and_then(Date::from_micros).ok_or(ItemError::DateRange)
}
