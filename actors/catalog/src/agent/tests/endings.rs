//! How claims end.

use super::*;

#[test]
fn what_a_handler_answers_is_written() {
    on_a_turned_clock(async || {
        let world = World::new(1);
        let result = json!({ "doc": "made" }).as_object().cloned().expect("a row");
        let hands = Hands { verdict: Rc::new(move |_| Verdict::Done(result.clone())), ..done() };
        world.agent("agent", &whole(), &hands);
        world.complete(1, secs(5)).await;
        let row = world.table.get_row(0);
        assert_eq!((row["doc"].as_str(), &row["claimed_by"]), (Some("made"), &Value::Null));
        let begun = hands.begun.borrow();
        assert_eq!((begun[0].attempt, begun[0].row["state"].as_str()), (Some(1), Some("actionable")));
        assert!(begun[0].token.as_ref().is_some_and(|token| token.starts_with("agent/")));
    });
}

#[test]
fn endings_are_written_together() {
    on_a_turned_clock(async || {
        let world = World::new(200);
        let mut rule = whole();
        rule["limit"] = json!(100);
        world.agent("agent", &rule, &done());
        world.complete(200, secs(5)).await;
        let sizes: Vec<_> = world.table.puts().iter().map(|(_, rows)| rows.len()).collect();
        // Twice the concurrency until it is known how fast they are, then the limit.
        assert_eq!(sizes, [20, 20, 100, 100, 80, 80], "claimed, completed, claimed, completed ..");
    });
}

#[test]
fn a_row_that_fails_is_tried_again_later_and_is_dead_after_its_last_attempt() {
    on_a_turned_clock(async || {
        let world = World::new(1);
        let hands = Hands { verdict: Rc::new(|_| Verdict::Failed("broken".to_owned())), ..done() };
        world.agent("agent", &whole(), &hands);
        let took =
            world.until(secs(60), "dead", |world| world.table.count("state", &json!("dead")) == 1).await;
        // 1 s and 2 s, and their jitter.
        assert!(took > Duration::from_millis(2_000) && took < secs(6), "{took:?}");
        let attempts: Vec<_> = hands.begun.borrow().iter().map(|task| task.attempt).collect();
        assert_eq!(attempts, [Some(1), Some(2), Some(3)]);
        let row = world.table.get_row(0);
        assert_eq!((row["error"].as_str(), row["attempts"].as_u64()), (Some("broken"), Some(3)));
        let status = world.status("agent");
        assert_eq!((status.failed, status.dead, status.done), (3, 1, 0));
    });
}

#[test]
fn later_gives_the_row_back_as_it_was() {
    on_a_turned_clock(async || {
        let world = World::new(1);
        let tries = Rc::new(RefCell::new(0));
        let verdict = move |_: &Task| {
            *tries.borrow_mut() += 1;
            if *tries.borrow() < 5 { Verdict::Later("not now".to_owned()) } else { Verdict::Done(Row::new()) }
        };
        world.agent("agent", &whole(), &Hands { verdict: Rc::new(verdict), ..done() });
        world.complete(1, secs(120)).await;
        assert_eq!(world.table.get_row(0)["attempts"], 1, "what was not tried does not count");
        assert_eq!(world.status("agent").released, 4);
    });
}

#[test]
fn a_row_over_which_everybody_dies_is_dead_without_another_attempt() {
    on_a_turned_clock(async || {
        let world = World::new(1);
        world.table.set(0, "attempts", json!(3));
        let hands = done();
        world.agent("agent", &whole(), &hands);
        world.until(secs(5), "dead", |world| world.table.count("state", &json!("dead")) == 1).await;
        assert_eq!(hands.begun.borrow().len(), 0);
    });
}

#[test]
fn the_stop_gives_back_what_is_not_begun_and_finishes_what_is() {
    on_a_turned_clock(async || {
        let world = World::new(40);
        let hands = Hands { span: secs(5), ..done() };
        let agent = world.agent("agent", &whole(), &hands);
        world.until(secs(5), "at work", |world| world.status("agent").working == 10).await;
        world.stop.cancel();
        agent.await.expect("it ends");
        assert_eq!(world.table.count("state", &json!("complete")), 10);
        assert_eq!(world.table.count("state", &json!("actionable")), 30);
        assert_eq!(world.table.count("claimed_by", &Value::Null), 40);
        assert_eq!(world.table.count("attempts", &Value::Null), 30);
        assert_eq!(world.status("agent").released, 10, "no more are claimed than are begun soon");
    });
}

#[test]
fn a_server_that_does_not_answer_does_not_hold_up_the_stop() {
    on_a_turned_clock(async || {
        let world = World::new(0);
        let agent = world.agent("agent", &whole(), &done());
        world.until(secs(5), "idle", |world| world.status("agent").phase == "idle").await;
        world.table.freeze();
        world.look();
        world.until(secs(5), "asking", |world| world.status("agent").phase == "working").await;
        let begun = Instant::now();
        world.stop.cancel();
        agent.await.expect("it ends");
        assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
    });
}

