//! Crash reports in the details of a child.

use orchestrator_harness::eventually;
use serde_json::json;

use crate::browser::{Browser, env};

const REASON: &str = "<img src=x onerror=window.hacked=1>";

#[tokio::test]
async fn crash_reports_are_listed_with_events_and_backtrace() {
    let env = env().set("admin.chaos=true");
    let _instance = env.start();
    let browser = Browser::open(&env).await;
    browser.go("#/tree/orchestrator/queue/fetcher_watcher?tab=exits").await;
    let list = "document.querySelector('.drawer .panel')";
    browser.until("no crash", &format!("{list}?.textContent.includes('The child has not crashed.')")).await;
    for round in 1..=2 {
        env.inject("queue/fetcher_watcher", "panic", REASON);
        eventually("a restart", || env.node("queue/fetcher_watcher")["restarts"].as_u64() == Some(round));
        eventually("it runs", || env.node("queue/fetcher_watcher")["state"] == "running");
    }
    let crashes = "document.querySelectorAll('.drawer details.crash')";
    browser.until("both reports without a reload", &format!("{crashes}.length === 2")).await;
    browser.run(&format!("{crashes}[0].open = true;")).await;
    let newest = browser.run(&format!("return {crashes}[0].textContent;")).await;
    let newest = newest.as_str().expect("text");
    assert!(newest.contains("panicked, incarnation 2: injected panic"), "{newest}");
    assert!(newest.contains("At actors/supervise/src/runner.rs:") && newest.contains("Runner"), "{newest}");
    // The events before it have the reason of the first panic, as text.
    assert!(newest.contains(REASON), "{newest}");
    assert_eq!(browser.run("return document.querySelectorAll('.drawer img').length;").await, json!(0));
    assert_eq!(browser.run("return window.hacked ?? null;").await, json!(null));
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.close().await;
}
