//! The cards of the overview: when they are green, their width, and errors that several children have.

use std::net::TcpListener;

use orchestrator_harness::eventually;
use serde_json::json;

use crate::browser::{Browser, env};

/// Keeps the first state of each card.
const WATCH: &str = "window.first = {};
     new MutationObserver(() => document.querySelectorAll('.card[data-state]').forEach(card => { window.first[card.getAttribute('aria-label')] ??= card.dataset.state; }))
         .observe(document, { subtree: true, childList: true, attributes: true });";

#[tokio::test]
async fn a_card_is_green_only_if_its_links_are_up_and_shows_an_error_once() {
    // Accepts connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("its address");
    let env = env()
        .set("provenance.transport=amqp")
        .set(&format!("provenance.amqp.url=amqp://{address}"))
        .set("provenance.sqlite.path=provenance.db");
    let _instance = env.spawn();
    eventually("the endpoint", || env.snapshot().is_some());
    let browser = Browser::open(&env).await;
    browser.run_before_pages(WATCH).await;
    browser.go("#/").await;
    browser.until("two cards", "window.first.queue && window.first.provenance").await;
    assert_eq!(browser.run("return window.first.provenance;").await, json!("blocked"));
    browser
        .until(
            "the other card",
            "document.querySelector('.card[aria-label=queue]').dataset.state === 'running'",
        )
        .await;
    let wide = "[...document.querySelectorAll('.card')].reduce((sum, card) => sum + card.offsetWidth, 0) / document.querySelector('main').offsetWidth";
    assert!(browser.run(&format!("return {wide};")).await.as_f64() > Some(0.9), "two cards use the width");
    // Client and workers wait for the same broker.
    let told = "[...document.querySelectorAll('.hold, .cards')].map(e => e.innerText).join().split('has not answered').length - 1";
    browser
        .until("the error once", &format!("{told} === 1 && document.querySelector('.hold:not([hidden])')"))
        .await;
    let card = "document.querySelector('.card[aria-label=provenance]')";
    browser.until("the children", &format!("{card}.innerText.includes('blocked')")).await;
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.close().await;
}
