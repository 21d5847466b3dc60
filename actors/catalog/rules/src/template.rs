//! Values of `claim.set`, `done`, `fail` and `dead` (CONTRACT CF06): plain values, and words that
//! begin with `$`.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Number, Value};

use crate::{
    cell::{Cell, NULL},
    path,
    rows::Row,
};

/// A configured value.
#[derive(Debug, Clone, PartialEq)]
pub enum Template {
    /// A constant; `$$x` is `$x`, `$null` is null.
    Plain(Value),
    /// `$token`: the claim's token.
    Token,
    /// `$now`, or `$now+15m`.
    Now(SignedDuration),
    /// `$error`: reason of the failure.
    Error,
    /// `$row.COL`, or `$row.COL+1`: the value before the claim.
    Row(String, i64),
    /// `$result.FIELD`: a field of the handler's answer, or null.
    Result(String),
}

/// Position of a template in the configuration, which limits the words allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// `claim.set`: there is neither result nor error yet.
    Claim,
    /// `done`.
    Done,
    /// `fail` or `dead`.
    Fail,
    /// `fail` or `dead` of a rule whose handler has a result then, too.
    FailWithResult,
}

/// Values of the words.
#[derive(Debug, Clone, Copy)]
pub struct Variables<'a> {
    /// Token of the claim.
    pub token: &'a str,
    /// Current time.
    pub now: Timestamp,
    /// Row before the claim.
    pub row: &'a Row,
    /// Answer of the handler.
    pub result: Option<&'a Row>,
    /// Reason of the failure.
    pub error: &'a str,
}

const WORDS: &str = "$token, $now, $now+15m, $null, $error, $row.COLUMN, $row.COLUMN+1 or $result.FIELD; write $$ for a plain $";

impl Template {
    /// Parses a configured value.
    ///
    /// # Errors
    /// An unknown word, or one that is not allowed at this position.
    pub fn parse(value: &Value, position: Position) -> Result<Self, String> {
        let Some(word) = value.as_str().and_then(|text| text.strip_prefix('$')) else {
            return Ok(Self::Plain(value.clone()));
        };
        if word.starts_with('$') {
            return Ok(Self::Plain(Value::String(word.to_owned())));
        }
        let template = Self::word(word).ok_or_else(|| format!("${word} is not known: write {WORDS}"))?;
        match (&template, position) {
            (Self::Result(_), Position::Claim | Position::Fail) => Err(format!(
                "${word}: there is a result only once it is done, or with a handler of kind queue"
            )),
            (Self::Error, Position::Claim | Position::Done) => {
                Err(format!("${word}: there is an error only if it failed"))
            }
            _ => Ok(template),
        }
    }

    fn word(word: &str) -> Option<Self> {
        if let Some(rest) = word.strip_prefix("row.") {
            return Some(match rest.rsplit_once('+') {
                Some((column, by)) if !column.is_empty() && by.parse::<i64>().is_ok() => {
                    Self::Row(column.to_owned(), by.parse().ok()?)
                }
                _ if rest.is_empty() => return None,
                _ => Self::Row(rest.to_owned(), 0),
            });
        }
        if let Some(field) = word.strip_prefix("result.") {
            return (!field.is_empty()).then(|| Self::Result(field.to_owned()));
        }
        match word {
            "token" => Some(Self::Token),
            "error" => Some(Self::Error),
            // TOML has no null.
            "null" => Some(Self::Plain(Value::Null)),
            "now" => Some(Self::Now(SignedDuration::ZERO)),
            _ => Some(Self::Now(span(word.strip_prefix("now+")?)?)),
        }
    }

    /// Computes the value.
    ///
    /// # Errors
    /// The column is not a number that can be added to.
    pub fn value(&self, variables: &Variables<'_>) -> Result<Cell, String> {
        let text = |text: &str| Value::from(text).into();
        Ok(match self {
            Self::Plain(value) => value.clone().into(),
            Self::Token => text(variables.token),
            Self::Now(later) => text(&path::instant(path::saturating_add(variables.now, *later))),
            Self::Error => text(variables.error),
            Self::Row(column, 0) => variables.row.get(column).cloned().unwrap_or_default(),
            Self::Row(column, by) => sum(column, variables.row.get(column), *by)?,
            Self::Result(field) => {
                variables.result.and_then(|result| result.get(field)).cloned().unwrap_or_default()
            }
        })
    }

    /// The value, if it is a constant.
    pub fn plain(&self) -> Option<&Value> {
        match self {
            Self::Plain(value) => Some(value),
            _ => None,
        }
    }
}

