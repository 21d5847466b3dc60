//! TOML text as a tree of values with their positions.

use config::{Map, Value, ValueKind};
use toml::{
    Spanned,
    de::{DeArray, DeInteger, DeTable, DeValue},
};

use super::{
    report::{Diagnostic, excerpt},
    schema::{Rule, Schema},
};
use orchestrator_subsystem::redaction::may_quote_secret;

/// Syntax errors that affect only their own line. After other errors, such as a missing bracket, the rest of
/// the file is unreliable.
const LOCAL_ERRORS: &[&str] = &["duplicate key", "key with no value", UNQUOTED, "unexpected leading zero"];

/// Start of the parser's message for an unquoted word, or nothing, in place of a value.
const UNQUOTED: &str = "string values must be quoted";

/// Parses `text`, the content of `file`. Every value has `FILE:LINE` as its origin. Returns the values and
/// the syntax errors. Without a reliable part, the tree is empty.
pub(super) fn read(file: &str, text: &str, schema: &Schema) -> (Value, Vec<Diagnostic>) {
    let lines = Lines { file, text };
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut broken: Vec<(usize, usize, String)> = Vec::new();
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        let (line, column) = lines.position(at);
        // Later errors on the same line are mostly consequences of the first.
        if broken.iter().all(|(other, ..)| *other != line) {
            broken.push((line, column, lines.syntax(error, schema)));
        }
    }
    broken.sort();
    let reliable =
        errors.iter().all(|error| LOCAL_ERRORS.iter().any(|local| error.message().starts_with(local)));
    let dropped: Vec<usize> = broken.iter().map(|(line, ..)| *line).collect();
    let tree = if reliable { lines.table(table.get_ref(), &dropped) } else { Map::new() };
    let diagnostics = broken.into_iter().map(|(line, column, text)| Diagnostic {
        position: format!("{file}:{line}:{column}"),
        key: String::new(),
        text,
    });
    (Value::new(Some(&file.to_owned()), tree), diagnostics.collect())
}

/// Parses a single value with the origin `place`. Returns `None` if `text` is not a TOML value.
pub(crate) fn read_value(text: &str, position: &str) -> Option<Value> {
    let parsed = DeValue::parse(text).ok()?;
    let value = Lines { file: position, text }.kind(parsed.get_ref(), &[]);
    Some(with_origin(Value::new(None, value), position))
}

/// Sets the origin of `value` and of all values in it.
fn with_origin(value: Value, position: &str) -> Value {
    let kind = match value.kind {
        ValueKind::Table(table) => ValueKind::Table(
            table.into_iter().map(|(key, value)| (key, with_origin(value, position))).collect(),
        ),
        ValueKind::Array(array) => {
            ValueKind::Array(array.into_iter().map(|value| with_origin(value, position)).collect())
        }
        plain => plain,
    };
    Value::new(Some(&position.to_owned()), kind)
}

/// The text of a file, with its name for origins.
#[derive(Clone, Copy)]
struct Lines<'a> {
    file: &'a str,
    text: &'a str,
}

impl Lines<'_> {
    /// Line and column of the byte `at`, both from 1, the column in characters.
    fn position(self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }

    /// Formats a syntax error. It quotes the line unless that may hold a secret.
    fn syntax(self, error: &toml::de::Error, schema: &Schema) -> String {
        let span = error.span().unwrap_or_default();
        let words = self.text.get(span.clone()).unwrap_or_default();
        let line = self.text.lines().nth(self.position(span.start).0 - 1).unwrap_or_default().trim();
        let key = line.split('=').next().unwrap_or_default().trim();
        match (error.message(), words) {
            ("duplicate key", words) => format!("{} is defined twice; keep one of them", excerpt(words)),
            (message, "") if message.starts_with(UNQUOTED) => format!("{key} has no value"),
            (message, words) if message.starts_with(UNQUOTED) => {
                if may_be_shown(line, schema) && !may_quote_secret(words) {
                    let words = excerpt(words);
                    format!("{words} is not a TOML value; a string needs quotes: {words:?}")
                } else {
                    "this is not a TOML value; a string needs quotes".to_owned()
                }
            }
            (message, _) if may_be_shown(line, schema) => {
                format!("`{}` is not valid TOML: {message}", excerpt(line))
            }
            (message, _) => format!("this line is not valid TOML: {message}"),
        }
    }

    /// Converts a table without the keys on the lines `dropped`. A section stays even if its header is on
    /// such a line.
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
            // No key expects a date, and `ValueKind` has no variant for one.
            DeValue::Datetime(_) => ValueKind::Nil,
            DeValue::Array(array) => ValueKind::Array(self.array(array, dropped)),
            DeValue::Table(table) => ValueKind::Table(self.table(table, dropped)),
        }
    }

    fn array(self, array: &DeArray<'_>, dropped: &[usize]) -> Vec<Value> {
        let line = |entry: &Spanned<DeValue<'_>>| self.position(entry.span().start).0;
        array.iter().map(|entry| self.value(entry.get_ref(), line(entry), dropped)).collect()
    }
}

