//! A hidden page reads nothing, and catches up when it is shown again.

use orchestrator_harness::eventually;
use serde_json::json;

use crate::browser::{Browser, env, pausable};

/// Longer than three intervals between reads of the tree, in milliseconds.
const HIDDEN_MS: u32 = 6_500;

#[tokio::test]
async fn a_hidden_page_pauses_and_catches_up() {
    let env = env();
    let _instance = env.start();
    let path = pausable(&env);
    let short = path.trim_start_matches("orchestrator/").to_owned();
    let browser = Browser::open(&env).await;
    browser.go("#/tree").await;
    let status = "document.querySelector('#connection').dataset.status";
    browser.until("the page", &format!("{status} === 'live'")).await;
    browser.minimize().await;
    browser
        .until(
            "the page to be hidden",
            &format!("document.visibilityState === 'hidden' && {status} === 'hidden'"),
        )
        .await;
    eventually("the page to stop reading events", || env.metric("admin", "event_clients") == 0);
    let hidden_at = browser.run("return performance.now();").await.as_f64().expect("a time");
    env.inject_panic(&short);
    eventually("a restart", || env.node(&short)["restarts"] == 1);
    let until = hidden_at + f64::from(HIDDEN_MS);
    browser.until("several intervals to pass", &format!("performance.now() > {until}")).await;
    // The entry of a request is made when the request ends, which may be after the page was hidden.
    let begun = format!(
        "performance.getEntriesByType('resource')\
         .filter(e => e.name.includes('/v1/') && e.startTime > {hidden_at}).map(e => e.name)"
    );
    let restarts = format!("document.querySelector('tr[data-path=\"{path}\"] .col-restarts').textContent");
    let after = browser.run(&format!("return [{begun}, {restarts}];")).await;
    assert_eq!(after, json!([[], "0"]));
    assert_eq!(env.metric("admin", "event_clients"), 0);
    browser.restore().await;
    browser.until("the restart", &format!("{status} === 'live' && {restarts} === '1'")).await;
    browser.close().await;
}
