//! Crash reports in the details of a child.

use orchestrator_harness::{TestEnv, eventually, http};
use serde_json::json;

use crate::browser::Browser;

const REASON: &str = "<img src=x onerror=window.hacked=1>";

#[tokio::test]
async fn crash_reports_are_listed_with_events_and_backtrace() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.chaos=true");
    let _instance = env.start();
    let browser = Browser::open(&env).await;
    browser.go("#/tree/orchestrator/queue/housekeeper?tab=exits").await;
    let list = "document.querySelector('.drawer .panel')";
    browser
        .until("no crash", &format!("{list}?.textContent.includes('The child has not crashed.')"))
        .await;
    for round in 1..=2 {
        let reason = json!({ "reason": REASON }).to_string();
        let route = "/v1/actors/queue/housekeeper/panic";
        http(&env.admin_socket(), "POST", route, &["Content-Type: application/json"], &reason);
        eventually("a restart", || env.node("queue/housekeeper")["restarts"].as_u64() == Some(round));
    }
    let crashes = "document.querySelectorAll('.drawer details.crash')";
    browser.until("both reports without a reload", &format!("{crashes}.length === 2")).await;
    browser.run(&format!("{crashes}[0].open = true;")).await;
    let newest = browser.run(&format!("return {crashes}[0].textContent;")).await;
    let newest = newest.as_str().expect("text");
    assert!(newest.contains("panicked, incarnation 2: injected panic"), "{newest}");
    assert!(newest.contains("vitals.rs:") && newest.contains("housekeeper"), "{newest}");
    // The events before it have the reason of the first panic, as text.
    assert!(newest.contains(REASON), "{newest}");
    assert_eq!(browser.run("return document.querySelectorAll('.drawer img').length;").await, json!(0));
    assert_eq!(browser.run("return window.hacked ?? null;").await, json!(null));
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.close().await;
}
