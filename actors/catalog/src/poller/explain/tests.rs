//! States of a row that a server shows seldom, in words.

use orchestrator_catalog_rules::{outcome_kind::OutcomeKind, rows::Row, rule::Rule};
use orchestrator_subsystem::{Item, NextChance, Progress};
use serde_json::{Value, json};

use super::words::Known;
use crate::{
    config::RuleConfig,
    row_question::{HeldRow, RowStage, RuleView},
};

const NOW: &str = "2026-12-01T10:00:00Z";
const NOW_MS: u64 = 1_796_119_200_000;

fn row(value: Value) -> Row {
    serde_json::from_value(value).expect("a row")
}

fn item(view: RuleView, row: Option<Row>, is_candidate: Option<bool>) -> Item {
    let config: RuleConfig = serde_json::from_value(json!({
        "name": "work", "table": "Foo", "key": "id", "filter": "state=new", "attempts_column": "attempts", "max_attempts": 3,
        "claim": { "set": { "state": "claimed", "claimed_by": "$token", "lease_until": "$now+60s", "attempts": "$row.attempts+1" } },
        "done": { "state": "done", "claimed_by": "$null" }, "fail": { "state": "new" }, "dead": { "state": "dead" },
        "handler": { "kind": "queue", "attr_path": "img $row.id", "payload": "x" },
    }))
    .expect("a rule");
    let rule = Rule::new(&config.definition()).expect("a rule");
    let path = "orchestrator/catalog/lab/rules/work".to_owned();
    let (key, now) = ("7".to_owned(), NOW.parse().expect("a time"));
    let known =
        Known { catalog: "lab", path, key, config: &config, rule: &rule, view, row, is_candidate, now };
    known.item(None).expect("an item")
}

#[test]
fn a_claim_without_an_answer_is_read_again_at_a_time() {
    let view = RuleView { unconfirmed: Some(NOW_MS + 5_000), ..RuleView::default() };
    let found = item(view, Some(row(json!({ "id": 7, "state": "new" }))), Some(true));
    assert_eq!((found.progress, found.causes[0].kind.as_str()), (Progress::Waits, "claim_unconfirmed"));
    assert_eq!(found.next, Some(NextChance::At { at_ms: NOW_MS + 5_000 }));
}

#[test]
fn a_settlement_without_an_answer_names_the_outcome() {
    let held = |is_unknown| HeldRow {
        stage: RowStage::Settling { outcome: OutcomeKind::Done, is_unknown },
        row: row(json!({ "id": 7 })),
        token: "me/1".to_owned(),
        attempt: Some(2),
        claimed_at: NOW_MS - 9_000,
        lease_until: Some(NOW_MS + 1_000),
    };
    let view = |is_unknown| RuleView { held: Some(held(is_unknown)), ..RuleView::default() };
    let found = item(view(true), None, None);
    assert_eq!(found.text, "claimed, attempt 2 of 3; its outcome `done` is not written yet");
    assert!(
        found.causes[0].text.starts_with("a write of the outcome had no answer") && !found.causes[0].routine
    );
    assert_eq!(found.causes[0].help, "orchestrator why catalog/lab/rules/work");
    assert_eq!(found.evidence, ["token me/1", "its lease ends at 2026-12-01T10:00:01Z"]);
    assert_eq!(found.continues_as, ["queue/img%207"], "as the queue writes the job's path");
    assert!(item(view(false), None, None).causes[0].routine, "it is in the next write");
}

#[test]
fn a_lease_that_has_ended_is_taken_over_at_the_next_poll() {
    let of =
        |until: &str| row(json!({ "id": 7, "state": "claimed", "claimed_by": "x/1", "lease_until": until }));
    let view = || RuleView { next_poll: Some(NOW_MS + 30_000), ..RuleView::default() };
    let found = item(view(), Some(of("2026-12-01T09:59:00Z")), Some(false));
    assert!(found.causes[0].text.contains("it is taken over at the next poll"), "{found:?}");
    assert_eq!(found.next, Some(NextChance::At { at_ms: NOW_MS + 30_000 }));
    let held = item(view(), Some(of("2026-12-01T10:01:00Z")), Some(false));
    assert_eq!(held.next, Some(NextChance::NotBefore { at_ms: NOW_MS + 60_000 }));
}

#[test]
fn a_rule_that_reads_nothing_says_why() {
    let view = RuleView { reason: Some("the table is gone".to_owned()), ..RuleView::default() };
    let found = item(view, Some(row(json!({ "id": 7, "state": "new" }))), Some(true));
    assert_eq!((found.causes[0].kind.as_str(), found.causes[0].routine), ("parked", false));
    assert!(found.causes[0].text.ends_with("the table is gone"), "{found:?}");
    let unknown = item(RuleView::default(), Some(row(json!({ "id": 7, "state": "odd" }))), None);
    assert!(unknown.text.starts_with("whether it is a candidate is not known"), "{unknown:?}");
}
