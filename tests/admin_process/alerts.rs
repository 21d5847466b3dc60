//! Alerts in a running Prometheus; tests/project/alerts.rs has one test for each of them.

use std::path::Path;

use orchestrator_harness::{Prometheus, eventually, http_tcp};

use super::access::{VIEWER, env_with_tokens};

#[test]
fn four_alerts_fire_in_prometheus_and_none_before() {
    let (env, _) = env_with_tokens();
    let env = env.set("provenance.sqlite.path=provenance.db").set("provenance.dead_letters=dead-letters.db");
    let _instance = env.start();
    let address = env.admin_tcp();
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/alerts.yml");
    // An audit log that cannot be written.
    let unaudited = super::access::env().set("admin.audit_file=/dev/full");
    let _second = unaudited.start();
    let prometheus = Prometheus::start(&rules, [address, unaudited.admin_tcp()], VIEWER);
    assert_eq!(prometheus.firing(), [""; 0]);
    for _ in 0..30 {
        assert_eq!(http_tcp(address, "GET", "/v1/tree", &["Authorization: Bearer wrong"], "").status, 401);
    }
    env.exceed_restarts("queue");
    env.exceed_restarts("provenance/range_worker/3");
    assert_eq!(unaudited.cli(&["queue", "pause"]).0, 5);
    for alert in [
        "OrchestratorUnauthenticated orchestrator/admin",
        "OrchestratorGivenUp orchestrator/queue",
        "OrchestratorRestarting orchestrator/provenance/range_worker/3",
        "OrchestratorAuditFails orchestrator/admin",
    ] {
        eventually(&format!("{alert}: {:?}", prometheus.firing()), || {
            prometheus.firing().iter().any(|firing| firing == alert)
        });
    }
}
