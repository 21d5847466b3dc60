//! The banner of what holds up work, and the state of a paused or blocked subsystem on each page.

use fantoccini::key::Key;
use orchestrator_harness::eventually;
use serde_json::json;

use crate::{
    accessibility::violations,
    browser::{Browser, env},
};

const SHOWN: &str = "document.querySelector('.hold:not([hidden])')";
const REASON: &str = "an operator paused hand-outs";

/// JavaScript expression: the sign of the queue in the navigation has a state.
fn sign(state: &str) -> String {
    format!("document.querySelector('#nav a[href=\"#/queue\"] .state-{state}')")
}

/// Enters `until` into the dialog of the queue's pause, with the reason `moved`, and confirms.
async fn pause(browser: &Browser, until: &str) {
    browser.click(".view button[data-verb=pause]").await;
    browser.until("the dialog", "document.activeElement?.id === 'reason'").await;
    browser.type_text("moved").await;
    browser.click("dialog[open] #until").await;
    browser.type_text(until).await;
    browser.press(Key::Enter).await;
}

#[tokio::test]
async fn a_pause_with_an_end_is_told_once_on_each_page_and_ended_in_the_banner() {
    // The clocks of program and page differ by 24 hours.
    let env = env().shell("export TZ='<+14>-14'");
    let _instance = env.start();
    let browser = Browser::open(&env).await;
    browser.set_timezone("Pacific/Honolulu").await;
    browser.go("#/queue").await;
    // Without a file and a worker, nothing is wrong.
    let quiet = "document.querySelector('.subsystem > .cause').textContent.includes('no fetcher file in')";
    browser.until("an idle queue", &format!("{} && {quiet} && !{SHOWN}", sign("running"))).await;

    pause(&browser, "soon").await;
    let problem = "document.querySelector('dialog[open] .problem:not([hidden])')?.textContent";
    browser
        .until("the refusal", &format!("{problem}?.startsWith('until = \"soon\": write a duration')"))
        .await;
    let hint = browser.run("return document.querySelector('#until-hint').textContent;").await;
    let hint = hint.as_str().expect("a hint");
    assert!(hint.contains("a time in UTC+14, such as 18:00"), "{hint}");
    assert!(hint.ends_with("This page shows times in Pacific/Honolulu."), "{hint}");
    browser.run("document.querySelector('dialog[open]').close();").await;
    pause(&browser, "2w").await;

    browser.until("the banner", &format!("{SHOWN} && {}", sign("paused"))).await;
    let text = format!("{SHOWN}.innerText.replaceAll(/\\s+/g, ' ')");
    let told = format!(
        "Paused queue/queue_console: {REASON} until \\\\d{{4}}-\\\\d\\\\d-\\\\d\\\\d [\\\\d:]+ pause by .*: moved · since [\\\\d:]+, for "
    );
    browser.until("who, why, since, until", &format!("new RegExp('{told}', 'i').test({text})")).await;
    browser.run("navigator.clipboard.writeText = async (text) => { window.copied = text; };").await;
    browser.run("document.querySelector('.hold .line button').click();").await;
    browser.until("the copied command", "window.copied === 'orchestrator queue resume'").await;
    for scheme in ["light", "dark"] {
        browser.emulate(400, 900, scheme).await;
        let broken = violations(&browser, "the banner of a pause", scheme).await;
        assert!(broken.is_empty(), "{}", broken.join("\n"));
        browser.picture(&format!("hold-{scheme}")).await;
    }
    browser.emulate(1_440, 900, "light").await;

    for (page, state) in [
        ("#/", "document.querySelector('.card[aria-label=queue]').dataset.state"),
        ("#/tree", "document.querySelector('tr[data-path=\"orchestrator/queue\"]').dataset.state"),
        ("#/queue", "document.querySelector('tr[data-path=\"orchestrator/queue\"]').dataset.state"),
    ] {
        browser.go(page).await;
        browser.until(page, &format!("{SHOWN} && {state} === 'paused'")).await;
        let times =
            browser.run(&format!("return document.body.innerText.split('{REASON}').length - 1;")).await;
        assert_eq!(times, json!(1), "{page}");
    }
    browser.run("document.querySelector('.hold button[data-verb=resume]').click();").await;
    browser.until("the dialog", "document.activeElement?.id === 'reason'").await;
    browser.press(Key::Enter).await;
    browser.until("no banner", &format!("!{SHOWN} && {}", sign("running"))).await;
    assert!(env.cli(&["queue", "stats", "--json"]).1.contains("\"paused\": false"));
    browser.go("#/").await;
    let event = "[...document.querySelectorAll('.timeline .event-commanded')].some(e => e.textContent.includes('queue resume'))";
    browser.until("the command in the timeline", event).await;
    // The refused command gives a line in the browser's log.
    browser.close().await;
}

#[tokio::test]
async fn a_paused_child_is_resumed_in_the_banner_of_the_tree() {
    let env = env();
    let _instance = env.start();
    assert_eq!(env.cli(&["pause", "queue/inotify", "--until", "1d"]).0, 0);
    let browser = Browser::open(&env).await;
    browser.go("#/tree").await;
    let help = format!("{SHOWN}?.querySelector('code')?.textContent === 'orchestrator resume queue/inotify'");
    browser.until("the banner", &help).await;
    browser.run("document.querySelector('.hold button[data-verb=resume]').click();").await;
    browser.until("the dialog", "document.activeElement?.id === 'reason'").await;
    browser.press(Key::Enter).await;
    browser.until("no banner", &format!("!{SHOWN}")).await;
    eventually("it to run", || env.node("queue/inotify")["state"] == "running");
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.close().await;
}
