//! The pages for people: their length, the length of their sentences, and the files and functions that they
//! name.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Most lines of a page.
const LINES_MAX: [(&str, usize); 3] =
    [("README.md", 150), ("ARCHITECTURE.md", 200), ("CONTRIBUTING.md", 200)];

/// Pages whose sentences are limited.
const PAGES: [&str; 15] = [
    "README.md",
    "ARCHITECTURE.md",
    "actors/supervise/DESIGN.md",
    "actors/queue/DESIGN.md",
    "actors/ingester/DESIGN.md",
    "actors/catalog/DESIGN.md",
    "actors/queue/README.md",
    "actors/provenance/README.md",
    "actors/ingester/README.md",
    "actors/producer/README.md",
    "actors/catalog/README.md",
    "actors/hooks/README.md",
    "deploy/PACKAGES.md",
    "deploy/RUNBOOK.md",
    "deploy/SCALING.md",
];

/// Most words of a sentence.
const WORDS_MAX: usize = 30;

/// Fewest questions of a maintainer that ARCHITECTURE.md answers.
const QUESTIONS_MIN: usize = 30;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Paragraphs, list items, headings and table cells of a page, without code blocks and HTML comments.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut in_code, mut open) = (false, false);
    for (number, line) in text.lines().enumerate().map(|(number, line)| (number + 1, line)) {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            in_code = !in_code;
            open = false;
        } else if in_code || trimmed.is_empty() || (line.starts_with("    ") && !open) {
            open = false;
        } else if trimmed.starts_with('|') {
            found.extend(trimmed.split('|').map(|cell| (number, cell.trim().to_owned())));
            open = false;
        } else if open && !trimmed.starts_with("- ") && !trimmed.starts_with('#') && !is_numbered(trimmed) {
            let (_, paragraph) = found.last_mut().expect("one is open");
            paragraph.push(' ');
            paragraph.push_str(trimmed);
        } else {
            found.push((number, trimmed.trim_start_matches(['-', '#', '>', ' ']).to_owned()));
            open = !trimmed.starts_with('#');
        }
    }
    found
}

fn is_numbered(line: &str) -> bool {
    line.split_once(". ")
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A paragraph with each code span in place of one word.
fn without_code(paragraph: &str) -> String {
    paragraph.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "code" }).collect()
}

fn sentences(paragraph: &str) -> Vec<String> {
    let text = without_code(paragraph);
    let mut found = vec![String::new()];
    for word in text.split_whitespace() {
        let last = found.last_mut().expect("never empty");
        last.push_str(word);
        last.push(' ');
        let bare = word.trim_end_matches(['*', ')', '"', '_']);
        if bare.ends_with(['.', '!', '?', ':', ';']) && !bare.ends_with("..") {
            found.push(String::new());
        }
    }
    found
}

#[test]
fn the_table_of_servers_has_the_newest_results() {
    let record = Command::new(root().join("tests/versions/record")).arg("--table").output().expect("Python");
    let table = String::from_utf8(record.stdout).expect("UTF-8");
    assert!(table.lines().count() > 2 && page("README.md").contains(&table), "README.md lacks:\n{table}");
}

#[test]
fn pages_are_no_longer_than_a_reader_has_time_for() {
    for (name, max) in LINES_MAX {
        let lines = page(name).lines().count();
        assert!(lines <= max, "{name} has {lines} lines, at most {max} are allowed");
    }
}

#[test]
fn sentences_of_pages_are_short() {
    let mut offenders = Vec::new();
    for name in PAGES {
        for (number, paragraph) in paragraphs(&page(name)) {
            for sentence in sentences(&paragraph) {
                let words = sentence.split_whitespace().count();
                if words > WORDS_MAX {
                    offenders.push(format!("{name}:{number}: {words} words: {sentence}"));
                }
            }
        }
    }
    assert!(offenders.is_empty(), "sentences of more than {WORDS_MAX} words:\n  {}", offenders.join("\n  "));
}

/// A definition counts in whatever form the language of the file has.
fn defines(text: &str, name: &str) -> bool {
    let forms = ["fn", "struct", "enum", "trait", "const", "type", "mod", "macro_rules!", "function"];
    text.lines().any(|line| {
        forms.iter().any(|form| {
            line.split(&format!("{form} {name}"))
                .nth(1)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        })
    })
}

#[test]
fn each_question_of_the_architecture_leads_to_an_existing_function() {
    let text = page("ARCHITECTURE.md");
    let section = text.split("\n## ").find(|section| section.starts_with("Where is")).expect("the section");
    let rows: Vec<&str> =
        section.lines().filter(|line| line.starts_with("| ") && line.contains('`')).collect();
    assert!(rows.len() >= QUESTIONS_MIN, "only {} questions", rows.len());
    for row in rows {
        let targets: Vec<(&str, &str)> = row.split('`').filter_map(|span| span.split_once("::")).collect();
        assert!(!targets.is_empty(), "no file::function in {row}");
        for (file, function) in targets {
            let source =
                fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            let name = function.rsplit("::").next().expect("a name");
            assert!(defines(&source, name), "{file} does not define {name}");
        }
    }
}

#[test]
fn files_that_pages_name_exist() {
    let folders = ["src/", "actors/", "tests/", "config/", "deploy/", "examples/"];
    let mut missing = Vec::new();
    for name in PAGES.iter().chain(&[
        "CONTRIBUTING.md",
        "tests/bench/README.md",
        "tests/bench/RESULTS.md",
        "TUTORIAL.md",
    ]) {
        let text = page(name);
        let folder = Path::new(name).parent().expect("below the root");
        for span in text.split('`').skip(1).step_by(2) {
            let file = span.split("::").next().unwrap_or_default();
            let is_path = folders.iter().any(|folder| file.starts_with(folder))
                && file.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
            // The tutorial's own crate does not exist here.
            if is_path
                && !file.starts_with("actors/pulse")
                && !root().join(file).exists()
                && !root().join(folder).join(file).exists()
            {
                missing.push(format!("{name}: `{file}`"));
            }
        }
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") && !root().join(folder).join(file).exists() {
                missing.push(format!("{name}: link to {file}"));
            }
        }
    }
    assert!(missing.is_empty(), "named files that do not exist:\n  {}", missing.join("\n  "));
}

#[test]
fn long_sentences_are_found_in_lists_tables_and_wrapped_lines() {
    let long = vec!["word"; 31].join(" ");
    let wrapped = format!("{}\n{}", vec!["word"; 16].join(" "), vec!["word"; 16].join(" "));
    for text in [long.clone(), wrapped, format!("- {long}"), format!("| a | {long} |")] {
        let longest = paragraphs(&text)
            .iter()
            .flat_map(|(_, paragraph)| sentences(paragraph))
            .map(|sentence| sentence.split_whitespace().count())
            .max();
        assert!(longest > Some(WORDS_MAX), "{text}");
    }
    let short = format!("`{long}` is one word. {}", vec!["word"; 29].join(" "));
    assert!(
        paragraphs(&short)
            .iter()
            .flat_map(|(_, text)| sentences(text))
            .all(|one| one.split_whitespace().count() <= 30)
    );
}
