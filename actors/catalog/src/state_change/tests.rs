//! Every branch of CONTRACT CO01 to CO03.

use serde_json::json;

use super::*;

const QUERY: &str = "/entity/Foo/state=actionable?limit=5";
const UPDATE: &str = "/attributegroup/Foo/id;state";

fn fresh() -> StateChange {
    StateChange::new(QUERY, UPDATE, true)
}

fn found(etag: &str, rows: &Value) -> Result<Reply, Trouble> {
    Ok(Reply::Rows { etag: Some(etag.to_owned()), body: rows.to_string().into() })
}

fn claim(rows: &[Row]) -> Vec<Planned> {
    let update =
        |row: &Row| json!({ "id": row["id"], "state": "claimed" }).as_object().cloned().expect("a row");
    rows.iter().map(|row| (row.clone(), update(row))).collect()
}

/// Looks, finds `rows` under `etag`, and writes the plan; gives the write.
fn up_to_the_write(change: &mut StateChange, etag: &str, rows: &Value) -> Put {
    assert!(matches!(change.begin(None), Step::Get(_)));
    let Step::Plan(rows) = change.answered(found(etag, rows)) else { panic!("no plan is asked for") };
    let Step::Put(put) = change.planned(claim(&rows)) else { panic!("nothing is written") };
    put
}

fn done(step: Step) -> Outcome {
    let Step::Done(outcome) = step else { panic!("it is not over: {step:?}") };
    outcome
}

#[test]
fn candidates_are_claimed_under_the_etag_that_they_were_read_under() {
    let mut change = fresh();
    let get = Get { path: QUERY.to_owned(), if_none_match: None };
    assert_eq!(change.begin(None), Step::Get(get));
    let two = json!([{ "id": 1, "state": "actionable" }, { "id": 2, "state": "actionable" }]);
    let Step::Plan(rows) = change.answered(found("\"a;*/*;1\"", &two)) else { panic!("no plan") };
    let put = Put {
        path: UPDATE.to_owned(),
        if_match: Some("\"a;*/*;1\"".to_owned()),
        body: r#"[{"id":1,"state":"claimed"},{"id":2,"state":"claimed"}]"#.into(),
    };
    assert_eq!(change.planned(claim(&rows)), Step::Put(put));
    let echoed = json!([{ "id": 2, "state": "claimed" }]);
    let Outcome::Changed(done) = done(change.answered(found("\"2\"", &echoed))) else { panic!("no change") };
    assert_eq!(done.etag.as_deref(), Some("\"2\""));
    assert_eq!(done.changed, claim(&rows[1..]), "what the server does not tell of was not changed");
    assert_eq!(done.passed_over, claim(&rows[..1]));
}

#[test]
fn an_answer_at_hand_is_asked_for_again_and_used() {
    let mut change = fresh();
    let one = json!([{ "id": 1 }]);
    up_to_the_write(&mut change, "\"1\"", &one);
    assert_eq!(done(change.answered(Err(Trouble::Concurrent))), Outcome::Failed(Trouble::Concurrent));
    let Step::Get(get) = change.begin(None) else { panic!("no look") };
    assert_eq!(get.if_none_match.as_deref(), Some("\"1\""));
    // A failed write is planned once more from what is at hand.
    let unchanged = || Ok(Reply::Unchanged { etag: Some("\"1\"".to_owned()) });
    assert!(matches!(change.answered(unchanged()), Step::Plan(rows) if rows.len() == 1));
    assert!(
        matches!(change.planned(Vec::new()), Step::Done(Outcome::Nothing { etag: Some(etag) }) if etag == "\"1\"")
    );
    // Idle at this state, nobody is asked for a plan.
    change.begin(Some("\"1\"".to_owned()));
    assert_eq!(done(change.answered(unchanged())), Outcome::Idle { etag: "\"1\"".to_owned() });
    // Another query has another answer.
    change.ask("/entity/Bar".to_owned());
    let Step::Get(get) = change.begin(None) else { panic!("no look") };
    assert_eq!(get.if_none_match, None);
}

