//! Several agents that all get each notice (CONTRACT CO13, CO14).

use super::*;

const ROWS: usize = 40;

/// A rule that only claims.
fn claiming_rule() -> Value {
    json!({ "table": "Foo", "filter": "state=actionable", "claim": { "set": { "state": "claimed" } } })
}

/// Inserts rows one by one, each after the one before was claimed and `pause` has passed. Returns the
/// time until each claim, sorted.
async fn one_by_one(fixture: &Fixture, state: &str, pause: Duration) -> Vec<Duration> {
    let mut times = Vec::new();
    for count in 1..=ROWS {
        tokio::time::sleep(pause).await;
        fixture.table.insert(1);
        let begun = Instant::now();
        let claimed = || fixture.table.count("state", &json!(state)) == count;
        while !claimed() {
            assert!(begun.elapsed() < secs(5), "row {count} waits");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        times.push(begun.elapsed());
    }
    times.sort();
    times
}

fn requests(fixture: &Fixture) -> usize {
    fixture.table.gets().len() + fixture.table.puts().len() + fixture.table.aborted()
}

#[test]
fn four_agents_claim_soon_after_a_notice_and_send_few_requests() {
    for seed in 0..5 {
        for guard in ["row-cas", "if-match"] {
            fastrand::seed(seed);
            run_with_paused_time(async || {
                let fixture = Fixture::new(0);
                fixture.table.notify(&fixture.triggers);
                let mut rule = claiming_rule();
                rule["claim"]["guard"] = json!(guard);
                for name in 0..4 {
                    fixture.agent(&format!("agent{name}"), &rule, &done_handler());
                }
                let pause = Duration::from_millis(320);
                tokio::time::sleep(pause).await;
                let before = requests(&fixture);
                let times = one_by_one(&fixture, "claimed", pause).await;
                tokio::time::sleep(secs(2)).await;
                let each = (requests(&fixture) - before) as f64 / ROWS as f64;
                assert!(times[ROWS / 2] <= Duration::from_millis(30), "seed {seed}, {guard}: {times:?}");
                assert!(each <= 7.0, "seed {seed}, {guard}: {each} requests for each row");
            });
        }
    }
}

/// The agent that was fastest so far claims no more: the others do not wait long.
#[test]
fn the_others_take_over_from_a_winner_that_stops() {
    for seed in 0..3 {
        fastrand::seed(seed);
        run_with_paused_time(async || {
            let fixture = Fixture::new(0);
            fixture.table.notify(&fixture.triggers);
            let mut rule = claiming_rule();
            rule["limit"] = json!(1);
            rule["concurrency"] = json!(1);
            // Each agent claims one row and is busy then.
            let busy = TestHandler { duration: secs(3_600), ..done_handler() };
            for name in 0..ROWS {
                fixture.agent(&format!("agent{name}"), &rule, &busy);
            }
            let times = one_by_one(&fixture, "claimed", Duration::from_millis(320)).await;
            assert!(times[ROWS / 2] <= Duration::from_millis(150), "seed {seed}: {times:?}");
        });
    }
}

#[test]
fn an_agent_alone_polls_once_for_a_row_and_its_own_writes() {
    run_with_paused_time(async || {
        let fixture = Fixture::new(0);
        fixture.table.notify(&fixture.triggers);
        fixture.agent("agent", &full_rule(), &done_handler());
        tokio::time::sleep(secs(5)).await;
        let before = fixture.table.gets().len();
        for row in 1..=10 {
            fixture.table.insert(1);
            fixture.complete(row, secs(1)).await;
            tokio::time::sleep(secs(10)).await;
        }
        let candidates = fixture
            .table
            .gets()
            .split_off(before)
            .into_iter()
            .filter(|(path, _)| path.contains("actionable"));
        // The candidates, and the poll after the claim, which covers all own notices.
        assert_eq!(candidates.count(), 20);
    });
}

/// A row that comes while a query is in flight, or together with own writes, is found.
#[test]
fn no_row_is_forgotten_whenever_it_comes() {
    for seed in 0..10 {
        fastrand::seed(seed);
        run_with_paused_time(async || {
            let fixture = Fixture::new(0);
            fixture.table.notify(&fixture.triggers);
            for name in 0..2 {
                fixture.agent(&format!("agent{name}"), &full_rule(), &done_handler());
            }
            for _ in 0..100 {
                fixture.table.insert(1);
                tokio::time::sleep(Duration::from_micros(fastrand::u64(0..60_000))).await;
            }
            fixture.complete(100, secs(5)).await;
        });
    }
}
