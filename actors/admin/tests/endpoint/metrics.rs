//! `GET /metrics`.

use std::time::Duration;

use crate::{
    exposition_check::read,
    site::{self, Block},
};

#[test]
fn the_metrics_page_is_valid_and_complete() {
    site::run(|site| async move {
        site.store.ask(Block(Duration::from_millis(2)), Duration::from_secs(9)).await.unwrap();
        site.post("/v1/actors/demo/source/restart", "").await;
        site.link.down("gone", Duration::from_secs(1));
        let reply = site.get("/metrics").await;
        assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        let samples = read(&reply.body);
        let value =
            |series: &str| *samples.get(series).unwrap_or_else(|| panic!("no {series} in {}", reply.body));
        let store = r#"path="test/demo/store""#;
        let mailbox = format!(r#"{store},mailbox="mailbox""#);
        assert_eq!(value(&format!("orchestrator_child_up{{{store}}}")), 1.0);
        assert_eq!(value(r#"orchestrator_child_up{path="test/demo/brief"}"#), 0.0);
        assert_eq!(value(r#"orchestrator_child_restarts_total{path="test/demo/source",kind="failed"}"#), 0.0);
        assert_eq!(
            value(r#"orchestrator_child_restarts_total{path="test/demo/source",kind="planned"}"#),
            1.0
        );
        assert_eq!(value(r#"orchestrator_supervisor_budget_left{path="test/demo"}"#), 5.0);
        assert_eq!(value(&format!("orchestrator_mailbox_capacity{{{mailbox}}}")), 16.0);
        assert_eq!(value(&format!("orchestrator_mailbox_handled_total{{{mailbox}}}")), 1.0);
        assert_eq!(value(&format!("orchestrator_link_up{{{store},kind=\"fake\"}}")), 0.0);
        assert_eq!(value(r#"orchestrator_link_up{path="test/admin",kind="http"}"#), 1.0);
        assert_eq!(value(&format!("orchestrator_demo_hand_outs_jobs_total{{{store}}}")), 3.0);
        let get = format!(r#"{store},method="get""#);
        let calls = "orchestrator_demo_call_duration_seconds";
        assert_eq!(value(&format!("{calls}_bucket{{{get},le=\"0.001024\"}}")), 0.0);
        assert_eq!(value(&format!("{calls}_bucket{{{get},le=\"0.004096\"}}")), 1.0);
        assert_eq!(value(&format!("{calls}_count{{{get}}}")), 1.0);
        let block = format!(r#"{mailbox},message="Block""#);
        assert_eq!(value(&format!("orchestrator_message_handling_seconds_count{{{block}}}")), 1.0);
        assert_eq!(
            value(&format!("orchestrator_message_handling_seconds_bucket{{{block},le=\"0.001024\"}}")),
            0.0
        );
        assert_eq!(value(&format!("orchestrator_message_wait_seconds_bucket{{{block},le=\"+Inf\"}}")), 1.0);
        assert!(value(&format!("orchestrator_message_handling_seconds_sum{{{block}}}")) >= 0.002);
        assert!(value(r#"orchestrator_arbiter_silence_seconds{arbiter="supervision"}"#) < 2.0);
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_threads") > 2.0);
        assert!(value("process_open_fds") > 3.0 && value("process_max_fds") > value("process_open_fds"));
        assert!(value("process_cpu_seconds_total") < 1e6 && value("process_start_time_seconds") > 1.7e9);
        assert_eq!(value("orchestrator_metrics_dropped_samples"), 0.0);
    });
}
