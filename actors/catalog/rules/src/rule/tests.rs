//! Paths and bodies of rules, byte for byte.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::{definition::Definition, outcome_kind::OutcomeKind};

/// Defaults are those of the configuration.
fn definition(keys: &Value) -> Definition {
    let mut all = json!({ "key": "RID", "sort": "RCT,RID", "limit": 100 });
    all.as_object_mut().expect("an object").append(&mut keys.as_object().expect("an object").clone());
    serde_json::from_value(all).expect("a definition")
}

fn rule(keys: &Value) -> Rule {
    Rule::new(&definition(keys)).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn refused(keys: &Value) -> Vec<String> {
    Rule::new(&definition(keys)).expect_err("it should be refused")
}

fn row(value: Value) -> Row {
    serde_json::from_value(value).expect("an object")
}

fn now() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().expect("a time")
}

fn full_rule() -> Rule {
    rule(&json!({
        "name": "r", "table": "S:Foo bar", "filter": "state=actionable", "limit": 5, "attempts_column": "attempts",
        "max_attempts": 3,
        "claim": { "set": {
            "state": "claimed", "claimed_by": "$token", "lease_until": "$now+15m", "attempts": "$row.attempts+1"
        } },
        "done": { "state": "complete", "claimed_by": null, "doc": "$result.doc" },
        "fail": { "state": "actionable", "error": "$error" },
        "dead": { "state": "dead", "error": "$error" },
    }))
}

const BEFORE: &str = r#"{"RID":"1-A","RMT":"2026-11-20 11:00:00+00:00","state":"actionable","attempts":null,
    "claimed_by":null,"lease_until":null}"#;

fn before() -> Row {
    serde_json::from_str(BEFORE).expect("a row")
}

#[test]
fn a_table_and_a_filter_become_a_query_and_an_update() {
    let rule = full_rule();
    assert_eq!(rule.query(now(), 0), "/entity/S:Foo%20bar/state=actionable@sort(RCT,RID)?limit=5");
    assert!(rule.is_timeless());
    let more = "/entity/S:Foo%20bar/state=actionable@sort(RCT,RID)?limit=9";
    assert_eq!(rule.query(now(), 3), more, "what is left alone hides nothing");
    let update = "/attributegroup/S:Foo%20bar/RID,RMT;attempts,claimed_by,lease_until,state";
    assert_eq!(rule.update(), update);
    assert_eq!(rule.take_over(), update, "with row CAS it is the same");
    let held = "/entity/S:Foo%20bar/state=claimed&!lease_until::null::@sort(lease_until,RID)?limit=5";
    assert_eq!(rule.held_query().as_deref(), Some(held));
    assert_eq!(
        rule.token_query("me/1").as_deref(),
        Some("/entity/S:Foo%20bar/claimed_by=me%2F1&state=claimed")
    );
    let ids = [json!("1-A"), json!(7)].map(Cell::from);
    assert_eq!(rule.rows_query(&ids), "/entity/S:Foo%20bar/RID=any(1-A,7)");
    assert_eq!(rule.lease(), Some(Duration::from_secs(900)));
    assert_eq!(rule.warnings(), Vec::<String>::new());
}

#[test]
fn time_in_a_filter_is_encoded() {
    let rule = rule(&json!({
        "name": "r", "table": "T", "filter": "state=a;retry_at::leq::$now", "sort": "",
        "claim": { "set": { "state": "b" } },
    }));
    let query = "/entity/T/state=a;retry_at::leq::2026-11-20T12%3A00%3A00.000000%2B00%3A00?limit=100";
    assert_eq!((rule.query(now(), 0).as_str(), rule.is_timeless()), (query, false));
}

#[test]
fn a_claim_names_the_row_as_it_was_read() {
    let claimed = full_rule().claim(&before(), "me/1", now()).expect("a claim");
    let expected = json!({
        "RID": "1-A", "RMT": "2026-11-20 11:00:00+00:00", "state": "claimed", "claimed_by": "me/1",
        "lease_until": "2026-11-20T12:15:00.000000+00:00", "attempts": 1,
    });
    assert_eq!(claimed, row(expected));
}