/// Adds to a number; null counts as 0.
fn sum(column: &str, cell: Option<&Cell>, by: i64) -> Result<Cell, String> {
    let cell = cell.unwrap_or(&NULL);
    if cell.is_long_number() {
        return Err(format!("column {column} has a number of more digits than {by} can be added to"));
    }
    let sum = match &**cell {
        Value::Null => Some(Number::from(by)),
        Value::Number(number) => match number.as_i128() {
            Some(number) => Number::from_i128(number + i128::from(by)),
            #[expect(clippy::cast_precision_loss, reason = "what is added is small")]
            None => number.as_f64().and_then(|number| Number::from_f64(number + by as f64)),
        },
        _ => None,
    };
    sum.map(|sum| Value::Number(sum).into())
        .ok_or_else(|| format!("column {column} is no number that {by} can be added to"))
}

/// Parses `90s`, `15m`, `2h`, `1d`.
fn span(text: &str) -> Option<SignedDuration> {
    let unit = text.chars().last()?;
    let number: i64 = text[..text.len() - unit.len_utf8()].parse().ok()?;
    let secs = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    // With a negative span, a lease would have ended when it begins.
    (number >= 0).then(|| number.checked_mul(secs)).flatten().map(SignedDuration::from_secs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(value: Value) -> Row {
        serde_json::from_value(value).expect("an object")
    }

    #[test]
    fn each_word_has_its_value() {
        let (before, result) = (
            row(json!({ "n": 4, "x": 1.5, "s": "a", "z": null, "a+b": 2, "+1": 3 })),
            row(json!({ "sum": [1] })),
        );
        let variables = Variables {
            token: "me/1",
            now: "2026-11-20T12:00:00Z".parse().expect("a time"),
            row: &before,
            result: Some(&result),
            error: "no",
        };
        for (word, position, value) in [
            (json!("claimed"), Position::Claim, json!("claimed")),
            (json!(7), Position::Claim, json!(7)),
            (json!("$$now"), Position::Claim, json!("$now")),
            (json!("$null"), Position::Claim, json!(null)),
            (json!("$token"), Position::Claim, json!("me/1")),
            (json!("$now"), Position::Claim, json!("2026-11-20T12:00:00.000000+00:00")),
            (json!("$now+0s"), Position::Claim, json!("2026-11-20T12:00:00.000000+00:00")),
            (json!("$now+15m"), Position::Claim, json!("2026-11-20T12:15:00.000000+00:00")),
            (json!("$now+1d"), Position::Claim, json!("2026-11-21T12:00:00.000000+00:00")),
            (json!("$row.n"), Position::Claim, json!(4)),
            (json!("$row.n+1"), Position::Claim, json!(5)),
            (json!("$row.x+1"), Position::Claim, json!(2.5)),
            (json!("$row.z+1"), Position::Claim, json!(1)),
            (json!("$row.none"), Position::Claim, json!(null)),
            (json!("$row.a+b"), Position::Claim, json!(2)),
            (json!("$row.a+b+1"), Position::Claim, json!(3)),
            (json!("$row.+1"), Position::Claim, json!(3)),
            (json!("$result.sum"), Position::Done, json!([1])),
            (json!("$result.none"), Position::Done, json!(null)),
            (json!("$error"), Position::Fail, json!("no")),
        ] {
            let template = Template::parse(&word, position).expect("a word");
            assert_eq!(template.value(&variables), Ok(value.into()), "{word}");
        }
        let text = Template::parse(&json!("$row.s+1"), Position::Claim).expect("a word");
        assert_eq!(text.value(&variables), Err("column s is no number that 1 can be added to".to_owned()));
        let long: Row = serde_json::from_str(r#"{"s":12345678901234567890.5}"#).expect("a row");
        assert!(text.value(&Variables { row: &long, ..variables }).is_err(), "no digit is lost");
    }

    #[test]
    fn unknown_and_misplaced_words_are_refused() {
        for (word, position) in [
            ("$", Position::Claim),
            ("$tokens", Position::Claim),
            ("$now+", Position::Claim),
            ("$now+15", Position::Claim),
            ("$now+-5m", Position::Claim),
            ("$now+5µ", Position::Claim),
            ("$now-5m", Position::Claim),
            ("$row.", Position::Claim),
            ("$result.", Position::Done),
            ("$result.x", Position::Claim),
            ("$result.x", Position::Fail),
            ("$error", Position::Done),
            ("$error", Position::Claim),
        ] {
            let error = Template::parse(&json!(word), position).expect_err(word);
            assert!(error.starts_with(word), "{error}");
        }
    }
}
