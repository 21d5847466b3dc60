//! Detection of passwords in values, and redaction of a configuration, by the formats in the schema. No I/O.

use config::{Value, ValueKind};
use serde_json::Value as Json;

use super::{
    report::Diagnostic,
    schema::{Rule, Schema, ValueFormat},
    value_path::{Step, dotted, position},
};
use orchestrator_subsystem::redaction::{
    REDACTED, is_secret_name, may_hold_secret, may_quote_secret, redact, redact_address, redact_addresses,
};

/// Keys for the secret of an address, with the hint to use them, in the order of preference.
const SECRET_KEYS: [(&str, &str); 4] = [
    ("password_file", "put the password into a file and set password_file to its path"),
    ("headers_file", "put a header with it into a file and set headers_file to its path"),
    ("credential_file", "put it into a file and set credential_file to its path"),
    ("token_file", "put it into a file and set token_file to its path"),
];

/// Finds addresses with passwords, and such addresses in keys for something else. The messages do not quote them.
pub(super) fn find(tree: &Value, schema: &Schema) -> Vec<(Vec<Step>, Diagnostic)> {
    let mut found = Vec::new();
    search(tree, schema.root(), &mut Vec::new(), &mut found);
    let diagnostic = |(steps, text): (Vec<Step>, String)| {
        let diagnostic = Diagnostic { position: position(tree, &steps), key: dotted(tree, &steps), text };
        (steps, diagnostic)
    };
    found.into_iter().map(diagnostic).collect()
}

fn search(value: &Value, rule: Rule<'_>, steps: &mut Vec<Step>, found: &mut Vec<(Vec<Step>, String)>) {
    match &value.kind {
        ValueKind::Table(table) if !rule.is_free() => {
            for (key, value) in table {
                let Some(inner) = rule.key(key) else { continue };
                steps.push(Step::Key(key.clone()));
                match mistake_in(key, value, inner) {
                    Some(mistake) => found.push((steps.clone(), mistake.text(key, rule))),
                    None => search(value, inner, steps, found),
                }
                steps.pop();
            }
        }
        ValueKind::Array(entries) => {
            let Some(item) = rule.item() else { return };
            for (index, value) in entries.iter().enumerate() {
                steps.push(Step::Index(index));
                search(value, item, steps, found);
                steps.pop();
            }
        }
        _ => {}
    }
}

/// Kind of a misplaced password.
enum Mistake {
    /// An address contains a password.
    Password,
    /// The value of a key for something else looks like an address with a password.
    Misplaced,
}

impl Mistake {
    /// Returns the message for `key` in the table with the rule `table`.
    fn text(&self, key: &str, table: Rule<'_>) -> String {
        match self {
            Self::Password => {
                let own_file = format!("{key}_file");
                let hint = SECRET_KEYS.iter().find(|(other, _)| table.key(other).is_some());
                match hint {
                    _ if table.key(&own_file).is_some() => {
                        format!(
                            "..: it may contain a password: put it into a file and set {own_file} to its path"
                        )
                    }
                    Some((_, hint)) => format!("..: it may contain a password: {hint}"),
                    None => "..: it may contain a password, which is not allowed here: remove it".to_owned(),
                }
            }
            Self::Misplaced => {
                "..: it looks like an address with a password, but this key does not hold an address"
                    .to_owned()
            }
        }
    }
}

fn mistake_in(key: &str, value: &Value, rule: Rule<'_>) -> Option<Mistake> {
    match (&value.kind, rule.value_format()) {
        // Error messages show the names of entries.
        (ValueKind::String(text), None) if key == "name" => {
            may_quote_secret(text).then_some(Mistake::Misplaced)
        }
        (ValueKind::String(text), Some(ValueFormat::Address)) => {
            may_hold_secret(text).then_some(Mistake::Password)
        }
        (ValueKind::String(text), None) => (redact_addresses(text) != *text).then_some(Mistake::Misplaced),
        (ValueKind::Array(entries), Some(ValueFormat::Address)) => {
            let holds = |one: &Value| matches!(&one.kind, ValueKind::String(text) if may_hold_secret(text));
            entries.iter().any(holds).then_some(Mistake::Password)
        }
        _ => None,
    }
}

