//! The rules of axe-core on all pages, in light and dark mode.

use std::{fs, path::Path};

use crate::{
    browser::{Browser, pausable},
    layout::env_with_subsystems,
};

const AXE: &str = "target/peers/axe/node_modules/axe-core/axe.min.js";

#[tokio::test]
async fn every_page_passes_the_axe_rules() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(AXE);
    let axe = fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}: ./tests/run installs axe-core", file.display()));
    let env = env_with_subsystems();
    let _instance = env.start();
    let path = pausable(&env);
    let browser = Browser::open(&env).await;
    let tabs = ["mailbox", "events", "metrics", "exits"].map(|tab| format!("#/tree/{path}?tab={tab}"));
    let pages = ["#/", "#/tree", "#/queue", "#/provenance", "#/producer"].map(str::to_owned);
    let mut broken = Vec::new();
    for scheme in ["light", "dark"] {
        browser.emulate(1440, 900, scheme).await;
        for page in pages.iter().chain(&tabs) {
            browser.go(page).await;
            browser.until(page, "document.querySelector('#connection').dataset.status === 'live'").await;
            browser.until(page, "document.querySelector('main h1, .drawer:not([hidden]) h2')").await;
            if page == &pages[1] {
                browser.run("document.querySelector('tbody tr').click();").await;
                browser.click(".drawer button[data-verb=restart]").await;
            }
            browser.run(&axe).await;
            let found = browser
                .run_async(
                    "const done = arguments[0];
                     axe.run().then(r => done(r.violations.map(v => `${v.id} (${v.impact}): ${v.nodes.map(n => n.html.slice(0, 160) + ' ' + n.any.map(c => c.message).join('; ')).slice(0, 4).join(' | ')}`)));",
                )
                .await;
            browser.run("document.querySelector('dialog[open]')?.close();").await;
            for rule in found.as_array().expect("a list") {
                broken.push(format!("{page} {scheme}: {}", rule.as_str().unwrap_or("?")));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    browser.close().await;
}
