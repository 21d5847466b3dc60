//! Identifier of a document, independent of the database driver.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

/// ObjectId of 12 bytes, which the database orders as bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub [u8; 12]);

/// Text that is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an identifier: write 24 hexadecimal digits")]
pub struct InvalidId(String);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Id {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let wrong = || InvalidId(text.to_owned());
        if text.len() != 24 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut bytes = [0; 12];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

/// Serializes as 24 hexadecimal digits, as in a job's arguments.
impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_written_in_lower_case_and_parsed() {
        let id = Id([0, 1, 0xab, 0xff, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(id.to_string(), "0001abff0405060708090a0b");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!("0001ABFF0405060708090A0B".parse(), Ok(id));
        for wrong in [
            "",
            "0001abff0405060708090a0",
            "0001abff0405060708090a0g",
            "+001abff0405060708090a0b",
            "ääääääääääää",
        ] {
            let error = wrong.parse::<Id>().unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
