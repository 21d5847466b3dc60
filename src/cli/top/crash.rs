//! The newest crash of a branch. No I/O.

use orchestrator_subsystem::wire::{CrashReport, Crashes, NodeSnapshot};

/// Parts of the source paths of libraries: the standard library, and packages of a registry or in a `vendor`
/// folder.
const LIBRARIES: [&str; 4] = ["/rustc/", "/library/", "/.cargo/", "/vendor/"];
/// Start of the names of this program's functions, for binaries without line numbers.
const OWN_NAME: &str = "orchestrator";

/// Newest crash of a branch, and what it was requested for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewestCrash {
    /// Time of the last exit in the branch, milliseconds since 1970. Without a later one, there is no newer
    /// report.
    pub(super) exit_ms: u64,
    pub(super) crash: Option<Crash>,
}

/// Summary of a crash report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Crash {
    pub(super) path: String,
    pub(super) at_ms: u64,
    /// `panicked` or `failed`.
    pub(super) kind: String,
    pub(super) message: String,
    /// First line of the backtrace that is not of a library.
    pub(super) frame: Option<String>,
}

impl Crash {
    pub(super) fn newest(crashes: Crashes) -> Option<Self> {
        let report = crashes.crashes.into_iter().next()?;
        let frame = first_own_frame(&report);
        let CrashReport { path, at_ms, kind, message, .. } = report;
        Some(Self { path, at_ms, kind, message, frame })
    }
}

fn first_own_frame(report: &CrashReport) -> Option<String> {
    report.backtrace.iter().find(|line| is_own(line)).cloned()
}

/// True if the line, `function at file:line`, is not of a library.
fn is_own(line: &str) -> bool {
    match line.rsplit_once(" at ") {
        Some((_, file)) => !LIBRARIES.iter().any(|folder| file.contains(folder)),
        // The type of a method is in angle brackets.
        None => line.trim_start_matches('<').starts_with(OWN_NAME),
    }
}

/// Time of the last exit of a child or its descendants, in milliseconds since 1970.
pub(super) fn last_exit_ms(child: &NodeSnapshot) -> Option<u64> {
    let mut last = None;
    child.walk(&mut |node| last = last.max(node.last_exit.as_ref().map(|exit| exit.at_ms)));
    last
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::top::snapshots::tree;

    fn crashes(backtrace: &[&str]) -> Crashes {
        let report = json!({
            "number": 2, "at_ms": 7, "path": "o/a", "incarnation": 1, "kind": "panicked", "message": "disk",
            "location": null, "in_progress": null, "events": [], "samples": null, "backtrace": backtrace,
        });
        serde_json::from_value(json!({ "crashes": [report], "left_out": 1 })).unwrap()
    }

    #[test]
    fn frames_of_libraries_are_passed_over() {
        let own = "<orchestrator_queue::Store>::take at /home/a/actors/queue/src/store.rs:7";
        let foreign = [
            "core::option::Option::map at /rustc/0123/library/core/src/option.rs:1",
            "orchestrator_queue::a::<u8>::{closure#0} at /home/a/.cargo/registry/src/b/lib.rs:2",
            "unknown function",
            "tokio::task::spawn",
        ];
        let frame = |lines: &[&str]| Crash::newest(crashes(lines)).and_then(|crash| crash.frame);
        assert_eq!(frame(&[&foreign[..], &[own, "later at b.rs:1"]].concat()).as_deref(), Some(own));
        assert_eq!(frame(&foreign), None);
        assert_eq!(
            frame(&["std::a", "<orchestrator_queue::A as B>::c"]).as_deref(),
            Some("<orchestrator_queue::A as B>::c")
        );
        assert_eq!(Crash::newest(Crashes { crashes: Vec::new(), left_out: 0 }), None);
    }

    #[test]
    fn the_last_exit_of_a_branch_is_that_of_its_descendants() {
        let mut tree = tree(1_000, 1_000, 0);
        assert_eq!(last_exit_ms(&tree.root), None);
        for (child, at_ms) in [(0, 900), (1, 400)] {
            let exit = json!({ "kind": "failed", "reason": "x", "at_ms": at_ms, "in_progress": null });
            tree.root.children[child].last_exit = serde_json::from_value(exit).unwrap();
        }
        assert_eq!(last_exit_ms(&tree.root), Some(900));
        assert_eq!(last_exit_ms(&tree.root.children[1]), Some(400));
    }
}
