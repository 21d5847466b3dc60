//! The pictures of README, made from the running program.

use orchestrator_harness::Picture;

use crate::{
    browser::Browser,
    busy::{BusyEnv, until_page},
};

/// Pages by picture.
const PICTURES: [(&str, &str); 3] = [
    ("images/console.png", "#/"),
    ("images/ingester.png", "#/ingester"),
    ("images/queue.png", "#/queue?tab=failed"),
];
/// Width, and most of the height, in pixels.
const SIZE: (u32, u32) = (1_440, 1_100);
/// JavaScript expression: charts and timeline show something, and so do arrows to workers.
const HAS_HISTORY: &str = "/up ([4-9]\\d s|\\d+ min)/.test(document.querySelector('#connection').textContent)
    && [...document.querySelectorAll('.arrow-text')].filter(rates => rates.textContent.startsWith('0 B')).length < 2";

#[tokio::test]
async fn the_pictures_of_the_pages_are_made_anew() {
    let busy = BusyEnv::shared();
    let browser = Browser::open(&busy.env).await;
    browser.emulate(SIZE.0, SIZE.1, "light").await;
    for (path, page) in PICTURES {
        until_page(&browser, page).await;
        browser.until("a history", HAS_HISTORY).await;
        let whole = browser.run("return document.documentElement.scrollHeight;").await;
        let height = whole.as_u64().and_then(|high| u32::try_from(high).ok()).unwrap_or(SIZE.1);
        browser.emulate(SIZE.0, height.min(SIZE.1), "light").await;
        Picture::renew(path, &browser.screenshot().await);
        browser.emulate(SIZE.0, SIZE.1, "light").await;
    }
    browser.close().await;
}
