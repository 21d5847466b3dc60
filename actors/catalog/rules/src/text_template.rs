//! Texts of a queue's job (CONTRACT CF16): constants with the words of [`Template`] in them.

use serde_json::Value;

use crate::template::{Position, Template, Variables};

/// A configured text.
#[derive(Debug, Clone, PartialEq)]
pub struct TextTemplate(Vec<Part>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Plain(String),
    Word(Template),
}

impl TextTemplate {
    /// Parses a text. A word ends before the first character that is not a letter, a digit or one of `_.+`,
    /// and a dot at its end does not belong to it; `${row.a b}` delimits any other name. `$$` is `$`.
    ///
    /// # Errors
    /// An unknown word, or one that is not known before the job has run.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((plain, behind)) = rest.split_once('$') {
            parts.push(Part::Plain(plain.to_owned()));
            if let Some(behind) = behind.strip_prefix('$') {
                parts.push(Part::Plain("$".to_owned()));
                rest = behind;
                continue;
            }
            let (word, behind) = match behind.strip_prefix('{') {
                Some(named) => {
                    named.split_once('}').ok_or_else(|| format!("${behind}: write }} behind the name"))?
                }
                None => behind.split_at(word_length(behind)),
            };
            parts.push(Part::Word(Template::parse(&Value::String(format!("${word}")), Position::Claim)?));
            rest = behind;
        }
        parts.push(Part::Plain(rest.to_owned()));
        Ok(Self(parts))
    }

    /// Computes the text. Null is empty; lists and objects are JSON.
    ///
    /// # Errors
    /// A column is not a number that can be added to.
    pub fn text(&self, variables: &Variables<'_>) -> Result<String, String> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Plain(plain) => text.push_str(plain),
                Part::Word(word) => {
                    let value = word.value(variables)?;
                    if !value.is_null() {
                        text.push_str(&value.text());
                    }
                }
            }
        }
        Ok(text)
    }
}

fn word_length(text: &str) -> usize {
    let ends = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '+'));
    let word = &text[..text.find(ends).unwrap_or(text.len())];
    word.trim_end_matches(['.', '+']).len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_stand_anywhere_in_a_text() {
        let row = json!({ "id": 7, "name": "a b", "a b": "x", "z": null, "list": [1] });
        let row = serde_json::from_value(row).expect("an object");
        let now = "2026-11-20T12:00:00Z".parse().expect("a time");
        let variables = Variables { token: "me/1", now, row: &row, result: None, error: "" };
        for (template, text) in [
            ("$row.id", "7"),
            ("img/$row.id.", "img/7."),
            ("$row.id-$row.id+1", "7-8"),
            ("${row.a b}$row.z:$row.list", "x:[1]"),
            ("$$5 $token $row.name", "$5 me/1 a b"),
            ("", ""),
        ] {
            let parsed = TextTemplate::parse(template).expect(template);
            assert_eq!(parsed.text(&variables).as_deref(), Ok(text), "{template}");
        }
        for wrong in ["$", "a $ b", "$row", "$result.x", "$error", "${row.a"] {
            TextTemplate::parse(wrong).expect_err(wrong);
        }
    }
}