#[test]
fn idle_ends_with_any_change_of_the_catalog() {
    let mut change = fresh();
    change.begin(Some("\"1\"".to_owned()));
    assert!(matches!(change.answered(found("\"2\"", &json!([{ "id": 1 }]))), Step::Plan(_)));
    let mut change = fresh();
    change.begin(Some("\"1\"".to_owned()));
    let outcome = done(change.answered(found("\"2\"", &json!([]))));
    assert_eq!(outcome, Outcome::Nothing { etag: Some("\"2\"".to_owned()) });
}

#[test]
fn nothing_is_written_for_nothing() {
    let mut change = fresh();
    change.begin(None);
    assert!(matches!(change.answered(found("\"1\"", &json!([{ "id": 1 }]))), Step::Plan(_)));
    assert_eq!(done(change.planned(Vec::new())), Outcome::Nothing { etag: Some("\"1\"".to_owned()) });
}

#[test]
fn without_an_etag_there_is_no_guard_and_no_idleness() {
    let mut change = fresh();
    change.begin(Some("\"1\"".to_owned()));
    let answer = Ok(Reply::Rows { etag: None, body: r#"[{"id":1}]"#.into() });
    let Step::Plan(rows) = change.answered(answer) else { panic!("no plan") };
    let Step::Put(put) = change.planned(claim(&rows)) else { panic!("no write") };
    assert_eq!(put.if_match, None);
    let Step::Get(get) = change.begin(None) else { panic!("no look") };
    assert_eq!(get.if_none_match, None);
}

#[test]
fn a_compare_and_set_of_rows_needs_no_guard() {
    let mut change = StateChange::new(QUERY, "/attributegroup/Foo/RID,RMT;state", false);
    assert_eq!(up_to_the_write(&mut change, "\"1\"", &json!([{ "id": 1 }])).if_match, None);
}

#[test]
fn a_lost_answer_leaves_the_plan_unsettled_and_other_trouble_does_not() {
    for (answer, unsettled) in [
        (Err(Trouble::Unsettled("reset".to_owned())), true),
        (Ok(Reply::Rows { etag: None, body: "[{".into() }), true),
        (Ok(Reply::Unchanged { etag: None }), true),
        (Err(Trouble::Away("aborted".to_owned())), false),
        (Err(Trouble::Concurrent), false),
        (Err(Trouble::TooLarge), false),
    ] {
        let mut change = fresh();
        up_to_the_write(&mut change, "\"1\"", &json!([{ "id": 1 }]));
        match done(change.answered(answer.clone())) {
            Outcome::Unsettled { plan, .. } => assert!(unsettled && plan.len() == 1, "{answer:?}"),
            Outcome::Failed(_) => assert!(!unsettled, "{answer:?}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_no_rows_is_refused() {
    let mut change = fresh();
    change.begin(None);
    let answer = Ok(Reply::Rows { etag: None, body: r#"{"id":1}"#.into() });
    assert!(matches!(done(change.answered(answer)), Outcome::Failed(Trouble::Refused(_))));
    change.begin(None);
    assert!(matches!(
        done(change.answered(Ok(Reply::Unchanged { etag: None }))),
        Outcome::Failed(Trouble::Away(_))
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
fn members_that_are_there_twice_count_as_the_last() {
    let read = rows(br#"[{"RID":"1","state":"a","RID":"2"}]"#).expect("rows");
    assert_eq!(read, [json!({ "RID": "2", "state": "a" }).as_object().cloned().expect("a row")]);
}

#[test]
fn without_entity_keys_all_that_was_sent_counts_as_changed() {
    let mut change = StateChange::new(QUERY, "/entity/Foo", true);
    up_to_the_write(&mut change, "\"1\"", &json!([{ "id": 1 }]));
    let Outcome::Changed(change) = done(change.answered(found("\"2\"", &json!([])))) else {
        panic!("no change")
    };
    assert_eq!(change.changed.len(), 1);
}
