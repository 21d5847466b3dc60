//! Redaction of command lines: options with secrets, headers, and tokens in the paths of web addresses. A
//! text with several words is read as a shell would read it, because `sh -c` has its command line in one
//! argument.

use super::{REDACTED, address, is_secret_name, redact};

/// Headers whose values are shown.
const PUBLIC_HEADERS: [&str; 6] =
    ["accept", "accept-encoding", "content-type", "host", "if-match", "user-agent"];

/// Shortest part of a path that may be a token, in bytes.
const TOKEN_MIN: usize = 16;

/// Deepest command line within an argument of another one. Deeper ones are hidden.
const DEPTH_MAX: usize = 4;

/// Meaning of an argument that follows another one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A text that is examined.
    Text,
    Secret,
    /// `user`, or `user:password`.
    User,
    /// `Name: value`.
    Header,
    /// The name of a file, or `name=value`.
    Cookie,
}

/// Options of curl and similar programs that have a short name.
const OPTIONS: [(&str, char, Kind); 6] = [
    ("--user", 'u', Kind::User),
    ("--proxy-user", 'U', Kind::User),
    ("--header", 'H', Kind::Header),
    ("--proxy-header", 'H', Kind::Header),
    ("-b", 'b', Kind::Cookie),
    // A password of mysql and sshpass; the port of other programs is hidden, too.
    ("-p", 'p', Kind::Secret),
];

/// Removes everything from the arguments of a program that may be a secret.
pub fn redact_command<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    redact_arguments(arguments, 0)
}

fn redact_arguments<'a>(arguments: impl IntoIterator<Item = &'a str>, depth: usize) -> Vec<String> {
    let mut kind = Kind::Text;
    let mut redact_one = |argument: &'a str| {
        let (shown, next) = match kind {
            Kind::Text => redact_argument(argument, depth),
            kind => (redact_value(argument, kind), Kind::Text),
        };
        kind = next;
        shown
    };
    arguments.into_iter().map(&mut redact_one).collect()
}

/// The second value is the kind of the next argument.
fn redact_argument(argument: &str, depth: usize) -> (String, Kind) {
    if argument.starts_with("--") {
        let name = argument.split('=').next().unwrap_or_default();
        let known = OPTIONS.iter().find(|(long, ..)| *long == name).map(|(.., kind)| *kind);
        let kind = known.or(is_secret_name(name).then_some(Kind::Secret));
        return match (kind, argument.split_once('=')) {
            (Some(kind), None) => (argument.to_owned(), kind),
            (Some(kind), Some((name, value))) => {
                (format!("{name}={}", redact_value(value, kind)), Kind::Text)
            }
            (None, _) => (redact_text(argument, depth), Kind::Text),
        };
    }
    if let Some(cluster) = argument.strip_prefix('-') {
        let short = cluster.char_indices().take_while(|(_, c)| c.is_ascii_alphabetic());
        let known = |c: char| OPTIONS.iter().find(|(_, short, _)| *short == c).map(|(.., kind)| *kind);
        for (at, c) in short {
            let Some(kind) = known(c) else { continue };
            let (option, value) = argument.split_at(at + 2);
            return match value {
                "" => (argument.to_owned(), kind),
                value => (format!("{option}{}", redact_value(value, kind)), Kind::Text),
            };
        }
        let is_secret = !argument.contains('=') && is_secret_name(argument);
        return (redact_text(argument, depth), if is_secret { Kind::Secret } else { Kind::Text });
    }
    let is_scheme = ["Bearer", "bearer", "Basic"].contains(&argument);
    (redact_text(argument, depth), if is_scheme { Kind::Secret } else { Kind::Text })
}

fn redact_value(value: &str, kind: Kind) -> String {
    let is_secret = match kind {
        Kind::Text => false,
        Kind::Secret => true,
        Kind::User => value.contains(':'),
        Kind::Cookie => value.contains('='),
        Kind::Header => match value.split_once(':') {
            Some((name, _)) if is_public_header(name) => false,
            Some((name, _)) => return format!("{name}: {REDACTED}"),
            // `@file`, or a name.
            None => false,
        },
    };
    if is_secret { REDACTED.to_owned() } else { redact(value) }
}

