//! Durations in a configuration, such as `8h`.

use std::{borrow::Cow, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Form of a duration, which the schema checks.
const PATTERN: &str = "^[1-9][0-9]{0,6}[smhd]$";
/// Units with their seconds, the longest first.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Duration of a key: a whole number above 0 and a unit, `s`, `m`, `h` or `d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Period(Duration);

impl Period {
    /// A day.
    pub const DAY: Self = Self(Duration::from_secs(86_400));

    /// Returns the duration.
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl TryFrom<String> for Period {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parsed = UNITS.iter().find_map(|(unit, seconds)| {
            let count: u64 = text.strip_suffix(*unit)?.parse().ok()?;
            count.checked_mul(*seconds).filter(|seconds| *seconds > 0)
        });
        let seconds =
            parsed.ok_or_else(|| format!("{text} is not a duration: write e.g. 90s, 15m, 8h or 7d"))?;
        Ok(Self(Duration::from_secs(seconds)))
    }
}

impl From<Period> for String {
    fn from(period: Period) -> Self {
        period.to_string()
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let unit = UNITS.iter().find(|(_, unit)| seconds.is_multiple_of(*unit));
        let (name, unit) = unit.copied().unwrap_or(('s', 1));
        write!(f, "{}{name}", seconds / unit)
    }
}

impl JsonSchema for Period {
    fn schema_name() -> Cow<'static, str> {
        "Period".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": PATTERN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit_are_a_duration() {
        for (text, seconds, shown) in
            [("90s", 90, "90s"), ("60m", 3_600, "1h"), ("8h", 28_800, "8h"), ("7d", 604_800, "7d")]
        {
            let period = Period::try_from(text.to_owned()).unwrap();
            assert_eq!((period.duration().as_secs(), period.to_string().as_str()), (seconds, shown));
        }
        for wrong in ["", "8", "h", "0h", "-1h", "1.5h", "8 h", "8w", "18446744073709551615d"] {
            assert!(Period::try_from(wrong.to_owned()).unwrap_err().contains("not a duration"), "{wrong}");
        }
    }
}
