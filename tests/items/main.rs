//! Forty situations of one job, row, mapping, stencil or digest, made with the real binary or in the tests of
//! a crate: each is a row of the table in `deploy/RUNBOOK.md`, with what `orchestrator why ITEM` says.
//!
//! `./tests/run --full items` runs all of them, and prints the questions and answers. A usual run leaves out
//! those below [`in_full`].

mod catalog;
mod queue;
mod stores;

/// Those that take seconds, or need servers of their own.
mod in_full {
    mod dranspose;
    mod postgres;
}

use orchestrator_harness::{TestEnv, wait_for};
use serde_json::Value;

/// The real binary.
const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const RUNBOOK: &str = include_str!("../../deploy/RUNBOOK.md");

/// The last answer, which a failed test prints.
struct LastAnswer(String);

impl Drop for LastAnswer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the last answer: {}", self.0);
        }
    }
}

/// Waits until the answer about an item has this text, and returns it. Exit code and text must be those of
/// the situation, which is a row of the runbook.
///
/// # Panics
/// If the runbook has no row for `situation`.
pub(crate) fn asks(env: &TestEnv, situation: &str, item: &str, code: i32, texts: &[&str]) -> Value {
    let row = format!("| {situation} | ");
    assert_eq!(RUNBOOK.matches(&row).count(), 1, "a row of deploy/RUNBOOK.md: {situation}");
    let mut last = LastAnswer(String::new());
    let printed = wait_for(situation, || {
        let (found, text, err) = env.cli(&["why", item]);
        last.0 = format!("code {found}: {text}{err}");
        (found == code && texts.iter().all(|part| text.contains(part))).then_some(text)
    });
    eprintln!("\n<<< {situation}: orchestrator why {item}\n{printed}>>>");
    let (found, json, _) = env.cli(&["why", item, "--json"]);
    assert_eq!(found, code, "{json}");
    serde_json::from_str(&json).expect("JSON")
}
