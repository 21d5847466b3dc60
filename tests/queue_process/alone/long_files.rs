//! A long file: reading it takes long, and nothing is stuck meanwhile.

use orchestrator_harness::{eventually, http};

use crate::site;

const LINES: u64 = 300_000;

/// The store takes seconds, and the reader waits for it.
#[test]
fn reading_a_file_of_300_000_lines_leaves_nothing_stuck() {
    let site = site();
    let _instance = site.start();
    let text: String =
        (0..LINES).map(|n| format!("package-{n} 1.0 1.1 https://example.org/a/longer/path/{n}\n")).collect();
    // Renamed into the directory, so that it is complete.
    let elsewhere = site.path().join("f.1.txt");
    std::fs::write(&elsewhere, text).expect("write the file");
    std::fs::rename(&elsewhere, site.file("f.1.txt")).expect("rename it");
    let (mut looks, mut stored) = (0, 0);
    while stored < LINES {
        let ready = http(&site.admin_socket(), "GET", "/readyz", &[], "");
        assert_eq!(ready.status, 200, "after {stored} rows: {}", ready.body);
        let tree = site.snapshot().expect("the tree");
        for node in tree.branch("queue") {
            assert_eq!(node["stuck"], false, "{} in {}", node["path"], node["in_progress"]);
        }
        // The reader sends one batch at a time, so that the store's inbox is full.
        let causes = site.causes("queue");
        let wrong = |text: &str| text.contains("is full") || (stored > 0 && text.contains("no fetcher file"));
        assert!(!causes.iter().any(|cause| wrong(&cause.text)), "{causes:?}");
        looks += 1;
        let before = std::mem::replace(&mut stored, site.metric("queue/queue_store", "ingested"));
        eventually("more rows", || stored == LINES || site.metric("queue/queue_store", "ingested") > before);
    }
    assert!(looks > 5, "the file was not long enough: {looks}");
    eventually("the run to be complete", || {
        site.database().rows("SELECT 1 FROM fetcher_runs WHERE is_complete").len() == 1
    });
}
