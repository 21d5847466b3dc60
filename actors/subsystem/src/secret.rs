//! Configured texts with secrets. `Debug` and `Serialize` write them without the secret, so neither a log nor
//! an answer can show it.

use std::{borrow::Cow, cell::Cell, collections::BTreeMap, fmt, ops::Deref};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

use crate::redaction::{REDACTED, redact_address, redact_command};

thread_local! {
    /// True within [`with_secrets`].
    static IS_EXPOSED: Cell<bool> = const { Cell::new(false) };
}

/// Calls `serialize`, within which `Serialize` includes secrets: for a configuration that is compared,
/// written to a file of the operator, or read again.
pub fn with_secrets<T>(serialize: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_EXPOSED.set(self.0);
        }
    }
    let _restore = Restore(IS_EXPOSED.replace(true));
    serialize()
}

/// Declares types: what they hold, the schema, and the function that removes the secret.
macro_rules! with_redaction {
    ($($(#[$doc:meta])* $name:ident($inner:ty), $schema:tt, $redact:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Deserialize)]
        #[serde(transparent)]
        pub struct $name($inner);

        impl $name {
            /// Holds `plain`.
            pub fn new(plain: impl Into<$inner>) -> Self {
                Self(plain.into())
            }

            /// The value with its secret.
            pub fn expose(&self) -> &<$inner as Deref>::Target {
                &self.0
            }

            fn redacted(&self) -> $inner {
                $redact(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.redacted(), f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if IS_EXPOSED.get() { self.0.serialize(serializer) } else { self.redacted().serialize(serializer) }
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

with_redaction! {
    /// Token, password or value of a variable; nothing of it is shown.
    Secret(String), { "type": "string", "format": "secret" }, hide;

    /// Address or connection string; user and password are not shown.
    Address(String), { "type": "string", "format": "address" }, redact_address;

    /// Address of a webhook, of which scheme and host are shown: services such as Slack have a token in its
    /// path.
    WebhookUrl(String), { "type": "string", "format": "webhook" }, redact_webhook;

    /// Header `Name: value`, of which the name is shown.
    HeaderLine(String), { "type": "string", "format": "header" }, redact_header;

    /// Program and its arguments; those that may be secrets are not shown.
    CommandLine(Vec<String>), { "type": "array", "items": { "type": "string" }, "format": "command" },
        redact_argv;
}

impl CommandLine {
    /// True without a program.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Variables with their values in plain text.
pub fn exposed(variables: &BTreeMap<String, Secret>) -> BTreeMap<String, String> {
    variables.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect()
}

fn hide(_: &str) -> String {
    REDACTED.to_owned()
}

fn redact_webhook(url: &str) -> String {
    let url = redact_address(url);
    let host = url.find("://").map_or(0, |at| at + "://".len());
    match url[host..].find(['/', '?', '#']) {
        Some(end) if url.len() > host + end + 1 => format!("{}/{REDACTED}", &url[..host + end]),
        _ => url,
    }
}

fn redact_header(line: &str) -> String {
    line.split_once(':').map_or_else(|| REDACTED.to_owned(), |(name, _)| format!("{name}: {REDACTED}"))
}

fn redact_argv(argv: &[String]) -> Vec<String> {
    redact_command(argv.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json, to_value};

    use super::*;

    /// Configured keys of each kind.
    type Keys = (Secret, Address, Address, WebhookUrl, Vec<HeaderLine>, CommandLine);

    #[test]
    fn secrets_are_shown_only_where_the_code_says_so() {
        let plain = json!([
            "pw",
            "amqp://me:pw@h/v",
            "host=h password=pw",
            "https://h/T0/pw",
            ["X-Key: pw", "pw"],
            ["/bin/work", "--password", "pw", "--token=pw", "https://u:pw@h/", "-v", "x"],
        ]);
        let shown = json!([
            "***",
            "amqp://***@h/v",
            "***",
            "https://h/***",
            ["X-Key: ***", "***"],
            ["/bin/work", "--password", "***", "--token=***", "https://***@h/", "-v", "x"],
        ]);
        let read = |json: &Value| from_value::<Keys>(json.clone()).unwrap();
        let keys = read(&plain);
        assert_eq!(to_value(&keys).unwrap(), shown);
        assert_eq!(to_value(read(&shown)).unwrap(), shown, "redacting twice changes nothing");
        assert!(!format!("{keys:?}").contains("pw"), "{keys:?}");
        let nested = with_secrets(|| (with_secrets(|| to_value(&keys)).unwrap(), to_value(&keys).unwrap()));
        assert_eq!(nested, (plain.clone(), plain));
        assert_eq!(to_value(&keys).unwrap(), shown);
        assert_eq!((keys.0.expose(), keys.5.expose()[2].as_str()), ("pw", "pw"));
    }
}
