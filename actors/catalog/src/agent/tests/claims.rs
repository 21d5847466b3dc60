//! Finding and claiming rows.

use super::*;
use crate::service::RequestError;

#[test]
fn each_row_is_claimed_and_completed_once_by_any_number_of_agents() {
    for (agents, guard) in
        [(1, "row-cas"), (4, "row-cas"), (8, "row-cas"), (1, "if-match"), (4, "if-match"), (8, "if-match")]
    {
        run_with_paused_time(async || {
            let fixture = Fixture::new(400);
            let handler = done_handler();
            let mut rule = full_rule();
            rule["claim"]["guard"] = json!(guard);
            for name in 0..agents {
                fixture.agent(&format!("agent{name}"), &rule, &handler);
            }
            let took = fixture.complete(400, secs(60)).await;
            let mut begun: Vec<_> =
                handler.begun.borrow().iter().map(|task| task.row["RID"].to_string()).collect();
            begun.sort();
            begun.dedup();
            assert_eq!((handler.begun.borrow().len(), begun.len()), (400, 400), "{agents} agents, {guard}");
            assert_eq!(fixture.table.count("claimed_by", &Value::Null), 400);
            assert_eq!(fixture.table.count("attempts", &json!(1)), 400);
            assert!(took < secs(10), "{agents} agents, {guard}: {took:?}");
        });
    }
}

#[test]
fn an_idle_poll_is_one_request_answered_with_304() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(3);
        fixture.agent("agent", &full_rule(), &done_handler());
        fixture.complete(3, secs(10)).await;
        // One more poll sees the agent's own writes.
        fixture.poll();
        fixture.until(secs(5), "idle", |fixture| fixture.status("agent").phase == "idle").await;
        tokio::time::sleep(secs(60)).await;
        let before = fixture.table.gets().len();
        for _ in 0..10 {
            fixture.poll();
            tokio::time::sleep(secs(60)).await;
        }
        let attempts = fixture.table.gets().split_off(before);
        assert_eq!(attempts.len(), 10, "{attempts:?}");
        assert!(attempts.iter().all(|(_, unchanged)| *unchanged), "{attempts:?}");
    });
}

#[test]
fn all_candidates_beyond_the_limit_are_found_without_a_notice() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(47);
        let mut rule = full_rule();
        // A pure change of state: nothing else is ever written (CONTRACT CX01).
        rule["limit"] = json!(5);
        rule["claim"] = json!({ "guard": "if-match", "set": { "state": "complete" } });
        for key in ["done", "fail", "dead", "attempts_column", "max_attempts"] {
            rule.as_object_mut().expect("a rule").remove(key);
        }
        fixture.agent("agent", &rule, &done_handler());
        fixture.complete(47, secs(10)).await;
        assert_eq!(fixture.table.puts().len(), 10, "by fives");
    });
}

#[test]
fn an_expired_lease_is_taken_over_and_no_other() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(2);
        fixture.agent("agent", &full_rule(), &done_handler());
        fixture.complete(2, secs(10)).await;
        fixture.table.insert(1);
        // Another agent claims the row and dies.
        for (column, value) in [
            ("state", json!("claimed")),
            ("claimed_by", json!("dead/1")),
            ("attempts", json!(1)),
            ("lease_until", json!("2026-11-20T12:05:00+00:00")),
        ] {
            fixture.table.set(2, column, value);
        }
        fixture.poll();
        let took = fixture.complete(3, secs(600)).await;
        let ended = fixture.clock.now().duration_since("2026-11-20T12:05:00Z".parse().expect("a time"));
        assert!(ended.as_secs() >= 1 && ended.as_secs() <= 2, "taken over {ended:?} after its end, {took:?}");
        assert_eq!(fixture.status("agent").counts.taken_over, 1);
        assert_eq!(fixture.table.get_row(2)["attempts"], 2);
    });
}

#[test]
fn a_handler_that_runs_for_an_hour_keeps_its_row() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(4);
        let slow = TestHandler { duration: secs(3_600), ..done_handler() };
        fixture.agent("slow", &full_rule(), &slow);
        fixture.until(secs(5), "claimed", |fixture| fixture.status("slow").working == 4).await;
        let quick = done_handler();
        fixture.agent("quick", &full_rule(), &quick);
        for _ in 0..60 {
            tokio::time::sleep(secs(60)).await;
            fixture.poll();
        }
        fixture.complete(4, secs(60)).await;
        assert_eq!((slow.begun.borrow().len(), quick.begun.borrow().len()), (4, 0));
        assert_eq!(fixture.status("slow").counts.lost, 0);
    });
}

#[test]
fn a_dry_run_shows_what_it_would_claim_and_writes_nothing() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(2);
        let mut rule = full_rule();
        rule["dry_run"] = json!(true);
        fixture.agent("agent", &rule, &done_handler());
        fixture.until(secs(5), "looked", |fixture| fixture.status("agent").would_claim.len() == 2).await;
        fixture.poll();
        tokio::time::sleep(secs(60)).await;
        assert_eq!(fixture.table.puts(), []);
        assert_eq!(fixture.status("agent").would_claim, ["\"1-0000\"", "\"1-0001\""]);
    });
}

#[test]
fn deferred_rows_do_not_hide_other_candidates() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(60);
        let mut rule = full_rule();
        (rule["limit"], rule["max_attempts"]) = (json!(10), json!(100));
        rule["backoff"] = json!({ "first_ms": 600_000, "max_ms": 600_000 });
        // The first forty fail each time.
        let fails = TestHandler {
            outcome: Rc::new(|task| {
                if task.row["id"].as_u64() < Some(40) {
                    Outcome::failed("no".to_owned())
                } else {
                    Outcome::Done(Row::new())
                }
            }),
            ..done_handler()
        };
        fixture.agent("agent", &rule, &fails);
        fixture.complete(20, secs(30)).await;
        assert_eq!(fixture.status("agent").deferred, 40);
    });
}

/// A plan writes columns that a take-over does not, and without a token they are part of the fence. The
/// program needs real time.
#[test]
fn planned_rows_and_those_taken_over_are_renewed_together() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let fixture = Fixture::new(2);
        fixture.table.set(1, "state", json!("claimed"));
        fixture.table.set(1, "lease_until", json!("2026-11-20T11:00:00+00:00"));
        let rule = json!({
            "table": "Foo", "filter": "state=actionable", "limit": 50, "concurrency": 10,
            "claim": { "set": { "state": "claimed", "lease_until": "$now+3s" } },
            "plan": {
                "kind": "command", "columns": ["doc"],
                "argv": ["/bin/sh", "-c", "while read row; do echo '{\"doc\": \"planned\"}'; done"],
            },
            "done": { "state": "complete" },
        });
        let handler = TestHandler { duration: secs(3_600), ..done_handler() };
        fixture.agent("agent", &rule, &handler);
        fixture.until(secs(20), "at work", |fixture| fixture.status("agent").working == 2).await;
        let leases = |fixture: &Fixture| [0, 1].map(|id| fixture.table.get_row(id)["lease_until"].clone());
        let before = leases(&fixture);
        // The first renewals fail, so that the next one is due for both.
        (0..3)
            .for_each(|_| fixture.table.inject(Fault::Refused(RequestError::Unavailable("503".to_owned()))));
        let renewed =
            |fixture: &Fixture| leases(fixture).iter().zip(&before).all(|(now, before)| now != before);
        fixture.until(secs(20), "both are renewed", renewed).await;
        let status = fixture.status("agent");
        assert_eq!((status.counts.taken_over, status.counts.lost, status.working), (1, 0, 2));
    });
}
