//! The contracts of the subsystems, `actors/*/CONTRACT.md`, and the citations of their rules in code and
//! tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
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

/// Groups of the queue whose rules each have a test that names them.
const TESTED: &str = "CDPR";

/// Folders with the queue's tests.
const TESTS_OF_THE_QUEUE: [&str; 5] = [
    "actors/queue/src/tests",
    "tests/queue_process",
    "tests/configuration",
    "tests/recovery",
    "tests/interop",
];

/// Forms of citations that were used before.
const OLD_FORMS: [&str; 7] =
    ["// contract:", "(contract:", "contract §", "contract (§", "spec §", "// spec:", "RULES.md"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page(name: &str) -> String {
    let path = root().join("actors").join(name).join("CONTRACT.md");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Rules have numbers such as `QP09`.
fn is_number(word: &str) -> bool {
    let [page, group, tens, ones] = word.as_bytes() else { return false };
    let known = PAGES.iter().any(|(letter, _)| *letter == char::from(*page));
    let groups = if *page == b'Q' { GROUPS_OF_THE_QUEUE } else { GROUPS };
    known && groups.contains(char::from(*group)) && tens.is_ascii_digit() && ones.is_ascii_digit()
}

/// Words of letters, digits and underscores.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
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

/// All numbers that are defined.
fn rules() -> BTreeSet<String> {
    PAGES.iter().flat_map(|(_, name)| page(name).lines().flat_map(defined).collect::<Vec<_>>()).collect()
}

/// Source files below `folder`, this one excepted: it names the old forms.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of ours") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                sources(&path, found);
            }
        } else if path.extension().and_then(|extension| extension.to_str()).is_some_and(|extension| {
            ["rs", "py", "sh", "toml", "yml", "sql", "md", "json"].contains(&extension)
        }) && !path.ends_with(file!())
        {
            found.push(path);
        }
    }
}

/// Every source file of the repository with its text.
fn texts() -> BTreeMap<PathBuf, String> {
    let mut found = Vec::new();
    for folder in ["actors", "config", "deploy", "src", "tests"] {
        sources(&root().join(folder), &mut found);
    }
    let pages = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md"];
    found.extend(pages.map(|name| root().join(name)));
    let text = |path: PathBuf| Some((path.clone(), fs::read_to_string(path).ok()?));
    found.into_iter().filter_map(text).collect()
}

#[test]
fn rule_numbers_are_unique_and_sections_are_in_order() {
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

/// Rules that `text` cites, with those in between for `QC01 to QC09`, and those in names of tests such as
/// `c05_c22_..`.
fn cited(text: &str, rules: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = words(text).filter(|word| is_number(word)).map(str::to_owned).collect();
    let all: Vec<&str> = words(text).collect();
    for range in all.windows(3) {
        if let [first, "to", last] = *range
            && is_number(first)
            && is_number(last)
        {
            found.extend(rules.iter().filter(|rule| (first..=last).contains(&rule.as_str())).cloned());
        }
    }
    found.extend(text.split("fn ").skip(1).flat_map(numbers_of_a_test));
    found
}

/// Numbers at the beginning of a test's name.
fn numbers_of_a_test(name: &str) -> impl Iterator<Item = String> {
    let numbers = name.split('_').map(|part| format!("Q{}", part.to_ascii_uppercase()));
    // Percentiles have names of that form.
    numbers.take_while(|number| is_number(number) && !number.ends_with("99"))
}

fn is_of_the_queue(path: &Path) -> bool {
    let folders = TESTS_OF_THE_QUEUE.iter().chain(&["actors/queue", "tests/harness"]);
    folders.into_iter().any(|folder| path.starts_with(root().join(folder)))
}

#[test]
fn every_citation_resolves() {
    let rules = rules();
    let mut wrong = Vec::new();
    for (path, text) in texts() {
        let mut numbers = cited(&text, &rules);
        if !is_of_the_queue(&path) {
            // Names of tests are numbers of the queue's rules in its folders only.
            numbers = words(&text).filter(|word| is_number(word)).map(str::to_owned).collect();
        }
        wrong.extend(numbers.difference(&rules).map(|number| format!("{}: {number}", path.display())));
        for behind in text.split("CONTRACT").skip(1).filter(|behind| !behind.starts_with(".md")) {
            let next = words(behind).next().unwrap_or_default();
            if !is_number(next) {
                wrong.push(format!("{}: CONTRACT {next}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "citations without a rule:\n{}", wrong.join("\n"));
}

#[test]
fn no_citation_uses_an_old_form() {
    let is_old_number = |word: &str| {
        let digits = word.strip_prefix(['C', 'D', 'P', 'R']).unwrap_or_default();
        digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit()) && digits != "99"
    };
    let mut wrong = Vec::new();
    for (path, text) in texts() {
        for (number, line) in text.lines().enumerate() {
            let lower = line.to_lowercase();
            let form = OLD_FORMS.iter().any(|form| lower.contains(&form.to_lowercase()));
            // Sections of RFCs are cited so.
            let section = line.contains('§') && !line.contains("RFC ");
            let old_number = is_of_the_queue(&path) && words(line).any(is_old_number);
            if form || section || old_number {
                wrong.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "cite as CONTRACT QP09:\n{}", wrong.join("\n"));
}

#[test]
fn each_queue_rule_is_named_by_a_test() {
    let rules = rules();
    let mut named = BTreeSet::new();
    for (path, text) in texts() {
        if TESTS_OF_THE_QUEUE.iter().any(|folder| path.starts_with(root().join(folder))) {
            named.extend(cited(&text, &rules));
        }
    }
    let tested = |rule: &&String| {
        let mut letters = rule.chars();
        letters.next() == Some('Q') && letters.next().is_some_and(|group| TESTED.contains(group))
    };
    let missing: Vec<&String> = rules.iter().filter(tested).filter(|rule| !named.contains(*rule)).collect();
    assert!(missing.is_empty(), "no test names {missing:?}");
}
