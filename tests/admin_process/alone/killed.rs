//! Situation 26: each server, killed under load, is named first within 3 s, and no cause 3 s after its
//! return.

use std::time::Instant;

use orchestrator_harness::{TestEnv, eventually};

use crate::servers::{NOTICED_MAX, SLOW_PUSHES, is_counted, is_unready_because, with_servers};

/// Waits until the first cause of each branch names its server.
fn assert_named(env: &TestEnv, killed: Instant, servers: &[(&str, String)]) {
    for (branch, address) in servers {
        let cause = env.first_cause(branch, address);
        let after = killed.elapsed();
        assert!(after <= NOTICED_MAX, "{branch}: {after:?}: {cause:?}");
        assert!(!cause.evidence.is_empty() && cause.help.contains(address), "{cause:?}");
        eventually("the metric", || is_counted(env, &cause.path, "link_down"));
        eventually("the same reason of unreadiness", || {
            let now = env.causes(branch).into_iter().next().unwrap_or_else(|| cause.clone());
            is_unready_because(env, &now.path, now.text.split(" (for ").next().unwrap_or_default())
        });
    }
}

fn assert_gone(env: &TestEnv, branch: &str, address: &str) {
    let back = Instant::now();
    eventually(&format!("no cause of {branch}"), || !env.why(branch).contains(address));
    let after = back.elapsed();
    eprintln!("{branch}: gone after {after:?}");
    assert!(after <= NOTICED_MAX, "{branch}: {after:?}");
}

#[test]
fn killed_servers_are_named_first_within_3_s_and_gone_3_s_after_their_return() {
    with_servers(false, |env, servers| {
        let [postgres, redis, mongodb, faktory, ermrest] = [
            servers.postgres.port(),
            servers.redis.port(),
            servers.mongodb.port(),
            servers.faktory.port(),
            servers.ermrest.port(),
        ]
        .map(|port| format!(":{port}"));
        let killed = Instant::now();
        servers.postgres.kill_nine();
        servers.redis.kill_nine();
        servers.ermrest.kill_nine();
        servers.faktory.kill_nine();
        let all = [
            ("provenance", postgres.clone()),
            ("ingester", redis.clone()),
            ("catalog", ermrest.clone()),
            ("producer", faktory.clone()),
        ];
        assert_named(env, killed, &all);
        servers.faktory.start_again(&SLOW_PUSHES);
        assert_gone(env, "producer", &faktory);
        servers.ermrest.start_again();
        assert_gone(env, "catalog", &ermrest);
        servers.redis.start_again();
        assert_gone(env, "ingester", &redis);
        servers.postgres.start_again();
        assert_gone(env, "provenance", &postgres);

        let killed = Instant::now();
        servers.mongodb.kill_nine();
        assert_named(env, killed, &[("producer", mongodb.clone())]);
        servers.mongodb.start_again();
        assert_gone(env, "producer", &mongodb);
    });
}
