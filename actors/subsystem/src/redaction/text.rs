//! Redaction of addresses, and of texts that may quote an address or a setting: parser errors, arguments,
//! lines of a file.

use super::{
    REDACTED,
    address::{self, url_may_hold_secret},
    is_secret_name,
};

/// `text` is an address or a connection string. The result is true, too, if user, host and port of a
/// malformed address cannot be distinguished.
pub fn may_hold_secret(text: &str) -> bool {
    let text = text.trim();
    match text.split_once("://") {
        Some((scheme, rest)) => scheme.contains('@') || url_may_hold_secret(rest, address::is_web(scheme)),
        None if text.contains('=') => address::settings(text).any(is_secret_name) || may_quote_secret(text),
        None => url_may_hold_secret(text, false),
    }
}

/// Removes the secrets from the address `text`: user and password if it may hold a password, and the query of
/// a web address, which may hold a webhook's token.
pub fn redact_address(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return if may_hold_secret(text) { REDACTED.to_owned() } else { text.to_owned() };
    };
    if !may_hold_secret(text) {
        return match text.split_once('?') {
            Some((before, query)) if address::is_web(scheme) && !query.is_empty() => {
                format!("{before}?{REDACTED}")
            }
            _ => text.to_owned(),
        };
    }
    // A password may have any character, so everything before the last `@` is removed.
    let after = rest.rsplit_once('@').map(|(_, after)| after);
    match after.filter(|after| !url_may_hold_secret(after, true)) {
        Some(after) if !scheme.contains('@') => {
            // Only a plain path is kept behind the host.
            let path = after.find('/').filter(|at| !after[*at..].contains([':', '=', '?', '#', ' ']));
            let end = path.map_or(after.find(['/', '?', '#']), |_| None).unwrap_or(after.len());
            format!("{scheme}://{REDACTED}@{}", &after[..end])
        }
        _ => REDACTED.to_owned(),
    }
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>')
}

/// Looks for a password in addresses and in values of settings.
pub fn may_quote_secret(text: &str) -> bool {
    redact(text) != text
}

/// Removes everything from `text` that may be a password.
pub fn redact(text: &str) -> String {
    let lines: Vec<String> =
        text.split('\n').map(|line| redact_settings(&redact_users(&redact_addresses(line)))).collect();
    lines.join("\n")
}

/// Removes the passwords of addresses with a scheme from `line`.
pub fn redact_addresses(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let scheme = rest[..at].rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')));
        let begin = scheme.map_or(0, |at| at + rest[at..].chars().next().map_or(1, char::len_utf8));
        let after = at + "://".len();
        out.push_str(&rest[..begin]);
        let end = address_end(rest, after);
        out.push_str(&redact_quoted(&rest[begin..end]));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// `after` is the end of its `://`. A password may hold blanks and quotes, so the address may reach to the
/// last `@` of the line.
fn address_end(text: &str, after: usize) -> usize {
    let word_end = |from: usize| text[from..].find(is_separator).map_or(text.len(), |at| from + at);
    let end = word_end(after);
    let within = &text[after..end];
    if within.contains('@') || !url_may_hold_secret(within, true) {
        // The next word may be the rest of a password.
        let is_incomplete = within.rsplit_once('@').is_some_and(|(_, host)| url_may_hold_secret(host, true));
        if !is_incomplete {
            return end;
        }
    }
    text[end..].rfind('@').map_or(end, |at| word_end(end + at))
}

fn redact_quoted(address: &str) -> String {
    // Closing brackets and punctuation belong to the text around the address.
    let core = address.trim_end_matches([',', ';', ')', ']', '}', ':', '.']);
    let core = if core.len() < "x://".len() { address } else { core };
    format!("{}{}", redact_address(core), &address[core.len()..])
}

/// Removes the passwords of `user:password@host` without a scheme.
fn redact_users(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for piece in line.split_inclusive(is_separator) {
        // Addresses with a scheme are redacted already.
        let word = piece.trim_end_matches(is_separator);
        let word = word.split_once("://").map_or(word, |(before, _)| before);
        // A path of a catalog may have both `:` and `@`: `/entity/A:=T@sort(RID)`.
        let bare = word.rsplit_once('@').filter(|(user, _)| user.contains(':') && !word.starts_with('/'));
        let Some((user, host)) = bare else {
            out.push_str(piece);
            continue;
        };
        // The key of an assignment is kept.
        let name = user.find(':').map_or(user, |at| &user[..at]);
        let key = name.find('=').map_or("", |at| &name[..=at]);
        out.push_str(&format!("{key}{REDACTED}@{host}"));
        out.push_str(&piece[word.len()..]);
    }
    out
}

/// Removes the values of settings with the name of a secret: `password=..`, also in quotes.
fn redact_settings(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('=') {
        let (before, value) = (&rest[..at], &rest[at + 1..]);
        let trimmed = before.trim_end().trim_end_matches(['"', '\'']);
        let name = trimmed.rsplit(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '%')));
        let name = name.into_iter().next().unwrap_or_default();
        out.push_str(&rest[..=at]);
        rest = value;
        if is_secret_name(&super::decoded(name)) {
            let blanks = value.len() - value.trim_start().len();
            out.push_str(&value[..blanks]);
            let end = blanks + value_end(&value[blanks..]);
            if end > blanks {
                out.push_str(REDACTED);
            }
            rest = &value[end..];
        }
    }
    out.push_str(rest);
    out
}