#[test]
fn what_does_not_finish_in_the_grace_period_is_given_back() {
    on_a_turned_clock(async || {
        let world = World::new(3);
        let hands = Hands { span: secs(3_600), ..done() };
        let agent = world.agent("agent", &whole(), &hands);
        world.until(secs(5), "at work", |world| world.status("agent").working == 3).await;
        let begun = Instant::now();
        world.stop.cancel();
        agent.await.expect("it ends");
        assert!(begun.elapsed() < secs(21), "{:?}", begun.elapsed());
        assert_eq!(world.table.count("state", &json!("actionable")), 3);
    });
}

#[test]
fn who_retires_claims_nothing_more_and_finishes_what_it_has() {
    on_a_turned_clock(async || {
        let world = World::new(100);
        let hands = Hands { span: secs(5), ..done() };
        let agent = world.agent("agent", &whole(), &hands);
        world.until(secs(5), "at work", |world| world.status("agent").working == 10).await;
        world.retire.cancel();
        agent.await.expect("it ends");
        assert_eq!(world.table.count("state", &json!("complete")), 20);
        assert_eq!(world.table.count("state", &json!("actionable")), 80);
    });
}

/// Whoever has the row now is not disturbed: neither by a completion nor by a lease.
#[test]
fn a_claim_that_somebody_took_over_is_neither_completed_nor_renewed() {
    on_a_turned_clock(async || {
        let world = World::new(2);
        let hands = Hands { span: secs(10), ..done() };
        world.agent("agent", &whole(), &hands);
        world.until(secs(5), "at work", |world| world.status("agent").working == 2).await;
        world.table.set(0, "claimed_by", json!("other/1"));
        world.complete(1, secs(15)).await;
        world.until(secs(15), "lost", |world| world.status("agent").lost == 1).await;
        let row = world.table.get_row(0);
        assert_eq!((row["state"].as_str(), row["claimed_by"].as_str()), (Some("claimed"), Some("other/1")));
        // The other one ends its handler, too: it is told when it renews.
        world.table.insert(1);
        let slow = Hands { span: secs(3_600), ..done() };
        world.agent("slow", &whole(), &slow);
        world.until(secs(5), "at work", |world| world.status("slow").working == 1).await;
        world.table.set(2, "claimed_by", json!("other/2"));
        world.until(secs(60), "lost", |world| world.status("slow").lost == 1).await;
        assert_eq!(world.status("slow").in_progress, 0);
    });
}

/// Recurrence that does not follow from the rule: the handler's answer makes a candidate of the row.
#[test]
fn a_row_that_is_a_candidate_right_after_its_end_is_claimed_ever_less_often() {
    on_a_turned_clock(async || {
        let world = World::new(3);
        let mut rule = whole();
        rule["done"]["state"] = json!("$result.state");
        rule["max_attempts"] = json!(1_000_000);
        rule["handler"] = json!({ "kind": "command", "argv": ["/bin/true"] });
        let result = json!({ "state": "actionable" }).as_object().cloned().expect("a row");
        let hands = Hands { verdict: Rc::new(move |_| Verdict::Done(result.clone())), ..done() };
        world.agent("agent", &rule, &hands);
        tokio::time::sleep(secs(300)).await;
        // At once, and then after 1, 2, 4 .. 60 s.
        let (begun, puts) = (hands.begun.borrow().len(), world.table.puts().len());
        assert!((3 * 6..3 * 16).contains(&begun), "{begun} times begun");
        assert!(puts < 2 * begun + 10, "{puts} writes for {begun} rows");
        let status = world.status("agent");
        assert!(status.recurred as usize >= begun - 6 && status.held_back <= 3, "{status:#?}");
        // Somebody else's row is not kept waiting.
        world.table.insert(1);
        world.look();
        let all = || hands.begun.borrow().iter().any(|task| task.row["id"] == 3);
        world.until(secs(2), "the new row is begun", |_| all()).await;
    });
}

#[test]
fn rows_that_fail_are_left_alone_in_bounded_numbers() {
    on_a_turned_clock(async || {
        let world = World::new(2_800);
        let mut rule = whole();
        (rule["limit"], rule["concurrency"]) = (json!(500), json!(500));
        rule["backoff"] = json!({ "first_ms": 600_000, "max_ms": 600_000 });
        let hands = Hands { verdict: Rc::new(|_| Verdict::Failed("broken".to_owned())), ..done() };
        world.agent("agent", &rule, &hands);
        let full = |world: &World| world.status("agent").held_back >= crate::left_alone::LEFT_ALONE_MAX;
        world.until(secs(400), "no more rows are left alone", full).await;
        let begun = hands.begun.borrow().len();
        tokio::time::sleep(secs(60)).await;
        assert!(begun < crate::left_alone::LEFT_ALONE_MAX + 500 && hands.begun.borrow().len() <= begun + 500);
        let again = |_: &World| hands.begun.borrow().len() > begun + 1_000;
        world.until(secs(900), "they are tried again", again).await;
    });
}