#[test]
fn settlements_are_fenced_by_the_claim() {
    let rule = full_rule();
    let claimed = rule.claim(&before(), "me/1", now()).expect("a claim");
    let result = row(json!({ "doc": "d" }));
    let before = before();
    let variables = Variables { token: "me/1", now: now(), row: &before, result: Some(&result), error: "no" };
    let settled =
        |outcome| rule.settle(outcome, &before, &claimed, &variables).expect("values").expect("something");
    for (outcome, path, update) in [
        (
            OutcomeKind::Done,
            "RID,claimed_claimed_by:=claimed_by,claimed_state:=state;claimed_by,doc,state",
            json!({ "RID": "1-A", "claimed_claimed_by": "me/1", "claimed_state": "claimed", "claimed_by": null, "doc": "d", "state": "complete" }),
        ),
        (
            OutcomeKind::Failed,
            "RID,claimed_claimed_by:=claimed_by,claimed_state:=state;error,state",
            json!({ "RID": "1-A", "claimed_claimed_by": "me/1", "claimed_state": "claimed", "error": "no", "state": "actionable" }),
        ),
        (
            OutcomeKind::Dead,
            "RID,claimed_claimed_by:=claimed_by,claimed_state:=state;error,state",
            json!({ "RID": "1-A", "claimed_claimed_by": "me/1", "claimed_state": "claimed", "error": "no", "state": "dead" }),
        ),
        (
            OutcomeKind::Later,
            "RID,claimed_claimed_by:=claimed_by,claimed_state:=state;attempts,claimed_by,lease_until,state",
            json!({ "RID": "1-A", "claimed_claimed_by": "me/1", "claimed_state": "claimed", "attempts": null, "claimed_by": null,
                "lease_until": null, "state": "actionable" }),
        ),
    ] {
        let settlement = settled(outcome);
        assert_eq!(settlement.path, format!("/attributegroup/S:Foo%20bar/{path}"), "{outcome:?}");
        assert_eq!(settlement.update, row(update), "{outcome:?}");
    }
    let renewal = rule.renew(&before, &claimed, now()).expect("a lease");
    let path =
        "/attributegroup/S:Foo%20bar/RID,claimed_claimed_by:=claimed_by,claimed_state:=state;lease_until";
    let update = json!({ "RID": "1-A", "claimed_claimed_by": "me/1", "claimed_state": "claimed", "lease_until": "2026-11-20T12:15:00.000000+00:00" });
    assert_eq!((renewal.path.as_str(), renewal.update), (path, row(update)));
}

#[test]
fn a_repeated_settlement_requires_the_row_as_it_was_read() {
    let update = row(json!({ "RID": "1-A", "state": "complete" }));
    let mut settlement = Settlement { path: "/attributegroup/Foo/RID;state".to_owned(), update };
    for read in ["t1", "t2"] {
        settlement.require_unchanged(&json!(read).into());
        assert_eq!(settlement.path, "/attributegroup/Foo/RID,RMT;state");
        assert_eq!(settlement.update, row(json!({ "RID": "1-A", "RMT": read, "state": "complete" })));
    }
}

