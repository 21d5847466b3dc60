//! Recognition of secrets in addresses: URLs, PostgreSQL connection strings, and hosts with ports.

use super::{decoded, is_secret_name};

/// Longest port number, in digits.
const PORT_DIGITS: usize = 5;

/// Credentials that are not secret: brokers' defaults and placeholders of help texts.
const PUBLIC: [&str; 2] = ["guest:guest", "user:password"];

pub(super) fn is_web(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// `rest` is the part after `://`. A parameter of a web address that is named `token` is not refused;
/// [`redact_address`](super::redact_address) removes it.
pub(super) fn url_may_hold_secret(rest: &str, web: bool) -> bool {
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    // A URL may hold another URL.
    if let Some((_, inner)) = rest.split_once("://")
        && url_may_hold_secret(inner, web)
    {
        return true;
    }
    // A password may hold a slash or a question mark, so an `@` behind one may end a password.
    if tail.contains('@') || (user.contains([':', '@']) && !is_public(user)) {
        return true;
    }
    hosts.split(',').any(|host| !has_plain_port(host))
        || parameters(tail).any(|name| is_secret_parameter(&name, web))
}

fn is_public(user: &str) -> bool {
    PUBLIC.iter().any(|public| public.eq_ignore_ascii_case(user))
}

fn is_secret_parameter(name: &str, web: bool) -> bool {
    is_secret_name(name) && !(web && name.to_ascii_lowercase().contains("token"))
}

/// Accepts `host`, `host:port`, and an IPv6 address with or without brackets. `host:word` may be a user and a
/// password.
fn has_plain_port(host: &str) -> bool {
    let after_brackets = host.rsplit_once(']').map(|(_, after)| after);
    let Some((name, port)) = after_brackets.unwrap_or(host).rsplit_once(':') else { return true };
    if after_brackets.is_none() && name.contains(':') {
        return host.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.'));
    }
    matches!(port, "*" | "port" | "PORT")
        || (port.len() <= PORT_DIGITS && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Decoded names of the parameters behind `?` or `#`, and of those within their values
/// (`mechanism=AWS_SESSION_TOKEN:..`).
fn parameters(tail: &str) -> impl Iterator<Item = String> {
    let query = tail.split_once(['?', '#']).map_or("", |(_, query)| query);
    query.split(['&', ';', '?', '#']).flat_map(|pair| {
        let pair = decoded(pair);
        let names = pair.rsplit_once(['=', ':']).map_or(pair.as_str(), |(names, _)| names);
        names.split(['=', ':', ',']).map(str::to_owned).collect::<Vec<_>>()
    })
}

/// Names of the settings in a connection string `host=.. password=..`.
pub(super) fn settings(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('=').map(|(at, _)| {
        let before = text[..at].trim_end();
        let begin = before
            .rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        &before[begin..]
    })
}

#[cfg(test)]
mod tests {
    use super::super::{may_hold_secret, redact_address};

    #[test]
    fn addresses_without_a_password_are_unchanged() {
        for text in [
            "amqp://guest:guest@127.0.0.1:5672/%2f",
            "postgresql://postgres@127.0.0.1:5432/provenance",
            "postgresql:///db?host=/var/run/postgresql&sslmode=require",
            "host=db port=5432 dbname=provenance user=me passfile=/run/pass",
            "mongodb://me@a:1,b/?authMechanism=MONGODB-X509&tlsCertificateKeyFile=/run/key.pem",
            "mongodb://%2Ftmp%2Fmongodb-27017.sock/x",
            "redis://localhost:6379/0",
            "unix:///run/redis.sock?db=1",
            "tcp+tls://faktory.example.org:7419",
            "tcp://*:9999",
            "amqp://USER:PASSWORD@HOST:PORT/VHOST",
            "tcp://eth0;192.168.1.1:5555",
            "https://[::1]:444/hook",
            "0.0.0.0:7117",
            "[::]:7117",
            "::1:7117",
            "localhost",
            "7117",
            "h/ermrest/catalog/1",
            "",
        ] {
            assert!(!may_hold_secret(text), "{text}");
            assert_eq!(redact_address(text), text);
        }
    }

    #[test]
    fn possible_passwords_are_removed() {
        for (text, expected) in [
            ("amqp://me:p/?a@ss@host:5672/v", "amqp://***@host:5672/v"),
            ("redis://:S3CR3T@[::1]/0", "redis://***@[::1]/0"),
            ("mongodb://user:S3CR3T?x@host", "mongodb://***@host"),
            ("mongodb://user:S3CR3T%40host/x", "***"),
            ("mongodb://user:S3CR3T", "***"),
            ("mongodb://a?tlsCertificateKeyFilePassword=S3CR3T", "***"),
            ("mongodb://a/?authMechanismProperties=AWS_SESSION_TOKEN:S3CR3T", "***"),
            ("redis://h/?p%61ssword=S3CR3T", "***"),
            ("postgresql://u:S3CR3T@h/d?sslpassword=S3CR3T", "***"),
            ("host=db password = 'S3CR3T x'", "***"),
            ("host=db;PASSWORD=S3CR3T", "***"),
            ("user:S3CR3T@host", "***"),
            ("mongodb:/user:S3CR3T@host", "***"),
            ("user:S3CR3T@x://host", "***"),
            ("x=user:S3CR3T@host", "***"),
            ("tcp://u:123@x@h:1", "tcp://***@h:1"),
            ("tcp://h/x://u:S3CR3T", "***"),
            ("tcp://u:S3CR3T@h:1/x://u:S3CR3T", "***"),
            ("tcp://u:S3CR3T@h:1/x=u:S3CR3T", "tcp://***@h:1"),
            ("https://me:S3CR3T@h/x", "https://***@h/x"),
        ] {
            assert!(may_hold_secret(text), "{text}");
            assert_eq!(redact_address(text), expected, "{text}");
        }
    }

    #[test]
    fn the_query_of_a_web_address_is_accepted_and_removed() {
        assert!(!may_hold_secret("https://h/hook?token=S3CR3T"));
        assert_eq!(redact_address("https://h/hook?token=S3CR3T"), "https://h/hook?***");
        assert!(may_hold_secret("https://h/hook?password=S3CR3T"));
    }
}
