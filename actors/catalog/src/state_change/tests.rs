//! Every branch of CONTRACT CO01 to CO03.

use serde_json::json;

use super::*;

const QUERY: &str = "/entity/Foo/state=actionable?limit=5";
const UPDATE: &str = "/attributegroup/Foo/id;state";

fn fresh() -> StateChange {
    StateChange::new(QUERY, UPDATE, true)
}

fn found(etag: &str, rows: &Value) -> Result<CatalogResponse, RequestError> {
    Ok(CatalogResponse::Rows { etag: Some(etag.to_owned()), body: rows.to_string().into() })
}

fn claim(rows: &[Row]) -> Vec<Planned> {
    let update =
        |row: &Row| json!({ "id": row["id"], "state": "claimed" }).as_object().cloned().expect("a row");
    rows.iter().map(|row| (row.clone(), update(row))).collect()
}

/// Runs up to the write of a plan for `rows`, and returns the write.
fn up_to_the_write(change: &mut StateChange, etag: &str, rows: &Value) -> Put {
    assert!(matches!(change.start(None), Step::Get(_)));
    let Step::Plan(rows) = change.handle_response(found(etag, rows)) else { panic!("no plan is asked for") };
    let Step::Put(put) = change.handle_plan(claim(&rows)) else { panic!("nothing is written") };
    put
}

fn done(step: Step) -> ChangeResult {
    let Step::Done(outcome) = step else { panic!("it is not over: {step:?}") };
    outcome
}

#[test]
fn a_claim_carries_the_etag_of_its_read() {
    let mut change = fresh();
    let get = Get { path: QUERY.to_owned(), if_none_match: None };
    assert_eq!(change.start(None), Step::Get(get));
    let two = json!([{ "id": 1, "state": "actionable" }, { "id": 2, "state": "actionable" }]);
    let Step::Plan(rows) = change.handle_response(found("\"a;*/*;1\"", &two)) else { panic!("no plan") };
    let put = Put {
        path: UPDATE.to_owned(),
        if_match: Some("\"a;*/*;1\"".to_owned()),
        body: r#"[{"id":1,"state":"claimed"},{"id":2,"state":"claimed"}]"#.into(),
    };
    assert_eq!(change.handle_plan(claim(&rows)), Step::Put(put));
    let returned = json!([{ "id": 2, "state": "claimed" }]);
    let ChangeResult::Changed(done) = done(change.handle_response(found("\"2\"", &returned))) else {
        panic!("no change")
    };
    assert_eq!(done.changed, claim(&rows[1..]), "what the server does not tell of was not changed");
    assert_eq!(done.passed_over, claim(&rows[..1]));
}

#[test]
fn a_cached_response_is_revalidated_and_used() {
    let mut change = fresh();
    let one = json!([{ "id": 1 }]);
    up_to_the_write(&mut change, "\"1\"", &one);
    assert_eq!(
        done(change.handle_response(Err(RequestError::PreconditionFailed))),
        ChangeResult::Failed(RequestError::PreconditionFailed)
    );
    let Step::Get(get) = change.start(None) else { panic!("no look") };
    assert_eq!(get.if_none_match.as_deref(), Some("\"1\""));
    // A failed write is planned again from the cached response.
    let unchanged = || Ok(CatalogResponse::NotModified { etag: Some("\"1\"".to_owned()) });
    assert!(matches!(change.handle_response(unchanged()), Step::Plan(rows) if rows.len() == 1));
    assert!(
        matches!(change.handle_plan(Vec::new()), Step::Done(ChangeResult::Empty { etag: Some(etag) }) if etag == "\"1\"")
    );
    // With the same ETag no plan is made.
    change.start(Some("\"1\"".to_owned()));
    assert_eq!(
        done(change.handle_response(unchanged())),
        ChangeResult::Unmodified { etag: "\"1\"".to_owned() }
    );
    // Another query does not use the cached response.
    change.set_query("/entity/Bar".to_owned());
    let Step::Get(get) = change.start(None) else { panic!("no look") };
    assert_eq!(get.if_none_match, None);
}