/// The agent in the original's docstring, with a table that has nothing but `id` and `state`.
#[test]
fn the_paths_of_the_original_are_sent_unchanged() {
    let rule = rule(&json!({
        "name": "r", "query": "/entity/Foo/state=actionable?limit=5", "update": "/attributegroup/Foo/id;state", "key": "id",
        "claim": { "guard": "if-match", "set": { "state": "claimed" } }, "done": { "state": "complete" },
    }));
    assert_eq!(rule.query(now(), 0), "/entity/Foo/state=actionable?limit=5");
    assert_eq!(rule.update(), "/attributegroup/Foo/id;state");
    let before = row(json!({ "id": 1, "state": "actionable" }));
    let claimed = rule.claim(&before, "me/1", now()).expect("a claim");
    assert_eq!(claimed, row(json!({ "id": 1, "state": "claimed" })));
    let variables = Variables { token: "me/1", now: now(), row: &before, result: None, error: "" };
    let done =
        rule.settle(OutcomeKind::Done, &before, &claimed, &variables).expect("values").expect("something");
    assert_eq!(done.path, "/attributegroup/Foo/id,claimed_state:=state;state");
    assert_eq!(done.update, row(json!({ "id": 1, "claimed_state": "claimed", "state": "complete" })));
    assert_eq!(rule.settle(OutcomeKind::Failed, &before, &claimed, &variables), Ok(None));
    assert_eq!(rule.renew(&before, &claimed, now()), None);
    assert_eq!(rule.warnings().len(), 3, "{:?}", rule.warnings());
    assert_eq!((rule.held_query(), rule.token_query("x"), rule.lease()), (None, None, None));
}

