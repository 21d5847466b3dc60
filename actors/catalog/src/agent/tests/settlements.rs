//! Settlement of claims.

use orchestrator_catalog_rules::rows::Row;

use super::*;

#[test]
fn the_answer_of_a_handler_is_written() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(1);
        let result: Row = serde_json::from_value(json!({ "doc": "made" })).expect("a row");
        let handler =
            TestHandler { outcome: Rc::new(move |_| Outcome::Done(result.clone())), ..done_handler() };
        fixture.agent("agent", &full_rule(), &handler);
        fixture.complete(1, secs(5)).await;
        let row = fixture.table.get_row(0);
        assert_eq!((row["doc"].as_str(), &*row["claimed_by"]), (Some("made"), &Value::Null));
        let begun = handler.begun.borrow();
        assert_eq!((begun[0].attempt, begun[0].row["state"].as_str()), (Some(1), Some("actionable")));
        assert!(begun[0].token.as_ref().is_some_and(|token| token.starts_with("agent/")));
    });
}

#[test]
fn settlements_are_written_in_batches() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(200);
        let mut rule = full_rule();
        rule["limit"] = json!(100);
        fixture.agent("agent", &rule, &done_handler());
        fixture.complete(200, secs(5)).await;
        let sizes: Vec<_> = fixture.table.puts().iter().map(|(_, rows)| rows.len()).collect();
        // Twice the concurrency until the handlers' speed is known, then the limit.
        assert_eq!(sizes, [20, 20, 100, 100, 80, 80], "claimed, completed, claimed, completed ..");
    });
}

#[test]
fn settlements_are_collected_while_other_rows_are_handled() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(50);
        let mut rule = full_rule();
        rule["concurrency"] = json!(50);
        // A write takes 20 ms.
        let handler = TestHandler { step: Duration::from_millis(2), ..done_handler() };
        fixture.agent("agent", &rule, &handler);
        fixture.complete(50, secs(1)).await;
        let sizes: Vec<_> = fixture.table.puts().iter().map(|(_, rows)| rows.len()).collect();
        assert_eq!(
            sizes,
            [50, 1, 20, 20, 9],
            "claimed; the first at once, the last with nothing left to wait for"
        );
    });
}

#[test]
fn a_failed_row_is_retried_and_dead_after_its_last_attempt() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(1);
        let handler =
            TestHandler { outcome: Rc::new(|_| Outcome::failed("broken".to_owned())), ..done_handler() };
        fixture.agent("agent", &full_rule(), &handler);
        let took = fixture
            .until(secs(60), "dead", |fixture| fixture.table.count("state", &json!("dead")) == 1)
            .await;
        // 1 s and 2 s, with jitter.
        assert!(took > Duration::from_millis(2_000) && took < secs(6), "{took:?}");
        let attempts: Vec<_> = handler.begun.borrow().iter().map(|task| task.attempt).collect();
        assert_eq!(attempts, [Some(1), Some(2), Some(3)]);
        let row = fixture.table.get_row(0);
        assert_eq!((row["error"].as_str(), row["attempts"].as_u64()), (Some("broken"), Some(3)));
        let status = fixture.status("agent");
        assert_eq!((status.counts.failed, status.counts.dead, status.counts.done), (3, 1, 0));
    });
}

#[test]
fn the_outcome_later_restores_the_row() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(1);
        let tries = Rc::new(RefCell::new(0));
        let outcome = move |_: &Task| {
            *tries.borrow_mut() += 1;
            if *tries.borrow() < 5 { Outcome::Later("not now".to_owned()) } else { Outcome::Done(Row::new()) }
        };
        fixture.agent("agent", &full_rule(), &TestHandler { outcome: Rc::new(outcome), ..done_handler() });
        fixture.complete(1, secs(120)).await;
        assert_eq!(fixture.table.get_row(0)["attempts"], 1, "what was not tried does not count");
        assert_eq!(fixture.status("agent").counts.released, 4);
    });
}

#[test]
fn a_row_without_attempts_left_is_dead_without_a_handler() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(1);
        fixture.table.set(0, "attempts", json!(3));
        let handler = done_handler();
        fixture.agent("agent", &full_rule(), &handler);
        fixture.until(secs(5), "dead", |fixture| fixture.table.count("state", &json!("dead")) == 1).await;
        assert_eq!(handler.begun.borrow().len(), 0);
    });
}

#[test]
fn a_stop_releases_pending_rows_and_finishes_running_ones() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(40);
        let handler = TestHandler { duration: secs(5), ..done_handler() };
        let agent = fixture.agent("agent", &full_rule(), &handler);
        fixture.until(secs(5), "at work", |fixture| fixture.status("agent").working == 10).await;
        fixture.stop.cancel();
        agent.await.expect("it ends");
        assert_eq!(fixture.table.count("state", &json!("complete")), 10);
        assert_eq!(fixture.table.count("state", &json!("actionable")), 30);
        assert_eq!(fixture.table.count("claimed_by", &Value::Null), 40);
        assert_eq!(fixture.table.count("attempts", &Value::Null), 30);
        assert_eq!(fixture.status("agent").counts.released, 10, "no more are claimed than are begun soon");
    });
}

