//! Faults between an agent and its catalog.

use std::cell::Cell;

use orchestrator_catalog_rules::rows::Row;

use super::*;
use crate::service::RequestError;

#[test]
fn a_claim_with_a_lost_answer_is_confirmed_by_its_token() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(20);
        fixture.table.inject(Fault::Lost);
        let handler = done_handler();
        fixture.agent("agent", &full_rule(), &handler);
        let took = fixture.complete(20, secs(10)).await;
        assert!(took < secs(2), "{took:?}");
        assert_eq!(handler.begun.borrow().len(), 20);
    });
}

#[test]
fn a_delayed_claim_is_confirmed_by_its_token() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(20);
        fixture.table.inject(Fault::Late(secs(5)));
        // No other write changes the rows before the delayed one arrives.
        fixture.table.inject(Fault::Refused(RequestError::Unavailable("503".to_owned())));
        let handler = done_handler();
        fixture.agent("agent", &full_rule(), &handler);
        fixture.complete(20, secs(70)).await;
        assert_eq!(fixture.table.count("claimed_by", &Value::Null), 20);
    });
}

#[test]
fn a_completion_with_a_lost_answer_is_not_counted_as_a_lost_claim() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(20);
        let handler = TestHandler { duration: secs(1), ..done_handler() };
        fixture.agent("agent", &full_rule(), &handler);
        fixture.until(secs(5), "at work", |fixture| fixture.status("agent").working == 10).await;
        for _ in 0..3 {
            fixture.table.inject(Fault::Lost);
        }
        fixture.complete(20, secs(20)).await;
        fixture.until(secs(20), "settled", |fixture| fixture.status("agent").in_progress == 0).await;
        let status = fixture.status("agent");
        assert_eq!((status.counts.done, status.counts.lost), (20, 0));
        assert_eq!(handler.begun.borrow().len(), 20);
    });
}

/// The keys together are longer than a path can be.
#[test]
fn completions_of_rows_with_long_keys_and_a_lost_answer_are_counted() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(20);
        (0..20).for_each(|id| fixture.table.set(id, "RID", json!(format!("{id:01000}"))));
        let handler = TestHandler { duration: secs(1), ..done_handler() };
        fixture.agent("agent", &full_rule(), &handler);
        fixture.until(secs(5), "at work", |fixture| fixture.status("agent").working == 10).await;
        for _ in 0..3 {
            fixture.table.inject(Fault::Lost);
        }
        fixture.complete(20, secs(20)).await;
        fixture.until(secs(20), "settled", |fixture| fixture.status("agent").in_progress == 0).await;
        let status = fixture.status("agent");
        assert_eq!((status.counts.done, status.counts.lost, status.unsettled.len()), (20, 0, 0));
    });
}

#[test]
fn completions_with_a_lost_answer_are_read_and_not_repeated() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(300);
        let mut rule = full_rule();
        (rule["limit"], rule["concurrency"]) = (json!(300), json!(300));
        let handler = TestHandler { duration: secs(1), ..done_handler() };
        fixture.agent("agent", &rule, &handler);
        fixture.until(secs(5), "at work", |fixture| fixture.status("agent").working == 300).await;
        fixture.table.inject(Fault::Lost);
        fixture.until(secs(20), "settled", |fixture| fixture.status("agent").in_progress == 0).await;
        let status = fixture.status("agent");
        assert_eq!((status.counts.done, status.counts.lost), (300, 0));
        let written: usize = fixture.table.puts().iter().map(|(_, rows)| rows.len()).sum();
        assert_eq!(written, 600, "each row is claimed and completed by one write");
    });
}

/// As [`full_rule`], but a settled row keeps the token of its claim.
fn rule_that_keeps_its_token() -> Value {
    let mut rule = full_rule();
    for outcome in ["done", "fail", "dead"] {
        rule[outcome].as_object_mut().expect("columns").remove("claimed_by");
    }
    rule
}

