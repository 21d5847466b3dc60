//! The language of the project: plain names and doc comments that begin with a noun or a verb.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};

/// Words that no identifier and no file name contains, whatever its case.
const NAMES: &[&str] = &[
    "house",
    "houses",
    "desk",
    "desks",
    "place",
    "places",
    "hand",
    "hands",
    "shift",
    "shifts",
    "trouble",
    "troubles",
    "patience",
    "patient",
    "impatient",
    "ending",
    "endings",
    "ledger",
    "ledgers",
    "presence",
    "idiom",
    "idioms",
    "mended",
    "mend",
    "seat",
    "seats",
    "errand",
    "errands",
    "told",
    "untold",
    "bury",
    "buried",
    "burial",
    "endure",
    "endured",
    "siege",
    "besieged",
    "stranger",
    "strangers",
    "neighbour",
    "neighbours",
    "robbed",
    "blinded",
];

/// Words that may follow `hand`: field terms such as a hand-out, and the verb `hand over`.
const FIELD_TERMS: &[&str] = &["out", "outs", "over", "off", "shake"];

/// Words that neither comments nor pages contain.
const PHRASES: &[&str] = &[
    "house",
    "houses",
    "desk",
    "desks",
    "errand",
    "errands",
    "siege",
    "sieges",
    "besieged",
    "stranger",
    "strangers",
    "buried",
    "bury",
    "endure",
    "endures",
    "endured",
    "patience",
    "impatient",
    "mended",
    "idiom",
    "idioms",
    "seat",
    "seats",
    "ledger",
    "ledgers",
    "trouble",
    "troubles",
    "neighbour",
    "neighbours",
    "robbed",
    "blinded",
    "anew",
];

/// Pairs of words that neither comments nor pages contain.
const PAIRS: &[[&str; 2]] =
    &[["in", "hand"], ["so", "many"], ["is", "told"], ["are", "told"], ["was", "told"]];

/// Words that no doc comment begins with.
const HEADS: &[&str] = &["What", "Which", "Who", "Whose", "Whether", "How"];

const FOLDERS: &[&str] = &["src", "actors", "tests", "deploy", "config", "examples"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files of the repository with this extension, as paths below its root.
fn files(extension: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(root())
        .expect("the root is a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .collect();
    for folder in FOLDERS {
        collect(&root().join(folder), &mut found);
    }
    found.retain(|path| path.extension().is_some_and(|found| found == extension));
    assert!(!found.is_empty(), "no file ends in .{extension}");
    found
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() { collect(&path, found) } else { found.push(path) }
    }
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Splits `ChildSpec`, `child_spec` and `CHILD_SPEC` into `child` and `spec`.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut after_lower = false;
    for c in identifier.chars() {
        if c == '_' || c == '-' || (c.is_uppercase() && after_lower) {
            parts.push(String::new());
        }
        if c.is_alphanumeric() {
            parts.last_mut().expect("never empty").extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns the banned word of an identifier.
fn banned(identifier: &str) -> Option<&'static str> {
    let parts = parts(identifier);
    parts.iter().enumerate().find_map(|(at, part)| {
        let word = NAMES.iter().find(|word| *word == part)?;
        let field_term =
            part == "hand" && parts.get(at + 1).is_some_and(|next| FIELD_TERMS.contains(&next.as_str()));
        (!field_term).then_some(*word)
    })
}

fn identifiers(tokens: TokenStream, found: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                found.insert(ident.to_string());
            }
            TokenTree::Group(group) => identifiers(group.stream(), found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Returns the banned word or pair of words of a sentence.
fn phrase(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    let single = words.iter().find(|word| PHRASES.contains(word)).map(|word| (*word).to_owned());
    let pair = || {
        words.windows(2).find(|pair| PAIRS.iter().any(|banned| banned == *pair)).map(|pair| pair.join(" "))
    };
    single.or_else(pair)
}

/// The text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//").map(|text| text.trim_start_matches(['/', '!']))
}

fn is_doc(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("///") || line.starts_with("//!")
}

fn refuse(what: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{what}:\n  {}", offenders.join("\n  "));
}

#[test]
fn identifiers_and_file_names_are_terms_of_the_field() {
    let mut offenders = Vec::new();
    for path in files("rs") {
        let name = shown(&path);
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        offenders.extend(banned(stem).map(|word| format!("{name}: file name with `{word}`")));
        let text = fs::read_to_string(&path).expect("UTF-8");
        let mut found = BTreeSet::new();
        identifiers(text.parse().expect("Rust"), &mut found);
        for identifier in found {
            let line = text.lines().position(|line| line.contains(&identifier)).unwrap_or_default() + 1;
            offenders.extend(
                banned(&identifier).map(|word| format!("{name}:{line}: `{identifier}` with `{word}`")),
            );
        }
    }
    refuse("names that are no terms of the field", &offenders);
}

#[test]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    let mut offenders = Vec::new();
    for path in files("rs") {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let mut in_doc = false;
        for (number, line) in text.lines().enumerate() {
            let first = comment(line).and_then(|text| text.split_whitespace().next()).unwrap_or_default();
            if is_doc(line) && !in_doc && HEADS.contains(&first) {
                offenders.push(format!("{}:{}: {}", shown(&path), number + 1, line.trim()));
            }
            in_doc = is_doc(line);
        }
    }
    refuse("doc comments that begin with a question word", &offenders);
}

#[test]
fn comments_and_pages_use_plain_words() {
    let mut offenders = Vec::new();
    for extension in ["rs", "md"] {
        for path in files(extension) {
            let text = fs::read_to_string(&path).expect("UTF-8");
            let is_changelog = path.ends_with("CHANGELOG.md");
            for (number, line) in text.lines().enumerate() {
                // The tables of renamed things in the change log name the former words.
                let exempt = is_changelog && line.trim_start().starts_with('|');
                let prose = if extension == "rs" { comment(line) } else { Some(line) };
                if let Some(word) = prose.filter(|_| !exempt).and_then(phrase) {
                    offenders.push(format!("{}:{}: `{word}`: {}", shown(&path), number + 1, line.trim()));
                }
            }
        }
    }
    refuse("words of a private language", &offenders);
}

#[test]
fn banned_words_are_found_in_every_case_and_field_terms_pass() {
    for (identifier, word) in [
        ("TestHouse", Some("house")),
        ("DESK_SIZE", Some("desk")),
        ("is_told", Some("told")),
        ("by_hand", Some("hand")),
    ] {
        assert_eq!(banned(identifier), word, "{identifier}");
    }
    for identifier in [
        "hand_out",
        "HandOut",
        "handshake",
        "Housekeeper",
        "placement",
        "replaced",
        "pending",
        "told_".trim_end_matches("told_"),
    ] {
        assert_eq!(banned(identifier), None, "{identifier}");
    }
    assert_eq!(phrase("Rows in hand."), Some("in hand".to_owned()));
    assert_eq!(phrase("A warehouse; a handshake; reseat."), None);
}
