//! How rows are found and claimed.

use super::*;

#[test]
fn each_row_is_claimed_once_and_completed_by_however_many_agents() {
    for (agents, guard) in
        [(1, "row-cas"), (4, "row-cas"), (8, "row-cas"), (1, "if-match"), (4, "if-match"), (8, "if-match")]
    {
        on_a_turned_clock(async || {
            let world = World::new(400);
            let hands = done();
            let mut rule = whole();
            rule["claim"]["guard"] = json!(guard);
            for name in 0..agents {
                world.agent(&format!("agent{name}"), &rule, &hands);
            }
            let took = world.complete(400, secs(60)).await;
            let mut begun: Vec<_> =
                hands.begun.borrow().iter().map(|task| task.row["RID"].to_string()).collect();
            begun.sort();
            begun.dedup();
            assert_eq!((hands.begun.borrow().len(), begun.len()), (400, 400), "{agents} agents, {guard}");
            assert_eq!(world.table.count("claimed_by", &Value::Null), 400);
            assert_eq!(world.table.count("attempts", &json!(1)), 400);
            assert!(took < secs(10), "{agents} agents, {guard}: {took:?}");
        });
    }
}

#[test]
fn idle_is_one_question_a_look_which_the_server_answers_with_nothing() {
    on_a_turned_clock(async || {
        let world = World::new(3);
        world.agent("agent", &whole(), &done());
        world.complete(3, secs(10)).await;
        // What was written is looked at once more.
        world.look();
        world.until(secs(5), "idle", |world| world.status("agent").phase == "idle").await;
        tokio::time::sleep(secs(60)).await;
        let before = world.table.gets().len();
        for _ in 0..10 {
            world.look();
            tokio::time::sleep(secs(60)).await;
        }
        let asked = world.table.gets().split_off(before);
        assert_eq!(asked.len(), 10, "{asked:?}");
        assert!(asked.iter().all(|(_, unchanged)| *unchanged), "{asked:?}");
    });
}

#[test]
fn more_candidates_than_the_limit_are_all_found_without_another_word() {
    on_a_turned_clock(async || {
        let world = World::new(47);
        let mut rule = whole();
        // A pure change of state: nothing else is ever written (CONTRACT CX01).
        rule["limit"] = json!(5);
        rule["claim"] = json!({ "guard": "if-match", "set": { "state": "complete" } });
        for key in ["done", "fail", "dead", "attempts_column", "max_attempts"] {
            rule.as_object_mut().expect("a rule").remove(key);
        }
        world.agent("agent", &rule, &done());
        world.complete(47, secs(10)).await;
        assert_eq!(world.table.puts().len(), 10, "by fives");
    });
}

#[test]
fn a_lease_that_ended_is_taken_over_and_none_before() {
    on_a_turned_clock(async || {
        let world = World::new(2);
        world.agent("agent", &whole(), &done());
        world.complete(2, secs(10)).await;
        world.table.insert(1);
        // Somebody claims it, and dies.
        for (column, value) in [
            ("state", json!("claimed")),
            ("claimed_by", json!("dead/1")),
            ("attempts", json!(1)),
            ("lease_until", json!("2026-11-20T12:05:00+00:00")),
        ] {
            world.table.set(2, column, value);
        }
        world.look();
        let took = world.complete(3, secs(600)).await;
        let ended = world.wall.now().duration_since("2026-11-20T12:05:00Z".parse().expect("a time"));
        assert!(ended.as_secs() >= 1 && ended.as_secs() <= 2, "taken over {ended:?} after its end, {took:?}");
        assert_eq!(world.status("agent").taken_over, 1);
        assert_eq!(world.table.get_row(2)["attempts"], 2);
    });
}

#[test]
fn an_hour_long_handler_keeps_its_row() {
    on_a_turned_clock(async || {
        let world = World::new(4);
        let slow = Hands { span: secs(3_600), ..done() };
        world.agent("slow", &whole(), &slow);
        world.until(secs(5), "claimed", |world| world.status("slow").working == 4).await;
        let quick = done();
        world.agent("quick", &whole(), &quick);
        for _ in 0..60 {
            tokio::time::sleep(secs(60)).await;
            world.look();
        }
        world.complete(4, secs(60)).await;
        assert_eq!((slow.begun.borrow().len(), quick.begun.borrow().len()), (4, 0));
        assert_eq!(world.status("slow").lost, 0);
    });
}

#[test]
fn a_dry_run_shows_what_it_would_claim_and_writes_nothing() {
    on_a_turned_clock(async || {
        let world = World::new(2);
        let mut rule = whole();
        rule["dry_run"] = json!(true);
        world.agent("agent", &rule, &done());
        world.until(secs(5), "looked", |world| world.status("agent").would_claim.len() == 2).await;
        world.look();
        tokio::time::sleep(secs(60)).await;
        assert_eq!(world.table.puts(), []);
        assert_eq!(world.status("agent").would_claim, ["\"1-0000\"", "\"1-0001\""]);
    });
}

#[test]
fn rows_that_are_left_alone_hide_no_others() {
    on_a_turned_clock(async || {
        let world = World::new(60);
        let mut rule = whole();
        (rule["limit"], rule["max_attempts"]) = (json!(10), json!(100));
        rule["backoff"] = json!({ "first_ms": 600_000, "max_ms": 600_000 });
        // The first forty fail each time.
        let fails = Hands {
            verdict: Rc::new(|task| {
                if task.row["id"].as_u64() < Some(40) {
                    Verdict::Failed("no".to_owned())
                } else {
                    Verdict::Done(Row::new())
                }
            }),
            ..done()
        };
        world.agent("agent", &rule, &fails);
        world.complete(20, secs(30)).await;
        assert_eq!(world.status("agent").held_back, 40);
    });
}
