//! The contracts of the subsystems, `actors/*/CONTRACT.md`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// First letter of a page's numbers, and the crate that the page belongs to.
const PAGES: [(char, &str); 5] =
    [('Q', "queue"), ('P', "provenance"), ('I', "ingester"), ('S', "producer"), ('C', "catalog")];

/// Groups of a page's numbers; the queue has two more.
const GROUPS: &str = "FPDOESXN";
const GROUPS_OF_THE_QUEUE: &str = "FPDOESXNCR";

/// Sections of a page; the third one has a title of its own.
const SECTIONS: [&str; 8] = [
    "Files and configuration",
    "Protocol and wire formats",
    "",
    "Order",
    "Errors and refusals",
    "Durability",
    "Differences from the original",
    "Not supported",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page(name: &str) -> String {
    let path = root().join("actors").join(name).join("CONTRACT.md");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Tells whether `word` has the form of a rule's number, such as `QP09`.
fn is_number(word: &str) -> bool {
    let [page, group, tens, ones] = word.as_bytes() else { return false };
    let known = PAGES.iter().any(|(letter, _)| *letter == char::from(*page));
    let groups = if *page == b'Q' { GROUPS_OF_THE_QUEUE } else { GROUPS };
    known && groups.contains(char::from(*group)) && tens.is_ascii_digit() && ones.is_ascii_digit()
}

/// Numbers that a line of a page defines: the bold ones at the beginning of an item or of a row.
fn defined(line: &str) -> Vec<String> {
    let Some(mut rest) = line.strip_prefix("- ").or_else(|| line.strip_prefix("| ")) else {
        return Vec::new();
    };
    let mut numbers = Vec::new();
    while let Some((number, behind)) = rest.strip_prefix("**").and_then(|bold| bold.split_once("**")) {
        numbers.push(number.to_owned());
        rest = behind.trim_start_matches([',', ' ']);
    }
    numbers
}

#[test]
fn numbers_are_unique_and_ascend_and_sections_have_one_order() {
    let mut all = BTreeSet::new();
    for (letter, name) in PAGES {
        let page = page(name);
        let titles: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(titles.len(), SECTIONS.len(), "{name}: {titles:?}");
        for (title, section) in titles.iter().zip(SECTIONS) {
            assert!(section.is_empty() || *title == section, "{name}: {title} in place of {section}");
        }
        for section in page.split("\n## ").skip(1) {
            let mut last = BTreeMap::new();
            for number in section.lines().flat_map(defined) {
                assert!(is_number(&number) && number.starts_with(letter), "{name}: {number} is no number");
                assert!(all.insert(number.clone()), "{name}: {number} is there twice");
                let before = last.insert(number[..2].to_owned(), number.clone());
                assert!(before.as_ref() < Some(&number), "{name}: {number} stands behind {before:?}");
            }
            assert!(!last.is_empty(), "{name}: a section without a rule: {section}");
        }
    }
}