#[test]
fn a_row_that_a_user_changes_after_a_lost_answer_keeps_the_change() {
    for outcome in [Outcome::Done(Row::new()), Outcome::failed("broken".to_owned())] {
        run_with_paused_time(async || {
            let fixture = Fixture::new(2);
            let outcome = outcome.clone();
            let handler = TestHandler {
                duration: secs(1),
                outcome: Rc::new(move |_| outcome.clone()),
                ..done_handler()
            };
            fixture.agent("agent", &rule_that_keeps_its_token(), &handler);
            fixture.until(secs(5), "at work", |fixture| fixture.status("agent").working == 2).await;
            fixture.table.inject(Fault::Held);
            fixture.until(secs(60), "lost", |fixture| fixture.status("agent").counts.lost == 1).await;
            tokio::time::sleep(secs(60)).await;
            assert_eq!(fixture.table.held(), 1);
        });
    }
}

#[test]
fn a_handler_does_not_run_for_a_row_that_a_user_changed_after_a_claim_with_a_lost_answer() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(2);
        fixture.table.inject(Fault::Held);
        let handler = done_handler();
        fixture.agent("agent", &full_rule(), &handler);
        fixture.complete(1, secs(10)).await;
        tokio::time::sleep(secs(90)).await;
        assert_eq!((fixture.table.held(), handler.begun.borrow().len()), (1, 1));
    });
}

/// The first write arrives after the read that misses it, and the repeated one after a user's change.
#[test]
fn a_completion_is_not_repeated_after_a_change_that_the_claim_does_not_show() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(1);
        let mut rule = full_rule();
        // Nothing that is written ends the claim.
        rule["done"] = json!({ "doc": "$result.doc" });
        let result: Row = serde_json::from_value(json!({ "doc": "made" })).expect("a row");
        let outcome = Rc::new(move |_: &Task| Outcome::Done(result.clone()));
        let handler = TestHandler { duration: secs(1), outcome, ..done_handler() };
        fixture.agent("agent", &rule, &handler);
        fixture.until(secs(5), "at work", |fixture| fixture.status("agent").working == 1).await;
        fixture.table.inject(Fault::Late(secs(3_600)));
        let reads = |fixture: &Fixture| {
            fixture.table.gets().iter().filter(|(path, _)| path.contains("=any(")).count()
        };
        fixture.until(secs(5), "the row was read", |fixture| reads(fixture) == 1).await;
        fixture.table.deliver_late();
        fixture.table.set(0, "doc", json!("the user's"));
        fixture.until(secs(20), "lost", |fixture| fixture.status("agent").counts.lost == 1).await;
        assert_eq!(fixture.table.get_row(0)["doc"], "the user's");
    });
}

/// Whatever is lost, late or refused, a row stays as a user left it, and every other row is complete.
#[test]
fn no_fault_overwrites_the_change_of_a_user() {
    const ROWS: usize = 60;
    orchestrator_harness::load::for_each_seed("ORCHESTRATOR_TEST_SEEDS", 20, |seed| {
        fastrand::seed(seed);
        run_with_paused_time(async || {
            let fixture = Fixture::new(ROWS);
            let handler = TestHandler { duration: Duration::from_millis(200), ..done_handler() };
            let mut rule = rule_that_keeps_its_token();
            rule["max_attempts"] = json!(1_000);
            fixture.agent("agent", &rule, &handler);
            for _ in 0..100 {
                let unknown = || RequestError::OutcomeUnknown("no answer".to_owned());
                match fastrand::u8(0..12) {
                    0 | 1 => fixture.table.inject(Fault::Lost),
                    2 => fixture.table.inject(Fault::Held),
                    3 => fixture.table.inject(Fault::Late(Duration::from_millis(fastrand::u64(0..3_000)))),
                    4 => fixture.table.inject(Fault::Refused(unknown())),
                    5 => fixture.table.hold(fastrand::usize(0..ROWS)),
                    _ => {}
                }
                tokio::time::sleep(Duration::from_millis(fastrand::u64(0..100))).await;
                fixture.table.held();
            }
            let is_settled = |fixture: &Fixture| {
                fixture.table.held() + fixture.table.count("state", &json!("complete")) == ROWS
            };
            fixture.until(secs(600), "all are settled", is_settled).await;
            tokio::time::sleep(secs(10)).await;
            fixture.table.held();
        });
    });
}

