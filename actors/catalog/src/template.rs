//! Values of `claim`, `done`, `fail` and `dead`: plain ones, and words that begin with `$`.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Number, Value};

use crate::{handling::Row, path};

/// A value that is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Template {
    /// As it stands; `$$x` is `$x`, `$null` is no value.
    Plain(Value),
    /// `$token`: what tells this claim from all others.
    Token,
    /// `$now`, or `$now+15m`.
    Now(SignedDuration),
    /// `$error`: why it failed.
    Error,
    /// `$row.COL`, or `$row.COL+1`: what the row had before the claim.
    Row(String, i64),
    /// `$result.FIELD`: a field of the handler's answer, null if it has none.
    Result(String),
}

/// Which words make sense where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// When a row is claimed: there is neither result nor error yet.
    Claim,
    /// When it is done.
    Done,
    /// When it failed, or has failed for good.
    Fail,
}

/// What words stand for.
#[derive(Debug, Clone, Copy)]
pub struct Meaning<'a> {
    /// The claim's token.
    pub token: &'a str,
    /// Now.
    pub now: Timestamp,
    /// The row before the claim.
    pub row: &'a Row,
    /// The handler's answer.
    pub result: Option<&'a Row>,
    /// Why it failed.
    pub error: &'a str,
}

const WORDS: &str = "$token, $now, $now+15m, $null, $error, $row.COLUMN, $row.COLUMN+1 or $result.FIELD; write $$ for a plain $";

impl Template {
    /// Reads a value as it is configured.
    ///
    /// # Errors
    /// It begins with `$` and is none of the words, or one that has no sense at this place.
    pub fn parse(value: &Value, place: Place) -> Result<Self, String> {
        let Some(word) = value.as_str().and_then(|text| text.strip_prefix('$')) else {
            return Ok(Self::Plain(value.clone()));
        };
        if word.starts_with('$') {
            return Ok(Self::Plain(Value::String(word.to_owned())));
        }
        let template = Self::word(word).ok_or_else(|| format!("${word} is not known: write {WORDS}"))?;
        match (&template, place) {
            (Self::Result(_), Place::Claim | Place::Fail) => {
                Err(format!("${word}: there is a result only once it is done"))
            }
            (Self::Error, Place::Claim | Place::Done) => {
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
            // A configuration file has no other way to say so.
            "null" => Some(Self::Plain(Value::Null)),
            "now" => Some(Self::Now(SignedDuration::ZERO)),
            _ => Some(Self::Now(span(word.strip_prefix("now+")?)?)),
        }
    }

    /// What is written.
    ///
    /// # Errors
    /// The row's column is no number that can be added to.
    pub fn value(&self, meaning: &Meaning<'_>) -> Result<Value, String> {
        let text = |text: &str| Value::String(text.to_owned());
        Ok(match self {
            Self::Plain(value) => value.clone(),
            Self::Token => text(meaning.token),
            Self::Now(later) => Value::String(path::instant(path::after(meaning.now, *later))),
            Self::Error => text(meaning.error),
            Self::Row(column, 0) => meaning.row.get(column).cloned().unwrap_or_default(),
            Self::Row(column, by) => sum(column, meaning.row.get(column), *by)?,
            Self::Result(field) => {
                meaning.result.and_then(|result| result.get(field)).cloned().unwrap_or_default()
            }
        })
    }

    /// The plain value, if it is one.
    pub fn plain(&self) -> Option<&Value> {
        match self {
            Self::Plain(value) => Some(value),
            _ => None,
        }
    }
}

/// A column that is empty counts as 0.
fn sum(column: &str, value: Option<&Value>, by: i64) -> Result<Value, String> {
    let sum = match value.unwrap_or(&Value::Null) {
        Value::Null => Some(Number::from(by)),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.checked_add(by).map(Number::from),
            #[expect(clippy::cast_precision_loss, reason = "what is added is small")]
            None => number.as_f64().and_then(|number| Number::from_f64(number + by as f64)),
        },
        _ => None,
    };
    sum.map(Value::Number).ok_or_else(|| format!("column {column} is no number that {by} can be added to"))
}

/// `90s`, `15m`, `2h`, `1d`.
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
    // Negative spans would be leases that have ended when they begin.
    (number >= 0).then(|| number.checked_mul(secs)).flatten().map(SignedDuration::from_secs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(value: Value) -> Row {
        value.as_object().cloned().expect("an object")
    }

    #[test]
    fn each_word_stands_for_what_it_says() {
        let (before, result) =
            (row(json!({ "n": 4, "x": 1.5, "s": "a", "z": null })), row(json!({ "sum": [1] })));
        let meaning = Meaning {
            token: "me/1",
            now: "2026-11-20T12:00:00Z".parse().expect("a time"),
            row: &before,
            result: Some(&result),
            error: "no",
        };
        for (word, place, value) in [
            (json!("claimed"), Place::Claim, json!("claimed")),
            (json!(7), Place::Claim, json!(7)),
            (json!("$$now"), Place::Claim, json!("$now")),
            (json!("$null"), Place::Claim, json!(null)),
            (json!("$token"), Place::Claim, json!("me/1")),
            (json!("$now"), Place::Claim, json!("2026-11-20T12:00:00.000000+00:00")),
            (json!("$now+15m"), Place::Claim, json!("2026-11-20T12:15:00.000000+00:00")),
            (json!("$now+1d"), Place::Claim, json!("2026-11-21T12:00:00.000000+00:00")),
            (json!("$row.n"), Place::Claim, json!(4)),
            (json!("$row.n+1"), Place::Claim, json!(5)),
            (json!("$row.x+1"), Place::Claim, json!(2.5)),
            (json!("$row.z+1"), Place::Claim, json!(1)),
            (json!("$row.none"), Place::Claim, json!(null)),
            (json!("$result.sum"), Place::Done, json!([1])),
            (json!("$result.none"), Place::Done, json!(null)),
            (json!("$error"), Place::Fail, json!("no")),
        ] {
            let template = Template::parse(&word, place).expect("a word");
            assert_eq!(template.value(&meaning), Ok(value), "{word}");
        }
        let text = Template::parse(&json!("$row.s+1"), Place::Claim).expect("a word");
        assert_eq!(text.value(&meaning), Err("column s is no number that 1 can be added to".to_owned()));
    }

    #[test]
    fn what_is_no_word_or_has_no_sense_there_is_refused() {
        for (word, place) in [
            ("$", Place::Claim),
            ("$tokens", Place::Claim),
            ("$now+", Place::Claim),
            ("$now+15", Place::Claim),
            ("$now+-5m", Place::Claim),
            ("$now+5µ", Place::Claim),
            ("$now-5m", Place::Claim),
            ("$row.", Place::Claim),
            ("$result.", Place::Done),
            ("$result.x", Place::Claim),
            ("$result.x", Place::Fail),
            ("$error", Place::Done),
            ("$error", Place::Claim),
        ] {
            let error = Template::parse(&json!(word), place).expect_err(word);
            assert!(error.starts_with(word), "{error}");
        }
    }
}
