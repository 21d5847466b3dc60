//! Detection of passwords in values, by the formats in the schema. No I/O.

use config::{Value, ValueKind};
use serde_json::Value as Json;

use super::{
    report::Diagnostic,
    schema::{Rule, Schema, ValueFormat},
    value_path::{Step, dotted, position, walk},
};
use orchestrator_subsystem::redaction::{may_hold_secret, may_quote_secret, redact_addresses};

/// Keys for the secret of an address, with the hint to use them, in the order of preference.
const SECRET_KEYS: [(&str, &str); 4] = [
    ("password_file", "put the password into a file and set password_file to its path"),
    ("headers_file", "put a header with it into a file and set headers_file to its path"),
    ("credential_file", "put it into a file and set credential_file to its path"),
    ("token_file", "put it into a file and set token_file to its path"),
];

/// Finds addresses with passwords, and such addresses in keys for something else. The messages do not quote
/// them.
pub(super) fn find(tree: &Value, schema: &Schema) -> Vec<(Vec<Step>, Diagnostic)> {
    let mut found = Vec::new();
    walk(tree, schema.root(), &mut Vec::new(), &mut |steps, key, value, rule, table| {
        let mistake = mistake_in(key, value, rule);
        found.extend(mistake.as_ref().map(|mistake| (steps.to_vec(), mistake.text(key, table))));
        mistake.is_some()
    });
    let diagnostic = |(steps, text): (Vec<Step>, String)| {
        let diagnostic = Diagnostic { position: position(tree, &steps), key: dotted(tree, &steps), text };
        (steps, diagnostic)
    };
    found.into_iter().map(diagnostic).collect()
}

/// Kind of a misplaced password.
enum Mistake {
    /// An address contains a password.
    Password,
    /// The value of a key for something else looks like an address with a password.
    Misplaced,
}

impl Mistake {
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
        (ValueKind::String(text), Some(ValueFormat::Address | ValueFormat::Webhook)) => {
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

/// Removes passwords in the texts of `value` that hold secrets only by mistake, such as a catalog's columns.
pub(super) fn redacted(value: Json) -> Json {
    match value {
        Json::String(text) => Json::String(redact_addresses(&text)),
        Json::Array(list) => list.into_iter().map(redacted).collect(),
        Json::Object(table) => table.into_iter().map(|(key, value)| (key, redacted(value))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_password_in_a_column_is_not_shown() {
        let columns = json!({ "a": ["https://me:pw@h/", 7, null], "token": "$token" });
        assert_eq!(redacted(columns), json!({ "a": ["https://***@h/", 7, null], "token": "$token" }));
    }
}