/// The read of the row fails as it always would; the other rows are written all the same.
#[test]
fn a_completion_that_cannot_be_confirmed_is_reported() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(1);
        let handler = TestHandler { duration: secs(1), ..done_handler() };
        fixture.agent("agent", &full_rule(), &handler);
        fixture.until(secs(5), "at work", |fixture| fixture.status("agent").working == 1).await;
        fixture.table.inject(Fault::Lost);
        fixture.table.read_error(Some(RequestError::Rejected("409: no such column".to_owned())));
        fixture.until(secs(20), "settled", |fixture| fixture.status("agent").in_progress == 0).await;
        let text = fixture.status("agent").unsettled.remove(0);
        assert!(
            text.contains("\"1-0000\": whether its result was written") && text.contains("409"),
            "{text}"
        );
    });
}

/// A completion that writes only a time, and that did not arrive before another agent took the row over.
#[test]
fn a_completion_that_was_not_written_is_not_counted_as_done() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(1);
        let mut rule = full_rule();
        rule["done"] = json!({ "doc": "$now" });
        let handler = TestHandler { duration: secs(1), ..done_handler() };
        fixture.agent("agent", &rule, &handler);
        fixture.until(secs(5), "at work", |fixture| fixture.status("agent").working == 1).await;
        fixture.table.set(0, "claimed_by", json!("other/1"));
        fixture.table.inject(Fault::Refused(RequestError::OutcomeUnknown("no answer".to_owned())));
        fixture.until(secs(20), "settled", |fixture| fixture.status("agent").in_progress == 0).await;
        let status = fixture.status("agent");
        assert_eq!((status.counts.done, status.counts.lost), (0, 1));
    });
}

#[test]
fn a_claim_with_a_lost_answer_and_no_token_is_reported() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(3);
        fixture.table.inject(Fault::Lost);
        let mut rule = full_rule();
        rule["claim"] = json!({ "guard": "if-match", "set": { "state": "claimed" } });
        rule.as_object_mut().expect("a rule").remove("attempts_column");
        fixture.agent("agent", &rule, &done_handler());
        fixture.until(secs(5), "shown", |fixture| !fixture.status("agent").unsettled.is_empty()).await;
        let text = fixture.status("agent").unsettled.remove(0);
        assert!(text.contains("\"1-0000\", \"1-0001\", \"1-0002\"") && text.contains("$token"), "{text}");
    });
}

#[test]
fn the_next_row_is_claimed_within_2_s_after_an_outage() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(0);
        fixture.agent("agent", &full_rule(), &done_handler());
        fixture.until(secs(5), "idle", |fixture| fixture.status("agent").polls > 0).await;
        for outage in [3, 30, 3_600] {
            let rows = fixture.table.count("state", &json!("complete"));
            fixture.table.read_error(Some(RequestError::Unavailable("503".to_owned())));
            fixture.poll();
            tokio::time::sleep(secs(outage)).await;
            assert_eq!(fixture.status("agent").phase, "waiting");
            fixture.table.insert(1);
            fixture.table.read_error(None);
            let took = fixture.complete(rows + 1, secs(10)).await;
            assert!(took < secs(2), "{took:?} after {outage} s");
        }
    });
}

#[test]
fn a_row_with_a_rejected_result_does_not_block_the_others() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(40);
        // The server rejects one row's result.
        let outcome = |task: &Task| {
            let doc = if task.row["id"] == 17 { "poison" } else { "good" };
            Outcome::Done(serde_json::from_value(json!({ "doc": doc })).expect("a row"))
        };
        fixture.table.poison("doc", json!("poison"));
        let mut rule = full_rule();
        rule["max_attempts"] = json!(1);
        fixture.agent("agent", &rule, &TestHandler { outcome: Rc::new(outcome), ..done_handler() });
        fixture.complete(39, secs(10)).await;
        fixture
            .until(secs(10), "dead", |fixture| {
                fixture.table.get_row(17)["state"] == "dead"
                    || fixture.table.get_row(17)["state"] == "actionable"
            })
            .await;
        let row = fixture.table.get_row(17);
        assert!(row["error"].as_str().is_some_and(|error| error.contains("409")), "{row:?}");
        assert!(fixture.status("agent").unsettled[0].contains("\"1-0017\""));
    });
}

