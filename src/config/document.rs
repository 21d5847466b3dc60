//! A TOML text as a tree of values that know their places.

use config::{Map, Value, ValueKind};
use toml::{
    Spanned,
    de::{DeArray, DeInteger, DeTable, DeValue},
};

use super::{
    report::{Refusal, excerpt},
    schema::{Rule, Schema},
};
use orchestrator_subsystem::redaction::mentions_secret;

/// Syntax errors that end with their line: what stands on other lines is still what its writer meant. After others, such
/// as a bracket that is never closed, it may be anything.
const LOCAL: &[&str] = &["duplicate key", "key with no value", BARE, "unexpected leading zero"];

/// How the parser begins to say that it found a word where a value should be, or nothing.
const BARE: &str = "string values must be quoted";

/// Reads `text`, which came from `file`. Every value has `FILE:LINE` as its origin. What is left out for syntax errors is
/// in the second list; the first is empty if nothing can be relied on.
pub(super) fn read(file: &str, text: &str, schema: &Schema) -> (Value, Vec<Refusal>) {
    let lines = Lines { file, text };
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut broken: Vec<(usize, usize, String)> = Vec::new();
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        let (line, column) = lines.position(at);
        // What follows on the same line is mostly the echo of the first.
        if broken.iter().all(|(other, ..)| *other != line) {
            broken.push((line, column, lines.syntax(error, schema)));
        }
    }
    broken.sort();
    let reliable = errors.iter().all(|error| LOCAL.iter().any(|local| error.message().starts_with(local)));
    let dropped: Vec<usize> = broken.iter().map(|(line, ..)| *line).collect();
    let tree = if reliable { lines.table(table.get_ref(), &dropped) } else { Map::new() };
    let refusals = broken.into_iter().map(|(line, column, text)| Refusal {
        place: format!("{file}:{line}:{column}"),
        key: String::new(),
        text,
    });
    (Value::new(Some(&file.to_owned()), tree), refusals.collect())
}

/// A single value; `place` is its origin. None if `text` is no TOML value.
pub(crate) fn read_value(text: &str, place: &str) -> Option<Value> {
    let parsed = DeValue::parse(text).ok()?;
    let value = Lines { file: place, text }.kind(parsed.get_ref(), &[]);
    Some(with_origin(Value::new(None, value), place))
}

/// `value` and all in it, with `place` as their origin.
fn with_origin(value: Value, place: &str) -> Value {
    let kind = match value.kind {
        ValueKind::Table(table) => {
            ValueKind::Table(table.into_iter().map(|(key, value)| (key, with_origin(value, place))).collect())
        }
        ValueKind::Array(array) => {
            ValueKind::Array(array.into_iter().map(|value| with_origin(value, place)).collect())
        }
        plain => plain,
    };
    Value::new(Some(&place.to_owned()), kind)
}

/// Finds lines in a text.
#[derive(Clone, Copy)]
struct Lines<'a> {
    file: &'a str,
    text: &'a str,
}

impl Lines<'_> {
    /// Line and column of a byte, both from 1, the column in characters.
    fn position(self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }

    /// Syntax error, with the words that it is about, unless they may be a secret.
    fn syntax(self, error: &toml::de::Error, schema: &Schema) -> String {
        let span = error.span().unwrap_or_default();
        let words = self.text.get(span.clone()).unwrap_or_default();
        let line = self.text.lines().nth(self.position(span.start).0 - 1).unwrap_or_default().trim();
        let key = line.split('=').next().unwrap_or_default().trim();
        match (error.message(), words) {
            ("duplicate key", words) => format!("{} is there already; keep one of them", excerpt(words)),
            (message, "") if message.starts_with(BARE) => format!("{key} has no value"),
            (message, words) if message.starts_with(BARE) => {
                if may_be_shown(line, schema) && !mentions_secret(words) {
                    let words = excerpt(words);
                    format!("{words} is no value; a string needs quotes: {words:?}")
                } else {
                    "this is no value; a string needs quotes".to_owned()
                }
            }
            (message, _) if may_be_shown(line, schema) => {
                format!("`{}` is no TOML: {message}", excerpt(line))
            }
            (message, _) => format!("this line is no TOML: {message}"),
        }
    }

    /// All keys but those whose values begin on one of the lines `dropped`. A section whose header is on one stays: what is
    /// in it counts.
    fn table(self, table: &DeTable<'_>, dropped: &[usize]) -> Map<String, Value> {
        let mut tree = Map::new();
        for (key, value) in table {
            let (line, _) = self.position(key.span().start);
            if value.get_ref().is_table() || !dropped.contains(&line) {
                tree.insert(key.get_ref().clone().into_owned(), self.value(value.get_ref(), line, dropped));
            }
        }
        tree
    }

    fn value(self, value: &DeValue<'_>, line: usize, dropped: &[usize]) -> Value {
        Value::new(Some(&format!("{}:{line}", self.file)), self.kind(value, dropped))
    }

    fn kind(self, value: &DeValue<'_>, dropped: &[usize]) -> ValueKind {
        match value {
            DeValue::String(text) => ValueKind::String(text.clone().into_owned()),
            DeValue::Integer(number) => integer(number),
            DeValue::Float(number) => ValueKind::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => ValueKind::Boolean(*flag),
            // No key is a date; without a kind of its own, it fits none.
            DeValue::Datetime(_) => ValueKind::Nil,
            DeValue::Array(array) => ValueKind::Array(self.array(array, dropped)),
            DeValue::Table(table) => ValueKind::Table(self.table(table, dropped)),
        }
    }

    fn array(self, array: &DeArray<'_>, dropped: &[usize]) -> Vec<Value> {
        let place = |entry: &Spanned<DeValue<'_>>| self.position(entry.span().start).0;
        array.iter().map(|entry| self.value(entry.get_ref(), place(entry), dropped)).collect()
    }
}

