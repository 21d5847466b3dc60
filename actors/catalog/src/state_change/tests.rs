//! Every branch of CONTRACT CO01 to CO03.

use serde_json::json;

use super::*;

const QUERY: &str = "/entity/Foo/state=actionable?limit=5";
const UPDATE: &str = "/attributegroup/Foo/id;state";

fn fresh() -> StateChange {
    StateChange::new(QUERY, UPDATE, true)
}

fn found(etag: Option<&str>, rows: &str) -> Result<CatalogResponse, RequestError> {
    Ok(CatalogResponse::Rows { etag: etag.map(str::to_owned), body: rows.to_owned().into() })
}

fn unchanged(etag: Option<&str>) -> Result<CatalogResponse, RequestError> {
    Ok(CatalogResponse::NotModified { etag: etag.map(str::to_owned) })
}

fn claim(rows: &[Row]) -> Vec<Planned> {
    let update =
        |row: &Row| serde_json::from_value(json!({ "id": row["id"], "state": "claimed" })).expect("a row");
    rows.iter().map(|row| (row.clone(), update(row))).collect()
}

/// Reads `rows` and returns a plan for them with its write.
fn planned(change: &mut StateChange, etag: Option<&str>, rows: &str) -> (Vec<Planned>, Put) {
    let rows = change.handle_read(found(etag, rows), None).expect("rows to plan");
    let plan = claim(&rows);
    let put = change.write(&plan).expect("a write");
    (plan, put)
}

#[test]
fn a_claim_carries_the_etag_of_its_read() {
    let mut change = fresh();
    assert_eq!(change.read(), Get { path: QUERY.to_owned(), if_none_match: None });
    let two = r#"[{ "id": 1, "state": "actionable" }, { "id": 2, "state": "actionable" }]"#;
    let (plan, put) = planned(&mut change, Some("\"a;*/*;1\""), two);
    let wanted = Put {
        path: UPDATE.to_owned(),
        if_match: Some("\"a;*/*;1\"".to_owned()),
        body: r#"[{"id":1,"state":"claimed"},{"id":2,"state":"claimed"}]"#.into(),
    };
    assert_eq!(put, wanted);
    let returned = r#"[{ "id": 2, "state": "claimed" }]"#;
    let ChangeResult::Changed(done) = change.handle_write(plan.clone(), Ok(returned.into())) else {
        panic!("no change")
    };
    assert_eq!(done.changed, &plan[1..], "what the server does not tell of was not changed");
    assert_eq!(done.passed_over, &plan[..1]);
}

#[test]
fn a_cached_response_is_revalidated_and_used() {
    let mut change = fresh();
    let (plan, _) = planned(&mut change, Some("\"1\""), r#"[{ "id": 1 }]"#);
    assert_eq!(
        change.handle_write(plan, Err(RequestError::PreconditionFailed)),
        ChangeResult::Failed(RequestError::PreconditionFailed)
    );
    assert_eq!(change.read().if_none_match.as_deref(), Some("\"1\""));
    // A failed write is planned again from the cached response.
    assert!(change.handle_read(unchanged(Some("\"1\"")), None).is_ok_and(|rows| rows.len() == 1));
    assert_eq!(change.write(&[]), Err(ChangeResult::Empty { etag: Some("\"1\"".to_owned()) }));
    // With the same ETag no plan is made.
    let outcome = change.handle_read(unchanged(Some("\"1\"")), Some("\"1\""));
    assert_eq!(outcome, Err(ChangeResult::Unmodified { etag: "\"1\"".to_owned() }));
    // Another query does not use the cached response.
    change.set_query("/entity/Bar".to_owned());
    assert_eq!(change.read().if_none_match, None);
}

#[test]
fn any_change_of_the_catalog_ends_idleness() {
    let mut change = fresh();
    assert!(change.handle_read(found(Some("\"2\""), r#"[{ "id": 1 }]"#), Some("\"1\"")).is_ok());
    let outcome = fresh().handle_read(found(Some("\"2\""), "[]"), Some("\"1\""));
    assert_eq!(outcome, Err(ChangeResult::Empty { etag: Some("\"2\"".to_owned()) }));
}

#[test]
fn an_empty_plan_is_not_written() {
    let mut change = fresh();
    assert!(change.handle_read(found(Some("\"1\""), r#"[{ "id": 1 }]"#), None).is_ok());
    assert_eq!(change.write(&[]), Err(ChangeResult::Empty { etag: Some("\"1\"".to_owned()) }));
}

#[test]
fn without_an_etag_there_is_no_condition_and_no_idleness() {
    let mut change = fresh();
    assert!(change.handle_read(found(None, r#"[{"id":1}]"#), Some("\"1\"")).is_ok());
    let (_, put) = planned(&mut change, None, r#"[{"id":1}]"#);
    assert_eq!((put.if_match, change.read().if_none_match), (None, None));
}

#[test]
fn a_row_compare_and_set_carries_no_if_match() {
    let mut change = StateChange::new(QUERY, "/attributegroup/Foo/RID,RMT;state", false);
    assert_eq!(planned(&mut change, Some("\"1\""), r#"[{ "id": 1 }]"#).1.if_match, None);
}

#[test]
fn a_lost_answer_has_an_unknown_result_and_other_errors_do_not() {
    for (answer, unsettled) in [
        (Err(RequestError::OutcomeUnknown("reset".to_owned())), true),
        (Ok("[{".into()), true),
        (Err(RequestError::Unavailable("aborted".to_owned())), false),
        (Err(RequestError::PreconditionFailed), false),
        (Err(RequestError::PayloadTooLarge), false),
    ] {
        let mut change = fresh();
        let (plan, _) = planned(&mut change, Some("\"1\""), r#"[{ "id": 1 }]"#);
        match change.handle_write(plan, answer.clone()) {
            ChangeResult::Unknown { plan, .. } => assert!(unsettled && plan.len() == 1, "{answer:?}"),
            ChangeResult::Failed(_) => assert!(!unsettled, "{answer:?}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_body_without_rows_is_rejected() {
    let outcome = fresh().handle_read(found(None, r#"{"id":1}"#), None);
    assert!(matches!(outcome, Err(ChangeResult::Failed(RequestError::Rejected(_)))));
    let outcome = fresh().handle_read(unchanged(None), None);
    assert!(matches!(outcome, Err(ChangeResult::Failed(RequestError::Unavailable(_)))));
}

#[test]
fn without_keys_all_rows_count_as_changed() {
    let mut change = StateChange::new(QUERY, "/entity/Foo", true);
    let (plan, _) = planned(&mut change, Some("\"1\""), r#"[{ "id": 1 }]"#);
    let ChangeResult::Changed(change) = change.handle_write(plan, Ok("[]".into())) else {
        panic!("no change")
    };
    assert_eq!(change.changed.len(), 1);
}
