//! Configuration file of deriva, `~/.deriva/config.json`: server and session, for `config init`. The agent
//! itself is code, so the rule of the result is an example that claims nothing.

use std::path::Path;

use orchestrator_subsystem::OriginalContext;
use orchestrator_text::sanitize_to;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{edge::session::Session, request_retries::Retries};

/// Catalog with an example rule, which only shows what it would claim.
pub(crate) const EXAMPLE: &str = r#"[{
    "name": "catalog",
    "base": "https://localhost/ermrest/catalog/1",
    "rule": [{
        "name": "convert",
        "table": "isa:dataset",
        "filter": "state=actionable",
        "dry_run": true,
        "claim": {"set": {"state": "claimed", "claimed_by": "$token", "lease_until": "$now+15m"}},
        "handler": {"kind": "command", "argv": ["/usr/local/bin/convert"]},
        "done": {"state": "complete", "claimed_by": "$null", "lease_until": "$null"},
        "fail": {"state": "actionable", "claimed_by": "$null", "lease_until": "$null", "error": "$error"}
    }]
}]"#;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DerivaFile {
    server: Server,
}

#[derive(Debug, Deserialize)]
#[serde(default)]
struct Server {
    protocol: String,
    host: String,
    catalog_id: Value,
}

impl Default for Server {
    /// Returns the library's defaults.
    fn default() -> Self {
        Self { protocol: "https".to_owned(), host: "localhost".to_owned(), catalog_id: json!(1) }
    }
}

/// Translates the file into the section.
///
/// # Errors
/// The text is not such a file. The error repeats no value.
pub(crate) fn translate(text: &str, _file: &Path, context: &mut OriginalContext) -> Result<Value, String> {
    let invalid = |error: serde_json::Error| match error.line() {
        0 => "it is no configuration of deriva".to_owned(),
        line => format!("line {line}: it is no configuration of deriva"),
    };
    // A list of its values would fit the type, too.
    let object: Map<String, Value> = serde_json::from_str(text).map_err(invalid)?;
    let DerivaFile { server: Server { protocol, host, catalog_id } } =
        serde_json::from_value(Value::Object(object)).map_err(invalid)?;
    let mut section: Value = serde_json::from_str(EXAMPLE).map_err(invalid)?;
    let base = base(&protocol, &host, &catalog_id)
        .ok_or("server: write protocol http or https, the name of one host, and the catalog's number")?;
    let catalog = &mut section[0];
    catalog["name"] = json!(section_name(&host));
    catalog["base"] = json!(base);
    if let Some(Session { connect, read, retries, unverified_hosts }) = Session::parse(text)? {
        catalog["connect_timeout_ms"] = json!(connect.as_millis());
        catalog["read_timeout_ms"] = json!(read.as_millis());
        catalog["unverified_hosts"] = json!(unverified_hosts);
        if retries != Retries::default() {
            context.warn("session.retry_connect and other retries have no key: keep the file, which is read at the start");
        }
    }
    context
        .warn("catalog.rule: replace the example by the agent's query, claim and work, then remove dry_run");
    Ok(section)
}

/// Name of the section for a server.
pub(crate) fn section_name(host: &str) -> String {
    sanitize_to(host, 100)
}

/// Address of a catalog. None if a part cannot be one.
pub(crate) fn base(protocol: &str, host: &str, id: &Value) -> Option<String> {
    let id = match id {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => return None,
    };
    let plain =
        |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || "/?#@".contains(c));
    let is_address = plain(host) && plain(&id) && ["http", "https"].contains(&protocol);
    is_address.then(|| format!("{protocol}://{host}/ermrest/catalog/{id}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CatalogConfig, check};

    fn translated(text: &str) -> Result<Vec<CatalogConfig>, String> {
        translate(text, Path::new("config.json"), &mut OriginalContext::default())
            .map(|value| serde_json::from_value(value).unwrap())
    }

    #[test]
    fn server_and_session_are_taken_over() {
        let text = r#"{"server": {"protocol": "http", "host": "lab.example.org", "catalog_id": 7}, "oauth2_scopes": {},
            "session": {"timeout": [6, 2.5], "retry_read": 4, "bypass_cert_verify_host_list": ["localhost", "lab"]}}"#;
        let catalogs = translated(text).unwrap();
        let catalog = &catalogs[0];
        assert_eq!(catalog.base, "http://lab.example.org/ermrest/catalog/7");
        assert_eq!((catalog.name.as_str(), catalog.connect_timeout_ms), ("lab.example.org", 6_000));
        assert_eq!((catalog.read_timeout_ms, catalog.unverified_hosts.len()), (2_500, 2));
        assert!(catalog.rule[0].dry_run, "the example claims nothing");
        assert_eq!(check(&catalogs), Vec::<String>::new());
        let defaults: Vec<CatalogConfig> = serde_json::from_str(EXAMPLE).unwrap();
        assert_eq!(translated("{}").unwrap()[0].base, defaults[0].base);
        assert_eq!(check(&defaults), Vec::<String>::new());
    }

    #[test]
    fn other_files_are_refused_without_their_values() {
        for text in [
            "secret",
            "[]",
            r#"{"server": {"host": "u:secret@h"}}"#,
            r#"{"server": {"host": "secret", "protocol": "file"}}"#,
            r#"{"server": {"catalog_id": ["secret"]}}"#,
        ] {
            let error = translated(text).unwrap_err();
            assert!(!error.contains("secret"), "{text}: {error}");
        }
    }
}