fn is_public_header(name: &str) -> bool {
    PUBLIC_HEADERS.iter().any(|public| public.eq_ignore_ascii_case(name.trim()))
}

/// Removes secrets from a text that may be a header or a command line.
fn redact_text(text: &str, depth: usize) -> String {
    let text = redact(text);
    if let Some((name, value)) = text.split_once(':')
        && is_secret_name(name)
        && !name.contains(char::is_whitespace)
        && !value.starts_with("//")
    {
        return format!("{name}: {REDACTED}");
    }
    if text.contains(char::is_whitespace) { redact_shell(&text, depth + 1) } else { redact_path(&text) }
}

/// Removes secrets from the words of a command line.
fn redact_shell(text: &str, depth: usize) -> String {
    if depth > DEPTH_MAX {
        return REDACTED.to_owned();
    }
    let words = words(text);
    let redacted = redact_arguments(words.iter().map(|word| word.content(text)), depth);
    let (mut out, mut end) = (String::with_capacity(text.len()), 0);
    for (word, redacted) in words.iter().zip(redacted) {
        out.push_str(&text[end..word.begin]);
        match word.quote {
            _ if redacted == word.content(text) => out.push_str(&text[word.begin..word.end]),
            Some(quote) if redacted != REDACTED => out.push_str(&format!("{quote}{redacted}{quote}")),
            _ => out.push_str(&redacted),
        }
        end = word.end;
    }
    out + &text[end..]
}

/// A word of a command line, with its quotes.
struct Word {
    begin: usize,
    end: usize,
    /// Set if the whole word is quoted.
    quote: Option<char>,
}

impl Word {
    fn content<'a>(&self, text: &'a str) -> &'a str {
        let word = &text[self.begin..self.end];
        self.quote.map_or(word, |quote| word.trim_start_matches(quote).strip_suffix(quote).unwrap_or(word))
    }
}

/// An open quote ends with the text.
fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let (mut begin, mut open, mut escaped) = (None, None, false);
    for (at, c) in text.char_indices() {
        match open {
            _ if escaped => escaped = false,
            _ if c == '\\' && open != Some('\'') => escaped = true,
            Some(quote) if c == quote => open = None,
            Some(_) => {}
            None if c.is_whitespace() => words.extend(begin.take().map(|begin| word(text, begin, at))),
            None if matches!(c, '"' | '\'') => open = Some(c),
            None => {}
        }
        if begin.is_none() && !(open.is_none() && c.is_whitespace()) {
            begin = Some(at);
        }
    }
    words.extend(begin.map(|begin| word(text, begin, text.len())));
    words
}

fn word(text: &str, begin: usize, end: usize) -> Word {
    let word = &text[begin..end];
    let is_quoted = |quote: char| {
        let inner = word.strip_prefix(quote).and_then(|word| word.strip_suffix(quote));
        inner.is_some_and(|inner| !inner.is_empty() && !inner.contains(quote))
    };
    Word { begin, end, quote: ['"', '\''].into_iter().find(|quote| is_quoted(*quote)) }
}

/// Removes the parts of a web address's path that may be a token.
fn redact_path(text: &str) -> String {
    let Some((before, rest)) = text.split_once("://") else { return text.to_owned() };
    let scheme = before.rsplit(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    if !address::is_web(scheme) {
        return text.to_owned();
    }
    let parts = rest.split('/').enumerate();
    let parts = parts.map(|(at, part)| if at > 0 && may_be_token(part) { REDACTED } else { part });
    format!("{before}://{}", parts.collect::<Vec<_>>().join("/"))
}

fn may_be_token(part: &str) -> bool {
    let end = part.find(['?', '#', '"', '\'', ';', ')']).unwrap_or(part.len());
    let part = &part[..end];
    part.len() >= TOKEN_MIN
        && part.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~' | b':' | b'%' | b'=')
        })
        && part.bytes().any(|byte| byte.is_ascii_digit())
        && part.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(redact_command(argv.iter().copied()), shown, "{argv:?}");
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
}
