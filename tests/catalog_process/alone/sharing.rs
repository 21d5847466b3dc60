//! Number of requests of agents that share a table. A busy machine delays the agents and adds conflicts.

use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE, Rabbit, eventually};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

/// After a notice all agents could query and claim at once, and all but one would lose. Each write takes the
/// server 20 ms.
#[test]
fn four_agents_share_few_requests_for_rows_that_come_one_by_one() {
    const ROWS: u32 = 20;
    let url = Rabbit::shared().create_vhost("one-by-one");
    let server = Ermrest::start(&["--write-ms", "20", "--amqp", &url]);
    let rule = FULL_RULE.replace("done =", "#").replace("dead =", "#").replace("fail =", "#");
    let sites: Vec<_> = (0..4).map(|_| CatalogEnv::new(BINARY, &server).notices(&url).rule(&rule)).collect();
    let _instances: Vec<_> = sites.iter().map(CatalogEnv::start).collect();
    for site in &sites {
        eventually("notices to come", || site.status()["notices"]["up"] == true);
    }
    let requests = || {
        let log = server.log();
        let statuses = log["statuses"].as_object().expect("counts").clone();
        statuses
            .iter()
            .filter(|(status, _)| !status.starts_with("POST"))
            .filter_map(|(_, n)| n.as_u64())
            .sum::<u64>()
    };
    let polls =
        || -> Vec<_> { sites.iter().map(|site| site.rule_status("work")["polls"].as_u64()).collect() };
    let before = requests();
    for id in 1..=ROWS {
        let polled = polls();
        server.insert("Foo", &json!([{ "id": id, "state": "actionable" }]), "");
        eventually("the row to be claimed and all to know", || {
            let claimed = server.rows("Foo").iter().all(|row| row["state"] == "claimed");
            claimed && polls().iter().zip(&polled).all(|(now, before)| now > before)
        });
    }
    let each = (requests() - before) / u64::from(ROWS);
    eprintln!("{each} requests for each row");
    assert!(each <= 10, "{each} requests for each row");
}
