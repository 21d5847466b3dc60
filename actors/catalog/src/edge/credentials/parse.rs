//! Parsers of credential files (CONTRACT CF09 to CF11).

use jiff::Timestamp;
use orchestrator_subsystem::Secret;
use serde_json::{Map, Value};

/// A credential for the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Credential {
    /// No credential.
    #[default]
    Anonymous,
    /// `Authorization: Bearer ..`
    Bearer(Secret),
    /// `Cookie: NAME=VALUE`
    Cookie(Secret),
    /// Exchanged for a session cookie.
    Password {
        /// User name.
        user: String,
        /// Password.
        password: Secret,
    },
}

/// Returns the entry of `host` in a `credential.json`; None if there is none. The file has one
/// object per host, or is one entry itself.
///
/// # Errors
/// Not a credentials file; the text does not repeat its content.
pub(super) fn entry(text: &str, host: &str) -> Result<Option<Credential>, String> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| format!("line {}: it is no JSON: correct it", error.line()))?;
    let wanted = "it is no object with an entry for each host: correct it";
    let hosts = value.as_object().ok_or_else(|| wanted.to_owned())?;
    let Some(found) = by_host(hosts, host) else { return Ok(grant(hosts)) };
    let entry = found.as_object();
    Ok(grant(entry.ok_or_else(|| format!("the entry of {host} is no object: correct it"))?))
}

/// A token takes precedence over a cookie, a cookie over a password.
fn grant(entry: &Map<String, Value>) -> Option<Credential> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(token) = text("bearer-token") {
        return Some(Credential::Bearer(Secret::new(token)));
    }
    if let Some(cookie) = text("cookie") {
        return Some(Credential::Cookie(Secret::new(cookie_pair(cookie)?)));
    }
    let (user, password) = text("username").zip(text("password"))?;
    Some(Credential::Password { user: user.to_owned(), password: Secret::new(password) })
}

/// Without the attributes of the cookie; None if it has no name.
pub(in crate::edge) fn cookie_pair(cookie: &str) -> Option<&str> {
    let pair = cookie.split(';').next().unwrap_or_default().trim();
    pair.split_once('=').is_some_and(|(name, _)| !name.trim().is_empty()).then_some(pair)
}

pub(super) fn scope(text: &str, host: &str) -> Option<String> {
    let config: Value = serde_json::from_str(text).ok()?;
    let scopes = by_host(config.get("oauth2_scopes")?.as_object()?, host)?;
    scopes.get("deriva-all")?.as_str().map(str::to_owned)
}

/// Token in a `globus-credential.json`, and its expiry.
pub(super) fn globus(text: &str, scope: &str) -> Option<(Secret, Timestamp)> {
    let tokens: Value = serde_json::from_str(text).ok()?;
    let of_scope = |token: &&Value| token.get("scope").and_then(Value::as_str) == Some(scope);
    let token = tokens.as_object()?.values().find(of_scope)?;
    let ends = token.get("expires_at_seconds").and_then(Value::as_i64);
    let ends = ends.and_then(|seconds| Timestamp::from_second(seconds).ok());
    let secret = token.get("access_token")?.as_str().filter(|token| !token.is_empty())?;
    Some((Secret::new(secret), ends.unwrap_or(Timestamp::MAX)))
}

/// Looks up a host as written, then in lower case (CONTRACT CF09).
fn by_host<'a>(hosts: &'a Map<String, Value>, host: &str) -> Option<&'a Value> {
    hosts.get(host).or_else(|| hosts.get(&host.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(text: &str) -> Option<Credential> {
        Some(Credential::Bearer(Secret::new(text)))
    }

    fn cookie(text: &str) -> Option<Credential> {
        Some(Credential::Cookie(Secret::new(text)))
    }

    #[test]
    fn the_preferred_credential_of_an_entry_is_used() {
        let password = Credential::Password { user: "u".to_owned(), password: Secret::new("p") };
        for (text, wanted) in [
            (r#"{"H.org": {"bearer-token": "t", "cookie": "a=b", "auth_type": "user"}}"#, bearer("t")),
            (
                r#"{"h.org": {"cookie": "webauthn=x=y", "username": "u", "password": "p"}}"#,
                cookie("webauthn=x=y"),
            ),
            (r#"{"h.org": {"cookie": "webauthn=x; Path=/; Secure"}}"#, cookie("webauthn=x")),
            (r#"{"h.org": {"username": "u", "password": "p"}}"#, Some(password)),
            (r#"{"H.org": {"cookie": "a=1"}, "h.org": {"cookie": "a=2"}}"#, cookie("a=1")),
            (r#"{"cookie": "webauthn=bare"}"#, cookie("webauthn=bare")),
            (r#"{"cookie": "webauthn=bare", "h.org": {"bearer-token": "t"}}"#, bearer("t")),
            (r#"{"h.org": {"bearer-token": ""}}"#, None),
            (r#"{"h.org": {"cookie": "=x"}}"#, None),
            (r#"{"h.org": {"username": "u"}}"#, None),
            (r#"{"other.org": {"bearer-token": "t"}}"#, None),
            ("{}", None),
        ] {
            assert_eq!(entry(text, "H.org"), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn errors_of_a_malformed_file_show_no_secret() {
        for text in [
            "",
            "s3cret",
            "\"s3cret\"",
            "[\"s3cret\"]",
            "{\"h\": \"s3cret\"}",
            "{\"h\": {\"cookie\": \"s3cret\"",
            "{\"h\": {\"cookie\": \"s3cret\"}} \"s3cret\"",
        ] {
            let error = entry(text, "h").expect_err(text);
            assert!(error.contains("correct it") && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_scope_and_its_token_are_found() {
        let config = r#"{"oauth2_scopes": {"h.org": {"deriva-all": "S1"}, "x": {}}}"#;
        assert_eq!(scope(config, "H.org").as_deref(), Some("S1"));
        for (text, host) in [(config, "x"), (config, "y"), ("{}", "x"), ("", "x")] {
            assert_eq!(scope(text, host), None);
        }
        let store = r#"{
            "auth.globus.org:(openid)": {"access_token": "no", "scope": "openid", "expires_at_seconds": 1},
            "h:(S1)": {"access_token": "yes", "scope": "S1", "expires_at_seconds": 1700000000}}"#;
        let ends = Timestamp::from_second(1_700_000_000).expect("a time");
        assert_eq!(globus(store, "S1"), Some((Secret::new("yes"), ends)));
        for (text, scope) in [(store, "S2"), ("", "S1"), (r#"{"a": {"scope": "S1"}}"#, "S1")] {
            assert_eq!(globus(text, scope), None);
        }
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let password = Credential::Password { user: "u".to_owned(), password: Secret::new("s3cret") };
        for grant in
            [Credential::Bearer(Secret::new("s3cret")), Credential::Cookie(Secret::new("s3cret")), password]
        {
            assert!(!format!("{grant:?}").contains("s3cret"));
        }
    }
}