/// A line with a syntax error may be quoted if it is an assignment to a known key without secrets, or a
/// section header. Any other line may be part of a text with a secret.
fn may_be_shown(line: &str, schema: &Schema) -> bool {
    if may_quote_secret(line) {
        return false;
    }
    let Some((key, _)) = line.split_once('=') else {
        return line.starts_with('[') && !line.contains([':', '@']);
    };
    let last = key.trim().rsplit('.').next().unwrap_or_default().trim_matches(['"', '\'', ' ']);
    let mut rules = Vec::new();
    schema.root().rules_of(last, &mut rules);
    !rules.is_empty() && rules.into_iter().all(|rule: Rule<'_>| !rule.needs_redaction())
}

/// Converts an integer. One beyond 64 bits stays an integer, so that it is reported as out of range.
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

    fn origins(tree: &Value) -> Vec<(String, String)> {
        let ValueKind::Table(table) = &tree.kind else { return Vec::new() };
        let mut origins = Vec::new();
        for (key, value) in table {
            origins.push((key.clone(), value.origin().unwrap_or_default().to_owned()));
            origins.extend(
                self::origins(value).into_iter().map(|(sub, position)| (format!("{key}.{sub}"), position)),
            );
        }
        origins.sort();
        origins
    }

    /// Schema of the file in this test.
    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct TestConfig {
        a: u32,
        #[schemars(extend("format" = "address"))]
        url: String,
        #[schemars(extend("format" = "secret"))]
        token: String,
    }

    fn read(file: &str, text: &str) -> (Value, Vec<Diagnostic>) {
        super::read(file, text, &Schema::of::<TestConfig>())
    }

    #[test]
    fn a_line_that_may_hold_a_secret_is_not_quoted() {
        for (text, expected) in [
            ("a = 12h\n", "12h is not a TOML value; a string needs quotes: \"12h\""),
            ("url = amqp://u:S3CR3T@h/\n", "this is not a TOML value; a string needs quotes"),
            ("a = amqp://u:S3CR3T@h/\n", "this is not a TOML value; a string needs quotes"),
            ("token = S3CR3T\n", "this is not a TOML value; a string needs quotes"),
            ("tokn = S3CR3T\n", "this is not a TOML value; a string needs quotes"),
            ("url = \"amqp://u:S3CR3T@h/\n", "this line is not valid TOML: "),
            ("token: S3CR3T\n", "this line is not valid TOML: "),
            ("token = \"\"\"\nS3CR3T\n", "this line is not valid TOML: "),
            ("x.token = [\nS3CR3T, 1]\n", "this is not a TOML value; a string needs quotes"),
            ("[s.\"amqp://u:S3CR3T@h\"\n", "this line is not valid TOML: "),
            ("[s\n", "`[s` is not valid TOML: "),
        ] {
            let (_, broken) = read("x", text);
            assert!(broken[0].text.starts_with(expected), "{text}: {broken:?}");
            assert!(!format!("{broken:?}").contains("S3CR3T"), "{text}: {broken:?}");
        }
    }

    #[test]
    fn every_value_has_its_line_as_origin() {
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
        assert_eq!(origins(&tree), expected.map(|(key, position)| (key.to_owned(), position.to_owned())));
    }

    #[test]
    fn all_syntax_errors_are_reported_and_valid_lines_are_kept() {
        let (tree, broken) = read("x", "[s]\na = 12h\nb = 1\nb = 2\nc = 3\n");
        let broken: Vec<_> = broken.iter().map(|diagnostic| diagnostic.position.as_str()).collect();
        assert_eq!(broken, ["x:2:5", "x:4:1"]);
        let kept: Vec<_> = origins(&tree).into_iter().map(|(key, _)| key).collect();
        assert_eq!(kept, ["s", "s.b", "s.c"]);
        let (tree, broken) = read("x", "[s\na = 1\n");
        assert_eq!((broken.len(), origins(&tree).len()), (1, 0), "nothing is read after an open bracket");
    }

    #[test]
    fn huge_integers_are_integers() {
        let huge = read_value("99999999999999999999", "here").unwrap();
        assert_eq!(huge.kind, ValueKind::I128(99_999_999_999_999_999_999));
        assert_eq!(read_value("0x1f", "here").unwrap().kind, ValueKind::I64(31));
        assert_eq!(read_value("yes", "here"), None);
    }
}
