//! Takes out of a configuration what must not be shown: values under names of secrets, and credentials in URLs. Pure.

use serde_json::Value;

/// What stands there instead.
const HIDDEN: &str = "***";
/// Last words of names whose values are secret. A `*_file` names a place and is shown.
const SECRET: [&str; 7] = ["password", "passphrase", "secret", "token", "key", "credentials", "dsn"];

/// `value` as whoever may look at the configuration may see it.
pub(crate) fn redacted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let shown = |(name, value): (String, Value)| {
                let hidden = is_secret(&name) && !value.is_null();
                let value = if hidden { Value::String(HIDDEN.to_owned()) } else { redacted(value) };
                (name, value)
            };
            Value::Object(map.into_iter().map(shown).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(redacted).collect()),
        Value::String(text) => Value::String(without_credentials(&text)),
        other => other,
    }
}

fn is_secret(name: &str) -> bool {
    // A bare key tells rows apart; a secret one says what it is the key to.
    if name == "key" {
        return false;
    }
    let last = name.rsplit(['_', '-']).next().unwrap_or_default().to_ascii_lowercase();
    SECRET.contains(&last.strip_suffix('s').unwrap_or(&last)) || SECRET.contains(&last.as_str())
}

/// `amqp://user:password@host/` as `amqp://***@host/`. A password may have any character: all before the last `@` goes.
fn without_credentials(text: &str) -> String {
    match text.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest, rest.rfind('@')?))) {
        Some((scheme, rest, at)) => format!("{scheme}://{HIDDEN}{}", &rest[at..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_hidden_and_places_shown() {
        let config = json!({
            "amqp": { "url": "amqp://me:p/?a@ss@host:5672/v", "password": "pw", "password_file": "/run/pw" },
            "peers": [{ "api_token": 7, "tokens": ["a"], "key": null, "api_key": "k" }, { "key": "RID" }, "redis://u:p@[::1]/0"],
            "plain": "http://host/x", "at": "me@home", "hold_secs": 60, "keyboard": "de",
        });
        let shown = json!({
            "amqp": { "url": "amqp://***@host:5672/v", "password": "***", "password_file": "/run/pw" },
            "peers": [{ "api_token": "***", "tokens": "***", "key": null, "api_key": "***" }, { "key": "RID" }, "redis://***@[::1]/0"],
            "plain": "http://host/x", "at": "me@home", "hold_secs": 60, "keyboard": "de",
        });
        assert_eq!(redacted(config), shown);
        assert_eq!(redacted(shown.clone()), shown, "what is hidden stays so");
    }
}
