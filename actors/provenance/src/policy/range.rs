//! The 16 ranges of keys.

use std::{fmt, str::FromStr};

/// One of 16 ranges of keys, displayed as a lower-case hex digit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range(u8);

impl Range {
    pub const COUNT: usize = 16;

    /// All ranges, in order.
    pub const ALL: [Self; Self::COUNT] = {
        let mut all = [Self(0); Self::COUNT];
        let mut index = 0;
        while index < Self::COUNT {
            all[index] = Self(index as u8);
            index += 1;
        }
        all
    };

    #[must_use]
    pub fn high_nibble(byte: u8) -> Self {
        Self(byte >> 4)
    }

    #[must_use]
    pub fn low_nibble(byte: u8) -> Self {
        Self(byte & 0xf)
    }

    /// From 0 to 15.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error of a text that is not a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a range is one lower-case hex digit, 0 to f")]
pub struct InvalidRange;

impl FromStr for Range {
    type Err = InvalidRange;

    fn from_str(text: &str) -> Result<Self, InvalidRange> {
        match *text.as_bytes() {
            [digit @ b'0'..=b'9'] => Ok(Self(digit - b'0')),
            [digit @ b'a'..=b'f'] => Ok(Self(digit - b'a' + 10)),
            _ => Err(InvalidRange),
        }
    }
}

/// Set of ranges, written as in `0-7,c`, or `none`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RangeSet(u16);

/// Text of the empty set.
const NONE: &str = "none";

impl RangeSet {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// All 16 ranges.
    pub const ALL: Self = Self(u16::MAX);

    #[must_use]
    pub fn contains(self, range: Range) -> bool {
        self.0 >> range.0 & 1 == 1
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the ranges in order.
    pub fn iter(self) -> impl Iterator<Item = Range> {
        Range::ALL.into_iter().filter(move |&range| self.contains(range))
    }
}

impl FromIterator<Range> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range>>(ranges: I) -> Self {
        Self(ranges.into_iter().fold(0, |set, range| set | 1 << range.0))
    }
}

impl fmt::Display for RangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str(NONE);
        }
        let ranges: Vec<Range> = self.iter().collect();
        for (nth, run) in ranges.chunk_by(|a, b| a.0 + 1 == b.0).enumerate() {
            let comma = if nth > 0 { "," } else { "" };
            match run {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                _ => write!(f, "{comma}{}", run[0])?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// Error of a text that is not a set of ranges.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeSetError {
    /// The text is empty.
    #[error("no range is named: write hex digits and spans of them, for example 0-7,c, or none")]
    Empty,
    /// A part is neither a digit nor a span.
    #[error("{0:?} is not a range: write lower-case hex digits and spans of them, for example 0-7,c")]
    InvalidRange(String),
    /// The end of a span precedes its start.
    #[error("the span {0}-{1} runs backwards: write {1}-{0}")]
    Backwards(Range, Range),
}

impl FromStr for RangeSet {
    type Err = RangeSetError;

    fn from_str(text: &str) -> Result<Self, RangeSetError> {
        if text.trim().is_empty() {
            return Err(RangeSetError::Empty);
        }
        if text.trim() == NONE {
            return Ok(Self::NONE);
        }
        let mut set = 0;
        for part in text.split(',').map(str::trim) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<Range>(), last.parse::<Range>()) else {
                return Err(RangeSetError::InvalidRange(part.to_owned()));
            };
            if first > last {
                return Err(RangeSetError::Backwards(first, last));
            }
            set |= u16::MAX << first.0 & u16::MAX >> (15 - last.0);
        }
        Ok(Self(set))
    }
}

impl TryFrom<String> for RangeSet {
    type Error = RangeSetError;

    fn try_from(text: String) -> Result<Self, RangeSetError> {
        text.parse()
    }
}

impl From<RangeSet> for String {
    fn from(set: RangeSet) -> Self {
        set.to_string()
    }
}

impl schemars::JsonSchema for RangeSet {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RangeSet".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "hex digits and spans of them, for example 0-7,c, or none",
            "pattern": "^ *(none|[0-9a-f](-[0-9a-f])? *(, *[0-9a-f](-[0-9a-f])? *)*)$",
        })
    }
}