/// May a line with an error in it be quoted? One that gives a known key a value may, unless values of that key are secrets, and so
/// may a header of a section. Any other line may be part of a text that holds a secret.
fn may_be_shown(line: &str, schema: &Schema) -> bool {
    if mentions_secret(line) {
        return false;
    }
    let Some((key, _)) = line.split_once('=') else {
        return line.starts_with('[') && !line.contains([':', '@']);
    };
    let last = key.trim().rsplit('.').next().unwrap_or_default().trim_matches(['"', '\'', ' ']);
    let mut rules = Vec::new();
    schema.root().rules_of(last, &mut rules);
    !rules.is_empty() && rules.into_iter().all(|rule: Rule<'_>| !rule.holds_marks())
}

/// Beyond 64 bits, too: it is an integer all the same, only out of range.
fn integer(number: &DeInteger<'_>) -> ValueKind {
    let (text, radix) = (number.as_str(), number.radix());
    match i64::from_str_radix(text, radix) {
        Ok(number) => ValueKind::I64(number),
        Err(_) if text.starts_with('-') => {
            ValueKind::I128(i128::from_str_radix(text, radix).unwrap_or(i128::MIN))
        }
        Err(_) => ValueKind::I128(i128::from_str_radix(text, radix).unwrap_or(i128::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(tree: &Value) -> Vec<(String, String)> {
        let ValueKind::Table(table) = &tree.kind else { return Vec::new() };
        let mut places = Vec::new();
        for (key, value) in table {
            places.push((key.clone(), value.origin().unwrap_or_default().to_owned()));
            places
                .extend(self::places(value).into_iter().map(|(sub, place)| (format!("{key}.{sub}"), place)));
        }
        places.sort();
        places
    }

    /// Schema of the file in this test.
    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema counts")]
    struct Toy {
        a: u32,
        #[schemars(extend("format" = "address"))]
        url: String,
        #[schemars(extend("format" = "secret"))]
        token: String,
    }

    fn read(file: &str, text: &str) -> (Value, Vec<Refusal>) {
        super::read(file, text, &Schema::of::<Toy>())
    }

    #[test]
    fn a_line_that_may_hold_a_secret_is_not_quoted() {
        for (text, told) in [
            ("a = 12h\n", "12h is no value; a string needs quotes: \"12h\""),
            ("url = amqp://u:S3CR3T@h/\n", "this is no value; a string needs quotes"),
            ("a = amqp://u:S3CR3T@h/\n", "this is no value; a string needs quotes"),
            ("token = S3CR3T\n", "this is no value; a string needs quotes"),
            ("tokn = S3CR3T\n", "this is no value; a string needs quotes"),
            ("url = \"amqp://u:S3CR3T@h/\n", "this line is no TOML: "),
            ("token: S3CR3T\n", "this line is no TOML: "),
            ("token = \"\"\"\nS3CR3T\n", "this line is no TOML: "),
            ("x.token = [\nS3CR3T, 1]\n", "this is no value; a string needs quotes"),
            ("[s.\"amqp://u:S3CR3T@h\"\n", "this line is no TOML: "),
            ("[s\n", "`[s` is no TOML: "),
        ] {
            let (_, broken) = read("x", text);
            assert!(broken[0].text.starts_with(told), "{text}: {broken:?}");
            assert!(!format!("{broken:?}").contains("S3CR3T"), "{text}: {broken:?}");
        }
    }

    #[test]
    fn every_value_knows_its_line() {
        let (tree, broken) = read("x.toml", "a.b = 1\n\n[s]\n# c\nd = '''\n\n'''\ne = 2\n[s.t]\nf = 1\n");
        assert_eq!(broken, []);
        let expected = [
            ("a", "x.toml:1"),
            ("a.b", "x.toml:1"),
            ("s", "x.toml:3"),
            ("s.d", "x.toml:5"),
            ("s.e", "x.toml:8"),
            ("s.t", "x.toml:9"),
            ("s.t.f", "x.toml:10"),
        ];
        assert_eq!(places(&tree), expected.map(|(key, place)| (key.to_owned(), place.to_owned())));
    }

    #[test]
    fn all_syntax_errors_are_told_and_what_is_sound_is_kept() {
        let (tree, broken) = read("x", "[s]\na = 12h\nb = 1\nb = 2\nc = 3\n");
        let broken: Vec<_> = broken.iter().map(|refusal| refusal.place.as_str()).collect();
        assert_eq!(broken, ["x:2:5", "x:4:1"]);
        let kept: Vec<_> = places(&tree).into_iter().map(|(key, _)| key).collect();
        assert_eq!(kept, ["s", "s.b", "s.c"]);
        let (tree, broken) = read("x", "[s\na = 1\n");
        assert_eq!((broken.len(), places(&tree).len()), (1, 0), "nothing is guessed after an open bracket");
    }

    #[test]
    fn huge_integers_are_integers() {
        let huge = read_value("99999999999999999999", "here").unwrap();
        assert_eq!(huge.kind, ValueKind::I128(99_999_999_999_999_999_999));
        assert_eq!(read_value("0x1f", "here").unwrap().kind, ValueKind::I64(31));
        assert_eq!(read_value("yes", "here"), None);
    }
}