/// Until its handler returns something else, or the row is forgotten.
#[test]
fn a_row_that_is_rejected_five_times_is_a_reason() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(3);
        let is_corrected = Rc::new(Cell::new(false));
        let corrected = is_corrected.clone();
        let outcome = move |task: &Task| {
            let doc = if task.row["id"] == 1 && !corrected.get() { "poison" } else { "good" };
            Outcome::Done(serde_json::from_value(json!({ "doc": doc })).expect("a row"))
        };
        fixture.table.poison("doc", json!("poison"));
        let mut rule = full_rule();
        rule["max_attempts"] = json!(100);
        fixture.agent("agent", &rule, &TestHandler { outcome: Rc::new(outcome), ..done_handler() });
        let reason = |fixture: &Fixture| fixture.status("agent").reason.unwrap_or_default();
        fixture.until(secs(600), "a reason", |fixture| reason(fixture).contains("refused row")).await;
        assert!(reason(&fixture).contains("5 times") && reason(&fixture).contains("409"));
        assert_eq!(fixture.table.get_row(1)["attempts"], 5);
        assert_eq!(fixture.status("agent").counts.done, 2);
        is_corrected.set(true);
        fixture.complete(3, secs(600)).await;
        fixture.until(secs(10), "no reason", |fixture| reason(fixture).is_empty()).await;
    });
}

#[test]
fn writes_shrink_to_the_size_that_the_server_accepts() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(100);
        fixture.table.takes_at_once(7);
        fixture.agent("agent", &full_rule(), &done_handler());
        fixture.complete(100, secs(20)).await;
    });
}

#[test]
fn a_rejected_rule_is_parked_until_a_forced_poll_or_the_retry() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(1);
        fixture
            .table
            .read_error(Some(RequestError::Rejected("409 Requested column does not exist".to_owned())));
        fixture.agent("agent", &full_rule(), &done_handler());
        fixture.until(secs(5), "parked", |fixture| fixture.status("agent").phase == "parked").await;
        assert!(fixture.status("agent").reason.is_some_and(|reason| reason.contains("column")));
        fixture.table.read_error(None);
        fixture.poll();
        tokio::time::sleep(secs(60)).await;
        assert_eq!(fixture.status("agent").phase, "parked");
        fixture.triggers.send_modify(|triggers| triggers.forced_polls += 1);
        fixture.complete(1, secs(2)).await;
        fixture.table.read_error(Some(RequestError::NotFound("404".to_owned())));
        fixture.table.insert(1);
        fixture.poll();
        fixture.until(secs(5), "parked", |fixture| fixture.status("agent").phase == "parked").await;
        fixture.table.read_error(None);
        fixture.complete(2, secs(310)).await;
    });
}

/// Another agent may have taken the row over, so the handler ends with the lease.
#[test]
fn a_lease_that_cannot_be_renewed_ends_the_handler() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(1);
        let handler = TestHandler { duration: secs(3_600), ..done_handler() };
        fixture.agent("agent", &full_rule(), &handler);
        fixture.until(secs(5), "at work", |fixture| fixture.status("agent").working == 1).await;
        for _ in 0..200 {
            fixture.table.inject(Fault::Refused(RequestError::Unavailable("503".to_owned())));
        }
        let took = fixture.until(secs(70), "lost", |fixture| fixture.status("agent").counts.lost == 1).await;
        assert!(took > secs(55) && took < secs(61), "{took:?}");
    });
}

#[test]
fn a_paused_rule_claims_nothing() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(0);
        fixture.agent("agent", &full_rule(), &done_handler());
        fixture.until(secs(5), "idle", |fixture| fixture.status("agent").polls > 0).await;
        fixture.triggers.send_modify(|triggers| triggers.paused = true);
        fixture.table.insert(3);
        fixture.poll();
        tokio::time::sleep(secs(600)).await;
        assert_eq!(fixture.table.puts(), []);
        fixture.triggers.send_modify(|triggers| triggers.paused = false);
        fixture.complete(3, secs(5)).await;
    });
}
