//! Lengths of functions in Rust and SQL, and of the SQL in strings.

use std::collections::BTreeSet;

use super::tidy::{assert_none, files, rust_files};

/// Maximum number of lines of a function, from its name to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Production functions that are longer. There may be fewer, not more.
const LONG_FUNCTIONS: &[&str] = &[
    "actors/ingester/src/lib.rs: branch",
    "actors/supervise/src/build.rs: build",
    "actors/supervise/src/runner.rs: drive",
];
/// Folders whose statements of more than [`SQL_LINES_MAX`] lines are in `.sql` files.
const SQL_IN_FILES: &[&str] = &["actors/queue/postgres", "actors/queue/sqlite"];
/// Maximum number of lines of SQL in a string.
const SQL_LINES_MAX: usize = 3;

#[test]
fn functions_are_short() {
    let known: BTreeSet<&str> = LONG_FUNCTIONS.iter().copied().collect();
    let rust = rust_files().into_iter().filter(|(path, _)| is_production(path));
    let rust = rust.flat_map(|(path, text)| {
        rust_functions(&text).into_iter().map(move |(name, lines)| (format!("{path}: {name}"), lines))
    });
    let sql = files(&["actors"], "sql").into_iter().flat_map(|(path, text)| {
        sql_functions(&text).into_iter().map(move |(name, lines)| (format!("{path}: {name}"), lines))
    });
    let functions: Vec<(String, usize)> = rust.chain(sql).collect();
    assert!(functions.len() > 3_000, "only {} functions were found", functions.len());
    let long = functions
        .into_iter()
        .filter(|(name, lines)| *lines > FUNCTION_LINES_MAX && !known.contains(name.as_str()));
    let long: Vec<String> = long.map(|(name, lines)| format!("{name} has {lines} lines")).collect();
    assert_none("functions that are too long", &long);
}

#[test]
fn long_sql_is_in_files() {
    let mut offenders = Vec::new();
    for (path, text) in rust_files() {
        if SQL_IN_FILES.iter().any(|folder| path.starts_with(folder)) {
            let long = strings(&text).into_iter().filter(|string| is_sql(string));
            let long = long.filter(|string| string.lines().count() > SQL_LINES_MAX);
            offenders
                .extend(long.map(|string| format!("{path}: {}", string.lines().next().unwrap_or_default())));
        }
    }
    assert_none("SQL in strings: move it to a file below sql/", &offenders);
}

fn is_production(path: &str) -> bool {
    let is_test =
        path.split('/').any(|part| part == "tests" || part == "tests.rs" || part.ends_with("_test.rs"));
    !is_test && !path.ends_with("_tests.rs")
}

/// Functions with their numbers of lines, as rustfmt lays them out. Those of test modules are left out.
fn rust_functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut functions, mut at) = (Vec::new(), 0);
    while let Some(line) = lines.get(at) {
        let indentation = &line[..line.len() - line.trim_start().len()];
        let closing = || {
            let end = lines[at..].iter().position(|line| line.strip_prefix(indentation) == Some("}"));
            end.unwrap_or_default() + 1
        };
        if *line == "#[cfg(test)]" && lines.get(at + 1).is_some_and(|line| line.ends_with('{')) {
            at += closing();
            continue;
        }
        if let Some(name) = function_name(line.trim_start()) {
            // A declaration in a trait, or a function of one line, has no body of its own.
            let head =
                lines[at..].iter().position(|line| line.ends_with(['{', ';', '}'])).unwrap_or_default();
            if lines[at + head].ends_with('{') {
                functions.push((name.to_owned(), closing()));
            }
        }
        at += 1;
    }
    functions
}

fn function_name(line: &str) -> Option<&str> {
    let (modifiers, rest) = line.split_at(line.find("fn ")?);
    let is_head = modifiers.split_whitespace().all(|word| {
        word.starts_with("pub") || ["const", "async", "extern", "\"C\"", "in", "super)"].contains(&word)
    });
    let name = rest[3..].split(['(', '<']).next()?;
    (is_head && !name.is_empty()).then_some(name)
}

/// Functions with their numbers of lines. Their bodies are quoted with `$$`.
fn sql_functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let head = |line: &str| Some(line.split_once("FUNCTION ")?.1.split('(').next()?.to_owned());
    let heads = lines.iter().enumerate().filter(|(_, line)| line.starts_with("CREATE"));
    let heads = heads.filter_map(|(at, line)| Some((at, head(line)?)));
    heads
        .map(|(at, name)| {
            let end = lines[at..].iter().position(|line| line.starts_with("$$"));
            (name, end.unwrap_or(lines.len()) + 1)
        })
        .collect()
}

/// String literals, with the characters between their quotes as they stand in the source.
fn strings(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut strings, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &text[at..];
        at += if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
            3
        } else if let Some((length, string)) = literal(rest) {
            strings.push(string);
            length
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
    }
    strings
}

/// Length and content of the literal that `text` begins with.
fn literal(text: &str) -> Option<(usize, &str)> {
    if let Some(raw) = text.strip_prefix('r')
        && let hashes = raw.len() - raw.trim_start_matches('#').len()
        && raw[hashes..].starts_with('"')
    {
        let (start, quote) = (hashes + 2, format!("\"{}", "#".repeat(hashes)));
        let length = text[start..].find(&quote)?;
        return Some((start + length + quote.len(), &text[start..start + length]));
    }
    let content = text.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = content.find(|next| {
        let is_end = next == '"' && !is_escaped;
        is_escaped = next == '\\' && !is_escaped;
        is_end
    })?;
    Some((end + 2, &content[..end]))
}

fn is_sql(string: &str) -> bool {
    const WORDS: &[&str] =
        &["SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "WITH", "WHERE", "DROP", "BEGIN"];
    string.split(|next: char| !next.is_alphanumeric()).any(|word| WORDS.contains(&word))
}

#[test]
fn lengths_are_counted() {
    let source = "pub(super) fn two(\n    a: u8,\n) {\n    \"SELECT \\\" 1\n  2\";\n}\n\ntrait T {\n    fn none();\n}\n";
    assert_eq!(rust_functions(source), [("two".to_owned(), 6)]);
    assert_eq!(strings(source), ["SELECT \\\" 1\n  2"]);
    assert_eq!(strings("'\"' r#\"a\"b\"# // \"c\"\n\"d\""), ["a\"b", "d"]);
    let sql = "CREATE OR REPLACE FUNCTION a(b text)\nRETURNS text AS $$\n    SELECT b\n$$;\n";
    assert_eq!(sql_functions(sql), [("a".to_owned(), 4)]);
}
