//! Answer of `orchestrator why`, read from the text that an operator sees.

use crate::{TestEnv, wait_for};

/// Cause of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintedCause {
    /// Path of the child without the root's name.
    pub path: String,
    /// The cause, with its age.
    pub text: String,
    /// Facts that support it.
    pub evidence: Vec<String>,
    /// Other children that wait because of it.
    pub affects: Vec<String>,
    /// Command or action that helps.
    pub help: String,
}

impl TestEnv {
    /// Text of `orchestrator why BRANCH`.
    ///
    /// # Panics
    /// If the command fails.
    pub fn why(&self, branch: &str) -> String {
        let (code, out, err) = self.cli(&["why", branch]);
        assert_eq!(code, 0, "{out}{err}");
        out
    }

    /// Causes of a branch, the most effective one first.
    ///
    /// # Panics
    /// If the command fails, or prints another form.
    pub fn causes(&self, branch: &str) -> Vec<PrintedCause> {
        let mut causes: Vec<PrintedCause> = Vec::new();
        for line in self.why(branch).lines().skip(1) {
            let (key, text) = line.trim_start().split_once(' ').unwrap_or_else(|| panic!("{line}"));
            if key.strip_suffix('.').is_some_and(|number| number.parse::<u32>().is_ok()) {
                let (path, text) = text.split_once(": ").unwrap_or_else(|| panic!("{line}"));
                let (path, text) = (path.to_owned(), text.to_owned());
                let (evidence, affects) = (Vec::new(), Vec::new());
                causes.push(PrintedCause { path, text, evidence, affects, help: String::new() });
                continue;
            }
            let cause = causes.last_mut().unwrap_or_else(|| panic!("no cause before {line}"));
            match key {
                "evidence:" => cause.evidence.push(text.to_owned()),
                "affects:" => cause.affects = text.split(", ").map(str::to_owned).collect(),
                "do:" => text.clone_into(&mut cause.help),
                _ => panic!("unknown line {line}"),
            }
        }
        causes
    }

    /// Waits until the first cause of a branch contains `text`, and returns it.
    ///
    /// # Panics
    /// If another cause, or none, stays the first.
    pub fn first_cause(&self, branch: &str, text: &str) -> PrintedCause {
        wait_for(text, || self.causes(branch).into_iter().next().filter(|first| first.text.contains(text)))
    }
}
