//! Value of a column, whose numbers keep their digits (CONTRACT CP18).

use std::{fmt, ops::Deref};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::{Value, value::RawValue};

/// Numbers of this length are exact as [`Value`], if they have digits only.
const EXACT_DIGITS: usize = 15;

/// A column's value. It is written as it was read, with all digits of its numbers, and compared and computed
/// with as [`Value`].
#[derive(Debug, Clone, Default)]
pub struct Cell {
    value: Value,
    /// The value as JSON, if [`Value`] does not have the same digits.
    exact: Option<Box<RawValue>>,
}

/// Value of a column that is missing.
pub static NULL: Cell = Cell { value: Value::Null, exact: None };

impl Cell {
    /// Text of the value. A text stays as it is; other values become JSON.
    pub fn text(&self) -> String {
        match (&self.value, &self.exact) {
            (Value::String(text), None) => text.clone(),
            _ => self.to_string(),
        }
    }

    /// Tells whether the number has more digits than can be computed with.
    pub fn is_long_number(&self) -> bool {
        let digits = |exact: &RawValue| exact.get().bytes().filter(u8::is_ascii_digit).count();
        self.exact.as_deref().is_some_and(|exact| digits(exact) > EXACT_DIGITS)
    }
}

impl Deref for Cell {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl From<Value> for Cell {
    fn from(value: Value) -> Self {
        Self { value, exact: None }
    }
}

impl<T: ?Sized> PartialEq<T> for Cell
where
    Value: PartialEq<T>,
{
    fn eq(&self, other: &T) -> bool {
        self.value == *other
    }
}

impl PartialEq<Cell> for Value {
    fn eq(&self, other: &Cell) -> bool {
        *self == other.value
    }
}

impl Eq for Cell {}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.exact {
            Some(exact) => f.write_str(exact.get()),
            None => self.value.fmt(f),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.exact {
            Some(exact) => exact.serialize(serializer),
            None => self.value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut raw = Box::<RawValue>::deserialize(deserializer)?;
        // Programs get a row as one line. A line break in JSON is space between values.
        if raw.get().contains(['\n', '\r']) {
            raw = RawValue::from_string(raw.get().replace(['\n', '\r'], " ")).map_err(D::Error::custom)?;
        }
        let text = raw.get();
        // A number beyond the range of a float is a text to those who compare.
        let (value, in_range) = match serde_json::from_str(text) {
            Ok(value) => (value, true),
            Err(_) => (Value::String(text.to_owned()), false),
        };
        let is_same = match &value {
            Value::Null | Value::Bool(_) => true,
            Value::String(_) => in_range,
            Value::Number(_) if text.len() <= EXACT_DIGITS && text.bytes().all(|b| b.is_ascii_digit()) => {
                true
            }
            Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                let shown = value.to_string();
                shown == text
            }
        };
        Ok(Self { value, exact: (!is_same).then_some(raw) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_with_the_digits_that_were_read() {
        let digits = format!("1{}", "0".repeat(320));
        for text in [
            "null",
            "true",
            "\"a\"",
            "0",
            "-1",
            "1.10",
            "1e2",
            "9223372036854775807",
            "18446744073709551616",
            "12345678901234567890.123456789",
            &digits,
            "[1.10, {\"a\": 18446744073709551616}]",
        ] {
            let cell: Cell = serde_json::from_str(text).expect("JSON");
            assert_eq!(serde_json::to_string(&cell).expect("JSON"), text);
            assert_eq!(cell.text(), text.trim_matches('"'));
            assert_eq!(serde_json::to_string(&cell.clone()).expect("JSON"), text);
        }
    }

    #[test]
    fn values_are_compared_by_what_they_mean() {
        let cell = |text| serde_json::from_str::<Cell>(text).expect("JSON");
        assert_eq!(cell("1.10"), cell("1.1"));
        assert_eq!(cell("\"\\u00e4\""), Value::from("ä"));
        assert_ne!(cell("1"), cell("\"1\""));
        assert!(serde_json::from_str::<Cell>("01").is_err());
        assert_eq!(cell("[1.10,\r\n 2]").to_string(), "[1.10,   2]");
    }
}
