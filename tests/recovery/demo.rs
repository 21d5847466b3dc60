//! `orchestrator demo`: under injected panics and outages no job and no row is lost, nor a row of the catalog
//! whose job the queue hands out.

use std::process::Command;

use serde_json::Value;

#[test]
fn the_demo_loses_nothing_under_faults() {
    let output = Command::new(env!("CARGO_BIN_EXE_orchestrator"))
        .args(["demo", "--for", "20s", "--json"])
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    let number = |key: &str| report[key].as_u64().unwrap_or_else(|| panic!("no {key}: {text}"));
    assert_eq!(number("lost"), 0, "{text}");
    assert!(output.status.success(), "{text}");
    // The faults took place, and the work was more than they could have spared.
    assert!(number("panics") >= 2 && number("outages") >= 1, "{text}");
    assert!(number("jobs_done") > 1_000 && number("rows_stored") > 1_000, "{text}");
    assert_eq!(number("jobs_done"), number("jobs_listed"), "{text}");
    assert!(number("catalog_rows") > 100, "{text}");
    assert_eq!(number("catalog_rows_done"), number("catalog_rows"), "{text}");
    assert!(number("rows_stored") >= number("rows_sent"), "{text}");
}