/// Redacts the configuration `value` for display.
pub(super) fn redacted(value: Json, rule: Option<Rule<'_>>) -> Json {
    let format = rule.and_then(Rule::value_format);
    match (value, format) {
        (Json::Null, _) => Json::Null,
        (Json::Object(map), format) => {
            let inner = |(name, value): (String, Json)| {
                let value = match format {
                    Some(ValueFormat::Secret) => Json::String(REDACTED.to_owned()),
                    _ => redacted(value, rule.and_then(|rule| rule.key(&name))),
                };
                (name, value)
            };
            Json::Object(map.into_iter().map(inner).collect())
        }
        (_, Some(ValueFormat::Secret)) => Json::String(REDACTED.to_owned()),
        (Json::Array(list), Some(ValueFormat::Command)) => Json::Array(arguments(list)),
        (Json::Array(list), Some(_)) => {
            Json::Array(list.into_iter().map(|one| redacted(one, rule)).collect())
        }
        (Json::Array(list), None) => {
            let item = rule.and_then(Rule::item);
            Json::Array(list.into_iter().map(|one| redacted(one, item)).collect())
        }
        (Json::String(text), Some(ValueFormat::Address)) => Json::String(redact_address(&text)),
        (Json::String(text), Some(ValueFormat::Header)) => Json::String(header(&text)),
        (Json::String(text), _) => Json::String(redact_addresses(&text)),
        (other, _) => other,
    }
}

/// Redacts the value of a header `Name: value`.
fn header(line: &str) -> String {
    line.split_once(':').map_or_else(|| REDACTED.to_owned(), |(name, _)| format!("{name}: {REDACTED}"))
}

/// Redacts arguments that may be a password, or that follow an option with the name of a secret.
fn arguments(list: Vec<Json>) -> Vec<Json> {
    let mut is_value_of_secret = false;
    let mut redact_argument = |one: Json| {
        let Json::String(text) = one else { return one };
        let hidden = std::mem::take(&mut is_value_of_secret);
        is_value_of_secret = text.starts_with('-') && !text.contains('=') && is_secret_name(&text);
        Json::String(if hidden { REDACTED.to_owned() } else { redact(&text) })
    };
    list.into_iter().map(&mut redact_argument).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(schemars::JsonSchema)]
    #[schemars(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct TestConfig {
        #[schemars(extend("format" = "address"))]
        url: Option<String>,
        #[schemars(extend("format" = "address"))]
        hosts: Vec<String>,
        url_file: String,
        #[schemars(extend("format" = "secret"))]
        token: String,
        #[schemars(extend("format" = "secret"))]
        env: std::collections::BTreeMap<String, String>,
        #[schemars(extend("format" = "header"))]
        headers: Vec<String>,
        #[schemars(extend("format" = "command"))]
        argv: Vec<String>,
        columns: std::collections::BTreeMap<String, Json>,
        inner: Vec<Inner>,
    }

    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Inner {
        name: String,
        #[schemars(extend("format" = "address"))]
        dsn: String,
    }

    #[test]
    fn marked_values_are_redacted_and_others_are_shown() {
        let schema = Schema::of::<TestConfig>();
        let config = json!({
            "url": "amqp://me:pw@h/v", "hosts": ["h", "u:pw@h"], "url_file": "/run/x", "token": "pw",
            "env": { "A": "pw" }, "headers": ["X-Key: pw", "pw"], "columns": { "token": "$token", "n": 7, "env": null },
            "argv": ["/bin/work", "--password", "pw", "--token=pw", "https://u:pw@h/", "-v", "x"],
            "inner": [{ "name": "a", "dsn": "host=h password=pw" }],
        });
        let shown = json!({
            "url": "amqp://***@h/v", "hosts": ["h", "***"], "url_file": "/run/x", "token": "***",
            "env": { "A": "***" }, "headers": ["X-Key: ***", "***"], "columns": { "token": "$token", "n": 7, "env": null },
            "argv": ["/bin/work", "--password", "***", "--token=***", "https://***@h/", "-v", "x"],
            "inner": [{ "name": "a", "dsn": "***" }],
        });
        assert_eq!(redacted(config, Some(schema.root())), shown);
        assert_eq!(redacted(shown.clone(), Some(schema.root())), shown, "redacting twice changes nothing");
    }
}
