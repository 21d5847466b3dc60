//! Options of Redis addresses, as redis-py takes them.

use redis::{Client, parse_redis_url};

const FORM: &str = "write redis://host:port/0, rediss:// or unix:///path";
/// Options of redis-py that concern its own client: how it waits, and what it makes of replies.
const WITHOUT_EFFECT: [&str; 14] = [
    "client_name",
    "decode_responses",
    "encoding",
    "encoding_errors",
    "health_check_interval",
    "lib_name",
    "lib_version",
    "max_connections",
    "protocol",
    "retry_on_timeout",
    "socket_connect_timeout",
    "socket_keepalive",
    "socket_timeout",
    "timeout",
];
/// Options of redis-py that are refused: TLS is configured by `redis_ca_file`.
const REFUSED: [&str; 9] = [
    "ssl_ca_certs",
    "ssl_ca_data",
    "ssl_ca_path",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_check_hostname",
    "ssl_keyfile",
    "ssl_keyfile_password",
    "ssl_min_version",
];

/// Parses `url`, of which an option `db`, `username` or `password` prevails over the same part before it.
///
/// # Errors
/// The address is invalid or has an unknown option. The text repeats only known names, since what looks like
/// an option may be part of a password.
pub(super) fn parse(url: &str) -> Result<Client, String> {
    let invalid = || format!("not a URL of Redis: {FORM}");
    let parts = parse_redis_url(url).ok_or_else(invalid)?;
    let client = Client::open(url).map_err(|_| invalid())?;
    let info = client.get_connection_info();
    let mut settings = info.redis_settings().clone();
    let unix = parts.scheme().ends_with("unix");
    for (name, value) in parts.query_pairs() {
        settings = match &*name {
            "db" => {
                settings.set_db(value.parse().map_err(|_| format!("its option db is no number: {FORM}"))?)
            }
            "username" => settings.set_username(value),
            "password" => settings.set_password(value),
            // The client library has taken them.
            "user" | "pass" if unix => settings,
            other if WITHOUT_EFFECT.contains(&other) => settings,
            other => {
                let option = REFUSED.iter().find(|known| **known == other).unwrap_or(&"an option");
                return Err(format!("it has {option}, which is not supported: leave it out"));
            }
        };
    }
    Client::open(info.clone().set_redis_settings(settings)).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Database, user and password.
    fn parsed(url: &str) -> Result<(i64, Option<String>, Option<String>), String> {
        let client = parse(url)?;
        let settings = client.get_connection_info().redis_settings();
        let text = |value: Option<&str>| value.map(str::to_owned);
        Ok((settings.db(), text(settings.username()), text(settings.password())))
    }

    #[test]
    fn options_are_taken_as_redis_py_takes_them() {
        for (url, db, user, password) in [
            ("redis://h", 0, None, None),
            ("redis://h?db=2", 2, None, None),
            ("redis://h/?db=2", 2, None, None),
            ("redis://h/1?db=2&socket_timeout=3", 2, None, None),
            ("redis://h/1?decode_responses=True", 1, None, None),
            ("redis://:p%2F@h/1", 1, None, Some("p/")),
            ("redis://me:old@h?password=p%26q", 0, Some("me"), Some("p&q")),
            ("redis://h?username=me&password=p", 0, Some("me"), Some("p")),
            ("redis://[::1]:7/3", 3, None, None),
            ("unix:///run/r.sock?db=2&password=p", 2, None, Some("p")),
            ("unix:///run/r.sock?db=2&user=me&pass=p", 2, Some("me"), Some("p")),
        ] {
            let expected = (db, user.map(str::to_owned), password.map(str::to_owned));
            assert_eq!(parsed(url), Ok(expected), "{url}");
        }
    }

    #[test]
    fn other_options_are_refused_without_a_part_of_the_address() {
        for (url, said) in [
            ("redis://h?ssl_cert_reqs=none", "it has ssl_cert_reqs, which is not supported"),
            ("redis://h?S3CR3T=1", "it has an option, which is not supported"),
            ("redis://me:1?S3CR3T@h", "it has an option, which is not supported"),
            ("redis://h?db=S3CR3T", "its option db is no number"),
            ("redis://h?db=", "its option db is no number"),
            ("redis://", "not a URL of Redis"),
            ("http://S3CR3T", "not a URL of Redis"),
        ] {
            let text = parsed(url).expect_err(url);
            assert!(text.starts_with(said) && !text.contains("S3CR3T"), "{url}: {text}");
        }
    }
}
