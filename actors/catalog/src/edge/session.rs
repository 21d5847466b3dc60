//! Block `session` of deriva's `config.json` (CONTRACT CF15): time-outs and retries of requests, read
//! as deriva reads it.

use std::{path::Path, time::Duration};

use orchestrator_text::sanitize;
use serde_json::{Map, Value};

use super::credentials::{FileContent, read_file};
use crate::request_retries::{FACTOR_MAX, RETRIES_MAX, Retries};

/// Bounds of time-outs, those of the configuration.
const TIMEOUT_MIN: Duration = Duration::from_millis(10);
const CONNECT_MAX: Duration = Duration::from_secs(600);
const READ_MAX: Duration = Duration::from_secs(3_600);
/// Statuses with a meaning of their own (CONTRACT CE01, CE04, CE06).
const OWN_MEANING: [u16; 4] = [401, 403, 412, 413];

/// Block `session`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Session {
    /// Maximum time to connect.
    pub connect: Duration,
    /// Maximum time of a request.
    pub read: Duration,
    /// Retries of one request.
    pub retries: Retries,
    /// Hosts whose certificate is not verified. A block without this list has none.
    pub unverified_hosts: Vec<String>,
}

impl Session {
    /// Reads the block from `file`. None: there is no such file or block, or it cannot be used, which is
    /// logged.
    pub(crate) fn of_file(file: &Path) -> Option<Self> {
        let session = match read_file(file) {
            Ok(FileContent::Text(text, _)) => Self::parse(&text),
            Ok(FileContent::Missing) => return None,
            Ok(FileContent::Busy) => Err("another program holds its lock".to_owned()),
            Err(reason) => Err(reason),
        };
        session.unwrap_or_else(|reason| {
            let (file, reason) = (file.display(), sanitize(reason));
            tracing::warn!(%file, reason, "the block `session` is not used: correct it, and start again");
            None
        })
    }

    /// Parses the block in the text of a `config.json`. Keys that are missing have deriva's defaults.
    ///
    /// # Errors
    /// The text is no JSON, or a value cannot be used. The error repeats no value.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        let config: Value =
            serde_json::from_str(text).map_err(|error| format!("line {}: it is no JSON", error.line()))?;
        let block = match config.get("session") {
            None | Some(Value::Null) => return Ok(None),
            Some(block) => block.as_object().ok_or("session is no object")?,
        };
        if block.is_empty() {
            return Ok(None);
        }
        let (connect, read) = timeouts(block)?;
        let statuses = match block.get("retry_status_forcelist") {
            None => vec![500, 502, 503, 504],
            Some(Value::Null) => Vec::new(),
            Some(list) => list
                .as_array()
                .and_then(|list| list.iter().map(|code| u16::try_from(code.as_u64()?).ok()).collect())
                .ok_or("session.retry_status_forcelist is no list of statuses")?,
        };
        let backoff_factor = match block.get("retry_backoff_factor") {
            None => 1.0,
            Some(factor) => {
                let factor = factor.as_f64().filter(|factor| *factor >= 0.0);
                factor.ok_or("session.retry_backoff_factor is no positive number")?.min(FACTOR_MAX)
            }
        };
        let is_failure = |status: &u16| (400..600).contains(status) && !OWN_MEANING.contains(status);
        let retries = Retries {
            connect: count(block, "retry_connect", 2)?,
            read: count(block, "retry_read", 4)?,
            status: RETRIES_MAX,
            backoff_factor,
            statuses: statuses.into_iter().filter(is_failure).collect(),
        };
        let unverified_hosts = match block.get("bypass_cert_verify_host_list") {
            None => Vec::new(),
            Some(list) => list
                .as_array()
                .and_then(|list| list.iter().map(|host| Some(host.as_str()?.to_owned())).collect())
                .ok_or("session.bypass_cert_verify_host_list is no list of hosts")?,
        };
        Ok(Some(Self { connect, read, retries, unverified_hosts }))
    }
}

