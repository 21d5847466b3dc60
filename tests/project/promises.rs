//! `tests/PROMISES.md` names existing tests only, and every test module.

use std::{collections::BTreeMap, fs, path::Path};

/// Names of the tests in each Rust file below `folder`, by the file's path.
fn tests_below(folder: &Path, root: &Path, found: &mut BTreeMap<String, Vec<String>>) {
    for entry in fs::read_dir(folder).expect("a folder of ours") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            tests_below(&path, root, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).expect("it is below").to_str().expect("UTF-8").to_owned();
            found.insert(name, tests_of(&fs::read_to_string(&path).expect("UTF-8")));
        }
    }
}

/// Names of the functions that an attribute makes a test, `#[test]` and `#[actix_rt::test]` for example.
fn tests_of(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut marked = false;
    for line in text.lines().map(|line| line.trim().trim_start_matches("$(")) {
        let attribute =
            line.strip_prefix("#[").map_or("", |line| line.split([']', '(']).next().unwrap_or(""));
        marked |= attribute.rsplit("::").next() == Some("test");
        let Some(rest) = line.split_once("fn ").filter(|_| marked).map(|(_, rest)| rest) else { continue };
        // A macro that defines tests counts as one.
        names.push(rest.split('(').next().unwrap_or("").to_owned());
        marked = false;
    }
    names
}

/// Returns true if the tests of this file must be on the page.
fn is_on_the_page(file: &str) -> bool {
    let crates_own = file.starts_with("actors/") && file.split('/').nth(2) == Some("tests");
    let folder = file.strip_prefix("tests/").and_then(|file| file.split('/').next()).unwrap_or("");
    crates_own
        || folder.ends_with("_process")
        || ["recovery", "interop", "configuration", "troubles", "upgrades"].contains(&folder)
}

#[test]
fn each_promise_has_a_test_and_each_test_module_a_promise() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = BTreeMap::new();
    for folder in ["actors", "src", "tests"] {
        tests_below(&root.join(folder), root, &mut tests);
    }
    let page = fs::read_to_string(root.join("tests/PROMISES.md")).expect("it is there");
    let (mut numbers, mut named, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for row in page.lines().filter_map(|line| line.strip_prefix("| ")) {
        let cells: Vec<_> = row.split(" | ").collect();
        let [number, promise, proofs] = cells[..] else { panic!("not three cells: {row}") };
        if number == "number" {
            continue;
        }
        numbers.extend(number.split(", "));
        if promise.split_whitespace().count() > 25 {
            wrong.push(format!("{number} has more than 25 words"));
        }
        let proofs: Vec<_> = proofs.split('`').skip(1).step_by(2).collect();
        if proofs.is_empty() {
            wrong.push(format!("{number} has no test"));
        }
        for proof in proofs {
            let (file, function) = proof.split_once("::").unwrap_or((proof, ""));
            let of_file = tests.get(file).map(Vec::as_slice).unwrap_or_default();
            if of_file.is_empty() || !function.is_empty() && !of_file.iter().any(|name| name == function) {
                wrong.push(format!("{number}: {proof} is no test"));
            }
            named.push(file);
        }
    }
    let total = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert!(total >= 200 && numbers.len() == total, "{total} promises, {} numbers", numbers.len());
    let left_out = tests.iter().filter(|(file, tests)| is_on_the_page(file) && !tests.is_empty());
    let left_out = left_out.map(|(file, _)| file).filter(|file| !named.contains(&file.as_str()));
    wrong.extend(left_out.map(|file| format!("{file} has tests and no promise")));
    assert!(wrong.is_empty(), "tests/PROMISES.md:\n{}", wrong.join("\n"));
}
