//! Detection of passwords in values, and redaction of a configuration, by the formats in the schema. No I/O.

use config::{Value, ValueKind};
use serde_json::Value as Json;

use super::{
    report::Diagnostic,
    schema::{Rule, Schema, ValueFormat},
    value_path::{Step, dotted, position, walk},
};
use orchestrator_subsystem::redaction::{
    REDACTED, may_hold_secret, may_quote_secret, redact_address, redact_addresses, redact_command,
};

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
        (Json::String(text), Some(ValueFormat::Webhook)) => Json::String(webhook(&text)),
        (Json::String(text), Some(ValueFormat::Header)) => Json::String(header(&text)),
        (Json::String(text), _) => Json::String(redact_addresses(&text)),
        (other, _) => other,
    }
}

/// Redacts the value of a header `Name: value`.
fn header(line: &str) -> String {
    line.split_once(':').map_or_else(|| REDACTED.to_owned(), |(name, _)| format!("{name}: {REDACTED}"))
}

/// Redacts the arguments of a program.
fn arguments(list: Vec<Json>) -> Vec<Json> {
    redact_command(list.iter().map(|one| one.as_str().unwrap_or_default()))
        .into_iter()
        .map(Json::String)
        .collect()
}

/// Redacts the address of a webhook: services such as Slack have a token in its path.
fn webhook(url: &str) -> String {
    let url = redact_address(url);
    let host = url.find("://").map_or(0, |at| at + "://".len());
    match url[host..].find(['/', '?', '#']) {
        Some(end) if url.len() > host + end + 1 => format!("{}/{REDACTED}", &url[..host + end]),
        _ => url,
    }
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
        #[schemars(extend("format" = "webhook"))]
        hook: String,
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

    /// Arguments of programs such as curl, also within a text for a shell.
    #[test]
    fn secrets_in_arguments_are_redacted() {
        let path = "services/T0123/B0123/S3CR3Tabc0123456789";
        for (argv, shown) in [
            (vec!["mysql", "-pS3CR3T", "d"], vec!["mysql", "-p***", "d"]),
            (vec!["sshpass", "-p", "S3CR3T", "ssh", "h"], vec!["sshpass", "-p", "***", "ssh", "h"]),
            (vec!["curl", "-u", "me:S3CR3T", "x"], vec!["curl", "-u", "***", "x"]),
            (vec!["curl", "--user", "me:S3CR3T", "-v"], vec!["curl", "--user", "***", "-v"]),
            (vec!["curl", "-ume:S3CR3T", "--user=me:S3CR3T"], vec!["curl", "-u***", "--user=***"]),
            (vec!["curl", "-sSu", "me:S3CR3T", "-U", "p:S3CR3T"], vec!["curl", "-sSu", "***", "-U", "***"]),
            (vec!["curl", "-H", "Authorization: Bearer S3CR3T"], vec!["curl", "-H", "Authorization: ***"]),
            (vec!["curl", "-HX-Api-Key:S3CR3T"], vec!["curl", "-HX-Api-Key: ***"]),
            (vec!["curl", "--header=Private-Token: S3CR3T"], vec!["curl", "--header=Private-Token: ***"]),
            (vec!["curl", "--oauth2-bearer", "S3CR3T"], vec!["curl", "--oauth2-bearer", "***"]),
            (
                vec!["curl", "-b", "session=S3CR3T", "--cookie", "S3CR3T"],
                vec!["curl", "-b", "***", "--cookie", "***"],
            ),
            (vec!["work", "Bearer S3CR3T", "Basic S3CR3T="], vec!["work", "Bearer ***", "Basic ***"]),
        ] {
            check(&argv, &shown);
        }
        for (text, shown) in [
            ("curl -u me:S3CR3T https://h/ | sort -u", "curl -u *** https://h/ | sort -u"),
            ("curl -H 'Authorization: Bearer S3CR3T' -d x", "curl -H 'Authorization: ***' -d x"),
            ("curl -H \"X-Api-Key: S3CR3T\" -d x", "curl -H \"X-Api-Key: ***\" -d x"),
            ("curl -H Authorization:S3CR3T", "curl -H Authorization: ***"),
            ("work --password 'S3CR3T S3CR3T' -v", "work --password *** -v"),
            ("TOKEN=S3CR3T work", "TOKEN=*** work"),
        ] {
            check(&["sh", "-c", text], &["sh", "-c", shown]);
        }
        check(&["curl", &format!("https://h/{path}")], &["curl", "https://h/services/T0123/B0123/***"]);
        check(
            &["sh", "-c", &format!("curl 'https://h/{path}'")],
            &["sh", "-c", "curl 'https://h/services/T0123/B0123/***'"],
        );
    }

    fn check(argv: &[&str], shown: &[&str]) {
        let schema = Schema::of::<TestConfig>();
        let redacted = redacted(json!({ "argv": argv }), Some(schema.root()));
        assert_eq!(redacted, json!({ "argv": shown }), "{argv:?}");
    }

    #[test]
    fn other_arguments_are_shown() {
        for argv in [
            vec!["sort", "-u", "/data/names", "--user", "alice"],
            vec![
                "curl",
                "-H",
                "Content-Type: application/json",
                "https://h/ermrest/catalog/1/entity/T/state=1",
            ],
            vec!["sh", "-c", "work -v --level=3 'a: b' \"$row\" 2>&1; echo done: $?"],
            vec!["/usr/bin/work", "--password-file", "/run/x", "-n", "5", "12:30", "host:8080"],
        ] {
            check(&argv, &argv);
        }
    }

    #[test]
    fn marked_values_are_redacted_and_others_are_shown() {
        let schema = Schema::of::<TestConfig>();
        let config = json!({
            "url": "amqp://me:pw@h/v", "hosts": ["h", "u:pw@h"], "url_file": "/run/x", "token": "pw",
            "env": { "A": "pw" }, "headers": ["X-Key: pw", "pw"], "hook": "https://h/T0/pw", "columns": { "token": "$token", "n": 7, "env": null },
            "argv": ["/bin/work", "--password", "pw", "--token=pw", "https://u:pw@h/", "-v", "x"],
            "inner": [{ "name": "a", "dsn": "host=h password=pw" }],
        });
        let shown = json!({
            "url": "amqp://***@h/v", "hosts": ["h", "***"], "url_file": "/run/x", "token": "***",
            "env": { "A": "***" }, "headers": ["X-Key: ***", "***"], "hook": "https://h/***", "columns": { "token": "$token", "n": 7, "env": null },
            "argv": ["/bin/work", "--password", "***", "--token=***", "https://***@h/", "-v", "x"],
            "inner": [{ "name": "a", "dsn": "***" }],
        });
        assert_eq!(redacted(config, Some(schema.root())), shown);
        assert_eq!(redacted(shown.clone(), Some(schema.root())), shown, "redacting twice changes nothing");
    }
}