#[test]
fn any_change_of_the_catalog_ends_idleness() {
    let mut change = fresh();
    change.start(Some("\"1\"".to_owned()));
    assert!(matches!(change.handle_response(found("\"2\"", &json!([{ "id": 1 }]))), Step::Plan(_)));
    let mut change = fresh();
    change.start(Some("\"1\"".to_owned()));
    let outcome = done(change.handle_response(found("\"2\"", &json!([]))));
    assert_eq!(outcome, ChangeResult::Empty { etag: Some("\"2\"".to_owned()) });
}

#[test]
fn an_empty_plan_is_not_written() {
    let mut change = fresh();
    change.start(None);
    assert!(matches!(change.handle_response(found("\"1\"", &json!([{ "id": 1 }]))), Step::Plan(_)));
    assert_eq!(done(change.handle_plan(Vec::new())), ChangeResult::Empty { etag: Some("\"1\"".to_owned()) });
}

#[test]
fn without_an_etag_there_is_no_condition_and_no_idleness() {
    let mut change = fresh();
    change.start(Some("\"1\"".to_owned()));
    let answer = Ok(CatalogResponse::Rows { etag: None, body: r#"[{"id":1}]"#.into() });
    let Step::Plan(rows) = change.handle_response(answer) else { panic!("no plan") };
    let Step::Put(put) = change.handle_plan(claim(&rows)) else { panic!("no write") };
    assert_eq!(put.if_match, None);
    let Step::Get(get) = change.start(None) else { panic!("no look") };
    assert_eq!(get.if_none_match, None);
}

#[test]
fn a_row_compare_and_set_carries_no_if_match() {
    let mut change = StateChange::new(QUERY, "/attributegroup/Foo/RID,RMT;state", false);
    assert_eq!(up_to_the_write(&mut change, "\"1\"", &json!([{ "id": 1 }])).if_match, None);
}

#[test]
fn a_lost_answer_has_an_unknown_result_and_other_errors_do_not() {
    for (answer, unsettled) in [
        (Err(RequestError::OutcomeUnknown("reset".to_owned())), true),
        (Ok(CatalogResponse::Rows { etag: None, body: "[{".into() }), true),
        (Ok(CatalogResponse::NotModified { etag: None }), true),
        (Err(RequestError::Unavailable("aborted".to_owned())), false),
        (Err(RequestError::PreconditionFailed), false),
        (Err(RequestError::PayloadTooLarge), false),
    ] {
        let mut change = fresh();
        up_to_the_write(&mut change, "\"1\"", &json!([{ "id": 1 }]));
        match done(change.handle_response(answer.clone())) {
            ChangeResult::Unknown { plan, .. } => assert!(unsettled && plan.len() == 1, "{answer:?}"),
            ChangeResult::Failed(_) => assert!(!unsettled, "{answer:?}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_body_without_rows_is_rejected() {
    let mut change = fresh();
    change.start(None);
    let answer = Ok(CatalogResponse::Rows { etag: None, body: r#"{"id":1}"#.into() });
    assert!(matches!(done(change.handle_response(answer)), ChangeResult::Failed(RequestError::Rejected(_))));
    change.start(None);
    assert!(matches!(
        done(change.handle_response(Ok(CatalogResponse::NotModified { etag: None }))),
        ChangeResult::Failed(RequestError::Unavailable(_))
    ));
}

#[test]
fn keys_are_read_from_the_update() {
    for (update, keys) in [
        ("/attributegroup/Foo/id;state", vec!["id"]),
        ("/attributegroup/S:T/RID,old:=state;new:=state,by", vec!["RID", "old"]),
        ("/attributegroup/T/a%20b,RMT;c?defaults=x", vec!["a b", "RMT"]),
        ("/entity/Foo", vec![]),
        ("/attributegroup/Foo", vec![]),
    ] {
        assert_eq!(keys_of(update), keys, "{update}");
    }
}

#[test]
fn the_last_of_repeated_members_counts() {
    let read = rows(br#"[{"RID":"1","state":"a","RID":"2"}]"#).expect("rows");
    assert_eq!(read, [json!({ "RID": "2", "state": "a" }).as_object().cloned().expect("a row")]);
}

#[test]
fn without_keys_all_rows_count_as_changed() {
    let mut change = StateChange::new(QUERY, "/entity/Foo", true);
    up_to_the_write(&mut change, "\"1\"", &json!([{ "id": 1 }]));
    let ChangeResult::Changed(change) = done(change.handle_response(found("\"2\"", &json!([])))) else {
        panic!("no change")
    };
    assert_eq!(change.changed.len(), 1);
}
