//! What goes wrong between an agent and its catalog.

use super::*;
use crate::service::Trouble;

#[test]
fn a_claim_whose_answer_is_lost_is_settled_by_its_token() {
    on_a_turned_clock(async || {
        let world = World::new(20);
        world.table.accident(Accident::Lost);
        let hands = done();
        world.agent("agent", &whole(), &hands);
        let took = world.complete(20, secs(10)).await;
        assert!(took < secs(2), "{took:?}");
        assert_eq!(hands.begun.borrow().len(), 20);
    });
}

#[test]
fn a_claim_that_arrives_late_is_settled_too() {
    on_a_turned_clock(async || {
        let world = World::new(20);
        world.table.accident(Accident::Late(secs(5)));
        // Nobody else writes, so that the rows are as they were read when it arrives.
        world.table.accident(Accident::Refused(Trouble::Away("503".to_owned())));
        let hands = done();
        world.agent("agent", &whole(), &hands);
        world.complete(20, secs(70)).await;
        assert_eq!(world.table.count("claimed_by", &Value::Null), 20);
    });
}

#[test]
fn a_completion_whose_answer_is_lost_is_not_taken_for_a_lost_claim() {
    on_a_turned_clock(async || {
        let world = World::new(20);
        let hands = Hands { span: secs(1), ..done() };
        world.agent("agent", &whole(), &hands);
        world.until(secs(5), "at work", |world| world.status("agent").working == 10).await;
        for _ in 0..3 {
            world.table.accident(Accident::Lost);
        }
        world.complete(20, secs(20)).await;
        world.until(secs(20), "settled", |world| world.status("agent").in_progress == 0).await;
        let status = world.status("agent");
        assert_eq!((status.done, status.lost), (20, 0));
        assert_eq!(hands.begun.borrow().len(), 20);
    });
}

#[test]
fn a_claim_without_a_token_whose_answer_is_lost_is_shown() {
    on_a_turned_clock(async || {
        let world = World::new(3);
        world.table.accident(Accident::Lost);
        let mut rule = whole();
        rule["claim"] = json!({ "guard": "if-match", "set": { "state": "claimed" } });
        rule.as_object_mut().expect("a rule").remove("attempts_column");
        world.agent("agent", &rule, &done());
        world.until(secs(5), "shown", |world| !world.status("agent").unsettled.is_empty()).await;
        let text = world.status("agent").unsettled.remove(0);
        assert!(text.contains("\"1-0000\", \"1-0001\", \"1-0002\"") && text.contains("$token"), "{text}");
    });
}

#[test]
fn a_storm_of_503_is_sat_out_and_the_next_row_comes_within_2_s() {
    on_a_turned_clock(async || {
        let world = World::new(0);
        world.agent("agent", &whole(), &done());
        world.until(secs(5), "idle", |world| world.status("agent").looks > 0).await;
        for outage in [3, 30, 3_600] {
            let rows = world.table.count("state", &json!("complete"));
            world.table.read_trouble(Some(Trouble::Away("503".to_owned())));
            world.look();
            tokio::time::sleep(secs(outage)).await;
            assert_eq!(world.status("agent").phase, "waiting");
            world.table.insert(1);
            world.table.read_trouble(None);
            let took = world.complete(rows + 1, secs(10)).await;
            assert!(took < secs(2), "{took:?} after {outage} s");
        }
    });
}

#[test]
fn one_row_that_cannot_be_completed_does_not_keep_the_others_from_it() {
    on_a_turned_clock(async || {
        let world = World::new(40);
        // The server refuses one row's result.
        let verdict = |task: &Task| {
            let doc = if task.row["id"] == 17 { "poison" } else { "good" };
            Verdict::Done(json!({ "doc": doc }).as_object().cloned().expect("a row"))
        };
        world.table.poison("doc", json!("poison"));
        let mut rule = whole();
        rule["max_attempts"] = json!(1);
        world.agent("agent", &rule, &Hands { verdict: Rc::new(verdict), ..done() });
        world.complete(39, secs(10)).await;
        world
            .until(secs(10), "dead", |world| {
                world.table.get_row(17)["state"] == "dead" || world.table.get_row(17)["state"] == "actionable"
            })
            .await;
        let row = world.table.get_row(17);
        assert!(row["error"].as_str().is_some_and(|error| error.contains("409")), "{row:?}");
        assert!(world.status("agent").unsettled[0].contains("\"1-0017\""));
    });
}

#[test]
fn a_server_that_takes_few_rows_at_once_gets_few() {
    on_a_turned_clock(async || {
        let world = World::new(100);
        world.table.takes_at_once(7);
        world.agent("agent", &whole(), &done());
        world.complete(100, secs(20)).await;
    });
}

#[test]
fn a_rule_that_is_refused_is_parked_and_comes_back_by_order_or_by_itself() {
    on_a_turned_clock(async || {
        let world = World::new(1);
        world.table.read_trouble(Some(Trouble::Refused("409 Requested column does not exist".to_owned())));
        world.agent("agent", &whole(), &done());
        world.until(secs(5), "parked", |world| world.status("agent").phase == "parked").await;
        assert!(world.status("agent").reason.is_some_and(|reason| reason.contains("column")));
        world.table.read_trouble(None);
        world.look();
        tokio::time::sleep(secs(60)).await;
        assert_eq!(world.status("agent").phase, "parked");
        world.calls.send_modify(|call| call.orders += 1);
        world.complete(1, secs(2)).await;
        world.table.read_trouble(Some(Trouble::Missing("404".to_owned())));
        world.table.insert(1);
        world.look();
        world.until(secs(5), "parked", |world| world.status("agent").phase == "parked").await;
        world.table.read_trouble(None);
        world.complete(2, secs(310)).await;
    });
}

/// Somebody else may have begun with it: whoever cannot renew its lease has lost it when it ends.
#[test]
fn a_lease_that_cannot_be_renewed_ends_the_handler() {
    on_a_turned_clock(async || {
        let world = World::new(1);
        let hands = Hands { span: secs(3_600), ..done() };
        world.agent("agent", &whole(), &hands);
        world.until(secs(5), "at work", |world| world.status("agent").working == 1).await;
        for _ in 0..200 {
            world.table.accident(Accident::Refused(Trouble::Away("503".to_owned())));
        }
        let took = world.until(secs(70), "lost", |world| world.status("agent").lost == 1).await;
        assert!(took > secs(55) && took < secs(61), "{took:?}");
    });
}

#[test]
fn what_is_paused_claims_nothing() {
    on_a_turned_clock(async || {
        let world = World::new(0);
        world.agent("agent", &whole(), &done());
        world.until(secs(5), "idle", |world| world.status("agent").looks > 0).await;
        world.calls.send_modify(|call| call.paused = true);
        world.table.insert(3);
        world.look();
        tokio::time::sleep(secs(600)).await;
        assert_eq!(world.table.puts(), []);
        world.calls.send_modify(|call| call.paused = false);
        world.complete(3, secs(5)).await;
    });
}