#[test]
fn an_unresponsive_server_does_not_delay_the_stop() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(0);
        let agent = fixture.agent("agent", &full_rule(), &done_handler());
        fixture.until(secs(5), "idle", |fixture| fixture.status("agent").phase == "idle").await;
        fixture.table.freeze();
        fixture.poll();
        fixture.until(secs(5), "asking", |fixture| fixture.status("agent").phase == "working").await;
        let begun = Instant::now();
        fixture.stop.cancel();
        agent.await.expect("it ends");
        assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
    });
}

#[test]
fn rows_are_released_when_the_grace_period_is_over() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(3);
        let handler = TestHandler { duration: secs(3_600), ..done_handler() };
        let agent = fixture.agent("agent", &full_rule(), &handler);
        fixture.until(secs(5), "at work", |fixture| fixture.status("agent").working == 3).await;
        let begun = Instant::now();
        fixture.stop.cancel();
        agent.await.expect("it ends");
        assert!(begun.elapsed() < secs(21), "{:?}", begun.elapsed());
        assert_eq!(fixture.table.count("state", &json!("actionable")), 3);
    });
}

#[test]
fn a_retiring_agent_finishes_its_rows_and_claims_no_more() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(100);
        let handler = TestHandler { duration: secs(5), ..done_handler() };
        let agent = fixture.agent("agent", &full_rule(), &handler);
        fixture.until(secs(5), "at work", |fixture| fixture.status("agent").working == 10).await;
        fixture.retire.cancel();
        agent.await.expect("it ends");
        assert_eq!(fixture.table.count("state", &json!("complete")), 20);
        assert_eq!(fixture.table.count("state", &json!("actionable")), 80);
    });
}

/// Neither a completion nor a renewal touches a row of another agent.
#[test]
fn a_claim_taken_over_is_neither_completed_nor_renewed() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(2);
        let handler = TestHandler { duration: secs(10), ..done_handler() };
        fixture.agent("agent", &full_rule(), &handler);
        fixture.until(secs(5), "at work", |fixture| fixture.status("agent").working == 2).await;
        fixture.table.set(0, "claimed_by", json!("other/1"));
        fixture.complete(1, secs(15)).await;
        fixture.until(secs(15), "lost", |fixture| fixture.status("agent").counts.lost == 1).await;
        let row = fixture.table.get_row(0);
        assert_eq!((row["state"].as_str(), row["claimed_by"].as_str()), (Some("claimed"), Some("other/1")));
        // A running handler ends at the next renewal.
        fixture.table.insert(1);
        let slow = TestHandler { duration: secs(3_600), ..done_handler() };
        fixture.agent("slow", &full_rule(), &slow);
        fixture.until(secs(5), "at work", |fixture| fixture.status("slow").working == 1).await;
        fixture.table.set(2, "claimed_by", json!("other/2"));
        fixture.until(secs(60), "lost", |fixture| fixture.status("slow").counts.lost == 1).await;
        assert_eq!(fixture.status("slow").in_progress, 0);
    });
}

/// The handler's answer makes the row a candidate again, which the rule alone does not show.
#[test]
fn a_recurring_row_is_claimed_less_and_less_often() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(3);
        let mut rule = full_rule();
        rule["done"]["state"] = json!("$result.state");
        rule["max_attempts"] = json!(1_000_000);
        rule["handler"] = json!({ "kind": "command", "argv": ["/bin/true"] });
        let result: Row = serde_json::from_value(json!({ "state": "actionable" })).expect("a row");
        let handler =
            TestHandler { outcome: Rc::new(move |_| Outcome::Done(result.clone())), ..done_handler() };
        fixture.agent("agent", &rule, &handler);
        tokio::time::sleep(secs(300)).await;
        // At once, and then after 1, 2, 4 .. 60 s.
        let (begun, puts) = (handler.begun.borrow().len(), fixture.table.puts().len());
        assert!((3 * 6..3 * 16).contains(&begun), "{begun} times begun");
        assert!(puts < 2 * begun + 10, "{puts} writes for {begun} rows");
        let status = fixture.status("agent");
        assert!(status.counts.recurred as usize >= begun - 6 && status.deferred <= 3, "{status:#?}");
        // A new row is not delayed.
        fixture.table.insert(1);
        fixture.poll();
        let all = || handler.begun.borrow().iter().any(|task| task.row["id"] == 3);
        fixture.until(secs(2), "the new row is begun", |_| all()).await;
    });
}

#[test]
fn the_number_of_deferred_rows_is_bounded() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(2_800);
        let mut rule = full_rule();
        (rule["limit"], rule["concurrency"]) = (json!(500), json!(500));
        rule["backoff"] = json!({ "first_ms": 600_000, "max_ms": 600_000 });
        let handler =
            TestHandler { outcome: Rc::new(|_| Outcome::failed("broken".to_owned())), ..done_handler() };
        fixture.agent("agent", &rule, &handler);
        let full = |fixture: &Fixture| fixture.status("agent").deferred >= crate::deferred_rows::DEFERRED_MAX;
        fixture.until(secs(400), "no more rows are left alone", full).await;
        let begun = handler.begun.borrow().len();
        tokio::time::sleep(secs(60)).await;
        assert!(
            begun < crate::deferred_rows::DEFERRED_MAX + 500 && handler.begun.borrow().len() <= begun + 500
        );
        let again = |_: &Fixture| handler.begun.borrow().len() > begun + 1_000;
        fixture.until(secs(900), "they are tried again", again).await;
    });
}
