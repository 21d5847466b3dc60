//! The search field of every page, and the page of one item.

use fantoccini::key::Key;

use crate::{
    accessibility::violations,
    browser::{Browser, env},
};

/// JavaScript expression: text of the shown page.
const TEXT: &str = "document.querySelector('.item-page')?.innerText.replaceAll(/\\s+/g, ' ') ?? ''";

async fn search(browser: &Browser, name: &str) {
    browser.click("#search input").await;
    browser.type_text(name).await;
    browser.press(Key::Enter).await;
}

async fn shows(browser: &Browser, text: &str) {
    browser.until(text, &format!("{TEXT}.includes(`{text}`)")).await;
}

#[tokio::test]
async fn an_item_is_found_from_each_page_and_its_page_follows_it() {
    let env = env();
    env.write("demo.1.txt", "alpha/one 0 1\nbravo 2 3\n");
    let _instance = env.start();
    env.database().expect("SELECT is_complete FROM fetcher_runs", &["1"]);
    let browser = Browser::open(&env).await;
    browser.go("#/tree").await;
    search(&browser, "bravo").await;
    shows(&browser, "waits at position").await;
    shows(&browser, "no worker has asked").await;
    assert_eq!(browser.run("return location.hash;").await, "#/item/bravo");

    let mut worker = env.worker();
    let first = worker.ready();
    let second = worker.done(first.attr_path(), 3);
    worker.done(second.attr_path(), 3);
    shows(&browser, "failed with exit code 3").await;
    browser.click(".item-page a[href='#/queue/job/bravo']").await;
    browser.until("the rows of the job", "document.querySelector('.job-page h2')").await;

    // A name may have slashes, and markup of others is text.
    search(&browser, "alpha/one").await;
    shows(&browser, "job queue/alpha/one failed with exit code 3").await;
    search(&browser, "<b>bravos").await;
    shows(&browser, "Nothing is known of <b>bravos.").await;
    search(&browser, "bravoo").await;
    shows(&browser, "Did you mean one of these?").await;
    shows(&browser, "queue/queue_console searched 1 fetchers: demo").await;
    let mut broken = Vec::new();
    for scheme in ["light", "dark"] {
        browser.emulate(320, 900, scheme).await;
        let over = browser.run("return document.documentElement.scrollWidth - innerWidth;").await;
        assert_eq!(over, 0, "pixels too wide");
        broken.extend(violations(&browser, "an unknown item", scheme).await);
    }
    browser.emulate(1440, 900, "light").await;
    browser.click(".item-page a[href='#/item/queue/bravo']").await;
    shows(&browser, "failed with exit code 3").await;
    broken.extend(violations(&browser, "an item", "light").await);
    assert_eq!(broken, [] as [String; 0]);
    assert_eq!(browser.console_errors().await, [] as [String; 0]);
    browser.close().await;
}