/// The value ends at its closing quote, else at the next separator of words or settings.
fn value_end(text: &str) -> usize {
    let mut chars = text.chars();
    match chars.next() {
        Some(quote @ ('"' | '\'' | '`')) => {
            text[1..].rfind(quote).map_or(text.len(), |at| at + 1 + quote.len_utf8())
        }
        Some(_) => text.find([' ', '\t', '&', '"', '\'', '`']).unwrap_or(text.len()),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_texts_are_removed_and_the_rest_is_kept() {
        for (text, expected) in [
            ("invalid value 'amqp://u:S3CR3T@h/' for x", "invalid value 'amqp://***@h/' for x"),
            ("a.b=amqp://u:S3CR3T@h/v c", "a.b=amqp://***@h/v c"),
            ("`url = amqp://u:S3 CR3T@h` is no TOML", "`url = amqp://***@h` is no TOML"),
            ("x \"mongodb://user:S3CR3T?x@host\": no", "x \"mongodb://***@host\": no"),
            ("x mongodb://user:S3CR3T, y", "x ***, y"),
            ("unexpected argument 'user:S3CR3T@host'", "unexpected argument '***@host'"),
            ("uri=user:S3CR3T@host", "uri=***@host"),
            ("user:S3CR3T@host:1a.b=user:S3CR3T@host", "***@host"),
            ("host=db password=S3CR3T dbname=x", "host=db password=*** dbname=x"),
            ("{ password = \"S3CR3T\" }", "{ password = *** }"),
            ("redis://h/?password=S3CR3T", "***"),
            ("user:S3CR3T@host:1x_y://:S3CR3T@h", "***@host:1x_y://***@h"),
            ("catalog.lab.token=S3CR3T", "catalog.lab.token=***"),
        ] {
            assert_eq!(redact(text), expected);
            assert!(may_quote_secret(text) && !redact(text).contains("CR3T"));
            assert_eq!(redact(expected), expected, "redacting twice changes nothing");
        }
    }

    #[test]
    fn texts_without_secrets_are_unchanged() {
        for text in [
            "cannot reach http://127.0.0.1:7117: refused; mail me@home",
            "write amqp://USER@HOST:PORT/VHOST, for example amqp://guest:guest@localhost:5672/%2f",
            "url_file = /run/x: cannot be read",
            "claim.set = { by = \"$token\" }",
            "--set queue.hold_secs=60",
            "a=b==c= ",
            "done.n: \"$result.\": write $token, $now",
            "password_file = \"/run/secrets/x\"",
            "query: /entity/A:=T/state=1@sort(RID): end it with ?limit=N",
            "2026-11-22T10:00:00Z user@host",
            "",
        ] {
            assert_eq!(redact(text), text);
        }
    }
}
