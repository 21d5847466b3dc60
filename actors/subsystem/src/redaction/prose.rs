//! Addresses as they are shown, and texts that may quote an address or a setting: complaints of parsers, arguments, lines of a file.

use super::{
    HIDDEN,
    address::{self, url_holds_secret},
    names_secret,
};

/// Tells whether an address may hold a password. A malformed one may: where a user, a host and a port cannot be told apart, the
/// answer is yes.
pub fn holds_secret(text: &str) -> bool {
    let text = text.trim();
    match text.split_once("://") {
        Some((scheme, rest)) => scheme.contains('@') || url_holds_secret(rest, address::is_web(scheme)),
        None if text.contains('=') => address::settings(text).any(names_secret) || mentions_secret(text),
        None => url_holds_secret(text, false),
    }
}

/// An address as it may be shown: without the user if it may hold a password, and without the query of a web address, which is
/// where tokens of webhooks stand.
pub fn shown(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return if holds_secret(text) { HIDDEN.to_owned() } else { text.to_owned() };
    };
    if !holds_secret(text) {
        return match text.split_once('?') {
            Some((before, query)) if address::is_web(scheme) && !query.is_empty() => {
                format!("{before}?{HIDDEN}")
            }
            _ => text.to_owned(),
        };
    }
    // A password may have any character: all before the last `@` goes.
    let after = rest.rsplit_once('@').map(|(_, after)| after);
    match after.filter(|after| !url_holds_secret(after, true)) {
        Some(after) if !scheme.contains('@') => {
            // Behind the host, only what is plainly a path.
            let path = after.find('/').filter(|at| !after[*at..].contains([':', '=', '?', '#', ' ']));
            let end = path.map_or(after.find(['/', '?', '#']), |_| None).unwrap_or(after.len());
            format!("{scheme}://{HIDDEN}@{}", &after[..end])
        }
        _ => HIDDEN.to_owned(),
    }
}

/// Separators of words.
fn parts_words(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>')
}

/// Tells whether `text` seems to quote a password: in an address, or as the value of a setting.
pub fn mentions_secret(text: &str) -> bool {
    scrubbed(text) != text
}

/// `text` without the passwords that it seems to quote. What is hidden is too much rather than too little.
pub fn scrubbed(text: &str) -> String {
    let lines: Vec<String> =
        text.split('\n').map(|line| settings(&bare_users(&scrubbed_addresses(line)))).collect();
    lines.join("\n")
}

/// `line` without the passwords of addresses with a scheme.
pub fn scrubbed_addresses(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let scheme = rest[..at].rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')));
        let begin = scheme.map_or(0, |at| at + rest[at..].chars().next().map_or(1, char::len_utf8));
        let after = at + "://".len();
        out.push_str(&rest[..begin]);
        let end = address_end(rest, after);
        out.push_str(&shown_within(&rest[begin..end]));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Where the address ends whose `://` ends at `after`. A password may hold blanks and quotes: then what reaches to the last `@` of
/// the line belongs to it.
fn address_end(text: &str, after: usize) -> usize {
    let word_end = |from: usize| text[from..].find(parts_words).map_or(text.len(), |at| from + at);
    let end = word_end(after);
    let within = &text[after..end];
    if within.contains('@') || !url_holds_secret(within, true) {
        // A word that follows directly may be the rest of a password, too.
        let odd = within.rsplit_once('@').is_some_and(|(_, host)| url_holds_secret(host, true));
        if !odd {
            return end;
        }
    }
    text[end..].rfind('@').map_or(end, |at| word_end(end + at))
}

fn shown_within(address: &str) -> String {
    // Closing brackets and the like belong to the text.
    let core = address.trim_end_matches([',', ';', ')', ']', '}', ':', '.']);
    let core = if core.len() < "x://".len() { address } else { core };
    format!("{}{}", shown(core), &address[core.len()..])
}

/// `user:password@host` without a scheme.
fn bare_users(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for piece in line.split_inclusive(parts_words) {
        // What has a scheme is done with.
        let word = piece.trim_end_matches(parts_words);
        let word = word.split_once("://").map_or(word, |(before, _)| before);
        // A path of a catalog may have both: `/entity/A:=T@sort(RID)`.
        let bare = word.rsplit_once('@').filter(|(user, _)| user.contains(':') && !word.starts_with('/'));
        let Some((user, host)) = bare else {
            out.push_str(piece);
            continue;
        };
        // What stands before an assignment is its key.
        let name = user.find(':').map_or(user, |at| &user[..at]);
        let key = name.find('=').map_or("", |at| &name[..=at]);
        out.push_str(&format!("{key}{HIDDEN}@{host}"));
        out.push_str(&piece[word.len()..]);
    }
    out
}

/// Values of settings whose name is that of a secret: `password=..`, also in quotes.
fn settings(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('=') {
        let (before, value) = (&rest[..at], &rest[at + 1..]);
        let trimmed = before.trim_end().trim_end_matches(['"', '\'']);
        let name = trimmed.rsplit(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '%')));
        let name = name.into_iter().next().unwrap_or_default();
        out.push_str(&rest[..=at]);
        rest = value;
        if names_secret(&super::decoded(name)) {
            let blanks = value.len() - value.trim_start().len();
            out.push_str(&value[..blanks]);
            let end = blanks + value_end(&value[blanks..]);
            if end > blanks {
                out.push_str(HIDDEN);
            }
            rest = &value[end..];
        }
    }
    out.push_str(rest);
    out
}

/// Length of the value that `text` begins with: to its closing quote, else to what parts words or settings.
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
    fn passwords_in_texts_are_hidden_and_the_rest_is_kept() {
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
            assert_eq!(scrubbed(text), expected);
            assert!(mentions_secret(text) && !scrubbed(text).contains("CR3T"));
            assert_eq!(scrubbed(expected), expected, "it is stable");
        }
    }

    #[test]
    fn other_texts_stay() {
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
            assert_eq!(scrubbed(text), text);
        }
    }
}
