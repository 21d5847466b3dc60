//! Passwords in values: which keys may not have them, and how values are shown. The schema's marks decide. Pure.

use config::{Value, ValueKind};
use serde_json::Value as Json;

use super::{
    check::Step,
    explain,
    report::Refusal,
    schema::{Mark, Rule, Schema},
};
use orchestrator_subsystem::redaction::{
    HIDDEN, holds_secret, mentions_secret, names_secret, scrubbed, scrubbed_addresses, shown,
};

/// Keys that hold a secret in place of an address, and what belongs there, in the order of preference.
const ELSEWHERE: [(&str, &str); 4] = [
    ("password_file", "it holds a password: put that into a file, and name the file in password_file"),
    (
        "headers_file",
        "it may hold a password: put a header with it into a file and name that in headers_file",
    ),
    ("credential_file", "it may hold a password: put it into a file and name that in credential_file"),
    ("token_file", "it may hold a password: put it into a file and name that in token_file"),
];

/// Finds addresses with passwords, and values that look like one where none belongs. The texts do not repeat them.
pub(super) fn find(tree: &Value, schema: &Schema) -> Vec<(Vec<Step>, Refusal)> {
    let mut found = Vec::new();
    search(tree, schema.root(), &mut Vec::new(), &mut found);
    let refusal = |(steps, text): (Vec<Step>, String)| {
        let refusal =
            Refusal { place: explain::place(tree, &steps), key: explain::dotted(tree, &steps), text };
        (steps, refusal)
    };
    found.into_iter().map(refusal).collect()
}

fn search(value: &Value, rule: Rule<'_>, steps: &mut Vec<Step>, found: &mut Vec<(Vec<Step>, String)>) {
    match &value.kind {
        ValueKind::Table(table) if !rule.is_free() => {
            for (key, value) in table {
                let Some(inner) = rule.key(key) else { continue };
                steps.push(Step::Key(key.clone()));
                match complaint_of(key, value, inner) {
                    Some(complaint) => found.push((steps.clone(), complaint.text(key, rule))),
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

/// Mistake in a value.
enum Complaint {
    /// An address has a password.
    Password,
    /// Text that is no address looks like one with a password.
    Misplaced,
}

impl Complaint {
    /// `table` has the key.
    fn text(&self, key: &str, table: Rule<'_>) -> String {
        match self {
            Self::Password => {
                let own_file = format!("{key}_file");
                let elsewhere = ELSEWHERE.iter().find(|(other, _)| table.key(other).is_some());
                match elsewhere {
                    _ if table.key(&own_file).is_some() => {
                        format!("..: it may hold a password: put it into a file and name that in {own_file}")
                    }
                    Some((_, text)) => format!("..: {text}"),
                    None => "..: it may hold a password, which does not belong here: leave it out".to_owned(),
                }
            }
            Self::Misplaced => {
                "..: it looks like an address with a password: this key is for something else".to_owned()
            }
        }
    }
}

fn complaint_of(key: &str, value: &Value, rule: Rule<'_>) -> Option<Complaint> {
    match (&value.kind, rule.mark()) {
        // Names of entries stand in every complaint about them.
        (ValueKind::String(text), None) if key == "name" => {
            mentions_secret(text).then_some(Complaint::Misplaced)
        }
        (ValueKind::String(text), Some(Mark::Address)) => holds_secret(text).then_some(Complaint::Password),
        (ValueKind::String(text), None) => {
            (scrubbed_addresses(text) != *text).then_some(Complaint::Misplaced)
        }
        (ValueKind::Array(entries), Some(Mark::Address)) => {
            let holds = |one: &Value| matches!(&one.kind, ValueKind::String(text) if holds_secret(text));
            entries.iter().any(holds).then_some(Complaint::Password)
        }
        _ => None,
    }
}

/// `value` as whoever may look at the configuration may see it.
pub(super) fn redacted(value: Json, rule: Option<Rule<'_>>) -> Json {
    let mark = rule.and_then(Rule::mark);
    match (value, mark) {
        (Json::Null, _) => Json::Null,
        (Json::Object(map), mark) => {
            let inner = |(name, value): (String, Json)| {
                let value = match mark {
                    Some(Mark::Secret) => Json::String(HIDDEN.to_owned()),
                    _ => redacted(value, rule.and_then(|rule| rule.key(&name))),
                };
                (name, value)
            };
            Json::Object(map.into_iter().map(inner).collect())
        }
        (_, Some(Mark::Secret)) => Json::String(HIDDEN.to_owned()),
        (Json::Array(list), Some(Mark::Command)) => Json::Array(arguments(list)),
        (Json::Array(list), Some(_)) => {
            Json::Array(list.into_iter().map(|one| redacted(one, rule)).collect())
        }
        (Json::Array(list), None) => {
            let item = rule.and_then(Rule::item);
            Json::Array(list.into_iter().map(|one| redacted(one, item)).collect())
        }
        (Json::String(text), Some(Mark::Address)) => Json::String(shown(&text)),
        (Json::String(text), Some(Mark::Header)) => Json::String(header(&text)),
        (Json::String(text), _) => Json::String(scrubbed_addresses(&text)),
        (other, _) => other,
    }
}

/// `Name: value` without the value.
fn header(line: &str) -> String {
    line.split_once(':').map_or_else(|| HIDDEN.to_owned(), |(name, _)| format!("{name}: {HIDDEN}"))
}

/// Arguments, those left out that look like a password or follow an option that is named like one.
fn arguments(list: Vec<Json>) -> Vec<Json> {
    let mut follows = false;
    let mut shown = |one: Json| {
        let Json::String(text) = one else { return one };
        let hidden = std::mem::take(&mut follows);
        follows = text.starts_with('-') && !text.contains('=') && names_secret(&text);
        Json::String(if hidden { HIDDEN.to_owned() } else { scrubbed(&text) })
    };
    list.into_iter().map(&mut shown).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(schemars::JsonSchema)]
    #[schemars(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema counts")]
    struct Toy {
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
    #[expect(dead_code, reason = "only its schema counts")]
    struct Inner {
        name: String,
        #[schemars(extend("format" = "address"))]
        dsn: String,
    }

    #[test]
    fn what_is_marked_is_hidden_and_the_rest_is_shown() {
        let schema = Schema::of::<Toy>();
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
        assert_eq!(redacted(shown.clone(), Some(schema.root())), shown, "what is hidden stays so");
    }
}