#[test]
fn a_pure_change_of_state_has_nothing_to_settle() {
    let rule = rule(&json!({ "name": "r", "table": "T", "claim": { "set": { "state": "b" } } }));
    let (before, claimed) = (row(json!({ "RID": "1" })), row(json!({ "RID": "1", "state": "b" })));
    let variables = Variables { token: "", now: now(), row: &before, result: None, error: "" };
    assert_eq!(rule.settle(OutcomeKind::Done, &before, &claimed, &variables), Ok(None));
    assert_eq!(
        rule.settle(OutcomeKind::Later, &before, &claimed, &variables),
        Ok(None),
        "what was there is not known"
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    let set = json!({ "state": "claimed" });
    for (config, texts) in [
        (json!({ "name": "r" }), vec!["claim.set = {}", "table = \"\""]),
        (json!({ "table": "T", "query": "/entity/T?limit=1", "claim": { "set": set } }), vec!["query = .."]),
        (
            json!({ "table": "T", "lease_secs": 5, "attempts_column": "n", "done": { "x": "$error" },
                "claim": { "set": { "a": "$token", "b": "$token", "c": "$tomorrow" } } }),
            vec!["claim.set.c", "done.x", "claim.set.b", "lease_secs = 5", "attempts_column = n"],
        ),
        (
            json!({ "table": "T", "lease_secs": 5, "claim": { "set": { "a": "$now+1m" } } }),
            vec!["lease_secs = 5: the claim says 60 s"],
        ),
        (
            json!({ "query": "/entity/T", "update": "/attributegroup/T/id;state", "filter": "x=1", "claim": { "set": set } }),
            vec!["filter = ..", "query = /entity/T: end it", "claim.guard = row-cas", "key = RID"],
        ),
        (
            json!({ "query": "/entity/T?limit=1", "update": "/aggregate/T/n", "claim": { "guard": "if-match", "set": set } }),
            vec!["update = /aggregate/T/n"],
        ),
    ] {
        let errors = refused(&config);
        assert!(
            texts.iter().all(|text| errors.iter().any(|error| error.starts_with(text))),
            "{texts:?}: {errors:?}"
        );
        if texts.len() > 2 {
            assert_eq!(errors.len(), texts.len(), "{errors:?}");
        }
    }
}

#[test]
fn attempts_that_are_no_number_count_as_none() {
    let rule = full_rule();
    for (attempts, count) in [(json!(null), 0), (json!(2), 2), (json!("x"), 0)] {
        assert_eq!(rule.attempts(&row(json!({ "attempts": attempts }))), count, "{attempts}");
    }
}

fn planning_rule(change: impl FnOnce(&mut Definition)) -> Result<Rule, Vec<String>> {
    let mut definition = definition(&json!({
        "name": "r", "table": "Foo", "filter": "state=actionable",
        "claim": { "set": { "claimed_by": "$token" } },
        "planned": ["state", "payload"],
    }));
    change(&mut definition);
    Rule::new(&definition)
}

#[test]
fn a_plan_writes_its_columns_and_no_others() {
    let rule = planning_rule(|_| ()).expect("a rule");
    assert_eq!(rule.update(), "/attributegroup/Foo/RID,RMT;claimed_by,state,payload");
    let object = |value: Value| serde_json::from_value(value).expect("an object");
    let row = object(json!({ "RID": "1-A", "RMT": "t", "state": "actionable", "payload": "p", "doc": "d" }));
    let claim = |answer: Value| rule.planned_claim(&row, &object(answer), "me/1", now());
    let written = |state: &str, payload: Value| {
        Ok(object(json!({
            "RID": "1-A", "RMT": "t", "claimed_by": "me/1", "state": state, "payload": payload
        })))
    };
    assert_eq!(
        claim(json!({ "state": "claimed" })),
        written("claimed", json!("p")),
        "the other keeps its value"
    );
    assert_eq!(claim(json!({ "state": "claimed", "payload": null })), written("claimed", json!(null)));
    let whole = json!({ "RID": "1-A", "RMT": "t", "state": "x", "payload": 1, "doc": "d", "none": null });
    assert_eq!(claim(whole), written("x", json!(1)), "unchanged columns may be repeated");
    for (column, value) in [
        ("RID", json!("1-B")),
        ("RMT", json!("later")),
        ("claimed_by", json!("another/1")),
        ("doc", json!("other")),
        ("none", json!(0)),
        ("\u{1b}[2J", json!(0)),
    ] {
        let refused = claim(json!({ "state": "claimed", column: value })).expect_err(column);
        assert!(refused.contains("not in plan.columns") && !refused.contains('\u{1b}'), "{refused}");
    }
}

#[test]
fn planned_columns_fence_a_settlement_without_a_token() {
    let rule = planning_rule(|rule| {
        rule.claim.set.clear();
        rule.done.insert("doc".to_owned(), json!("done"));
    })
    .expect("a rule");
    let row = before();
    let answer = serde_json::from_value(json!({ "state": "claimed" })).expect("an object");
    let claimed = rule.planned_claim(&row, &answer, "", now()).expect("a claim");
    let variables = Variables { token: "", now: now(), row: &row, result: None, error: "" };
    let done = rule.settle(OutcomeKind::Done, &row, &claimed, &variables).expect("values").expect("a write");
    assert_eq!(done.path, "/attributegroup/Foo/RID,claimed_state:=state,claimed_payload:=payload;doc");
    let later =
        rule.settle(OutcomeKind::Later, &row, &claimed, &variables).expect("values").expect("a write");
    assert_eq!(later.update["state"], row["state"], "released as it was");
}

#[test]
fn columns_of_a_plan_are_checked() {
    let problems = |change: fn(&mut Definition)| planning_rule(change).expect_err("a problem").join("; ");
    assert!(problems(|rule| rule.planned = Some(Vec::new())).contains("plan.columns = []"));
    assert!(
        problems(|rule| rule.planned = Some(vec!["claimed_by".to_owned()])).contains("claim.set writes it")
    );
    assert!(problems(|rule| rule.planned = Some(vec!["RID".to_owned()])).contains("it identifies the row"));
    let update = |rule: &mut Definition| {
        rule.table = None;
        rule.filter = None;
        rule.query = Some("/entity/Foo/state=actionable?limit=5".to_owned());
        rule.update = Some("/attributegroup/Foo/RID,RMT;claimed_by,state".to_owned());
    };
    let rule = planning_rule(|rule| {
        update(rule);
        rule.planned = Some(Vec::new());
    });
    let row = before();
    let answer = serde_json::from_value(json!({ "state": "x" })).expect("an object");
    let claim = rule.expect("a rule").planned_claim(&row, &answer, "me/1", now()).expect("a claim");
    assert_eq!((&*claim["state"], claim.len()), (&json!("x"), 4), "the columns of update");
    let refused = planning_rule(update).expect_err("payload is not written").join("; ");
    assert!(refused.contains("plan.columns = payload: update does not write it"), "{refused}");
}