/// Returns a number of retries; null is no limit of its own, and false none.
fn count(block: &Map<String, Value>, key: &str, default: u32) -> Result<u32, String> {
    match block.get(key) {
        None => Ok(default),
        Some(Value::Null) => Ok(RETRIES_MAX),
        Some(Value::Bool(false)) => Ok(0),
        Some(count) => {
            let count = count.as_u64().ok_or_else(|| format!("session.{key} is no number of retries"))?;
            Ok(u32::try_from(count).unwrap_or(RETRIES_MAX).min(RETRIES_MAX))
        }
    }
}

/// One number in seconds for both, or a list of two; null is none.
fn timeouts(block: &Map<String, Value>) -> Result<(Duration, Duration), String> {
    let wrong = || "session.timeout is neither seconds nor [connect, read]".to_owned();
    let (connect, read) = match block.get("timeout") {
        None => return Ok((Duration::from_secs(6), Duration::from_secs(63))),
        Some(Value::Array(both)) => match &both[..] {
            [connect, read] => (connect, read),
            _ => return Err(wrong()),
        },
        Some(one) => (one, one),
    };
    let limited = |value: &Value, max: Duration| match value {
        Value::Null => Some(max),
        value => {
            let secs = value.as_f64().filter(|secs| *secs > 0.0)?;
            Some(Duration::from_secs_f64(secs.min(max.as_secs_f64())).max(TIMEOUT_MIN))
        }
    };
    limited(connect, CONNECT_MAX).zip(limited(read, READ_MAX)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn session(block: &str) -> Result<Option<Session>, String> {
        Session::parse(&format!("{{\"session\": {block}}}"))
    }

    #[test]
    fn missing_keys_have_the_defaults_of_the_original() {
        for none in ["{}", "null"] {
            assert_eq!(session(none), Ok(None));
        }
        assert_eq!(Session::parse("{\"oauth2_scopes\": {}}"), Ok(None));
        let found = session("{\"cookie_jar\": \"x\"}").expect("a block").expect("a session");
        assert_eq!((found.connect, found.read), (ms(6_000), ms(63_000)));
        let retries = Retries {
            connect: 2,
            read: 4,
            status: 10,
            backoff_factor: 1.0,
            statuses: vec![500, 502, 503, 504],
        };
        assert_eq!(found.retries, retries);
        assert_eq!(found.unverified_hosts, Vec::<String>::new());
    }

    #[test]
    fn values_are_read_and_bounded() {
        let found = |block: &str| session(block).expect(block).expect(block);
        for (timeout, connect, read) in [
            ("5", 5_000, 5_000),
            ("[0.5, 3]", 500, 3_000),
            ("[1, null]", 1_000, 3_600_000),
            ("1e-9", 10, 10),
            ("1e300", 600_000, 3_600_000),
        ] {
            let found = found(&format!("{{\"timeout\": {timeout}}}"));
            assert_eq!((found.connect, found.read), (ms(connect), ms(read)), "{timeout}");
        }
        let block = "{\"retry_connect\": 0, \"retry_read\": null, \"retry_backoff_factor\": 1e9,
            \"retry_status_forcelist\": [429, 412, 401, 200, 404]}";
        let retries = found(block).retries;
        assert_eq!((retries.connect, retries.read, &retries.statuses[..]), (0, 10, &[429, 404][..]));
        assert_eq!((retries.backoff_factor, retries.agent_factor()), (120.0, 120.0));
        assert_eq!(found("{\"retry_backoff_factor\": 0}").retries.agent_factor(), 0.2);
    }

    #[test]
    fn invalid_values_are_named() {
        for (block, wanted) in [
            ("[]", "session is no object"),
            ("{\"timeout\": [1]}", "session.timeout"),
            ("{\"timeout\": 0}", "session.timeout"),
            ("{\"timeout\": \"s3cret\"}", "session.timeout"),
            ("{\"retry_read\": -1}", "session.retry_read"),
            ("{\"retry_connect\": \"2\"}", "session.retry_connect"),
            ("{\"retry_backoff_factor\": -1}", "session.retry_backoff_factor"),
            ("{\"retry_status_forcelist\": [70000]}", "session.retry_status_forcelist"),
            ("{\"bypass_cert_verify_host_list\": \"s3cret\"}", "session.bypass_cert_verify_host_list"),
        ] {
            let error = session(block).expect_err(block);
            assert!(error.starts_with(wanted) && !error.contains("s3cret"), "{error}");
        }
    }
}
