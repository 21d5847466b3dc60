//! The rules of axe-core on all pages, the forms and the banner, in light and dark mode.

use std::{fs, path::Path};

use crate::{
    browser::{Browser, env, pausable},
    busy::{BusyEnv, PAGES, until_page},
    roles::env_with_tokens,
};

const AXE: &str = "target/peers/axe/node_modules/axe-core/axe.min.js";
const SCHEMES: [&str; 2] = ["light", "dark"];

/// Violated rules on the shown page, with the elements.
pub(crate) async fn violations(browser: &Browser, page: &str, scheme: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(AXE);
    let axe = fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}: ./tests/run installs axe-core", file.display()));
    browser.run(&axe).await;
    let found = browser
        .run_async(
            "const done = arguments[0];
             axe.run().then(r => done(r.violations.map(v => `${v.id} (${v.impact}): ${v.nodes.map(n => n.html.slice(0, 160) + ' ' + n.any.map(c => c.message).join('; ')).slice(0, 4).join(' | ')}`)));",
        )
        .await;
    let found = found.as_array().expect("a list").iter();
    found.map(|rule| format!("{page} {scheme}: {}", rule.as_str().unwrap_or("?"))).collect()
}

#[tokio::test]
async fn every_page_passes_the_axe_rules() {
    let busy = BusyEnv::shared();
    let path = pausable(&busy.env);
    let browser = Browser::open(&busy.env).await;
    let tabs = ["mailbox", "events", "metrics", "exits"].map(|tab| format!("#/tree/{path}?tab={tab}"));
    let mut broken = Vec::new();
    for scheme in SCHEMES {
        browser.emulate(1440, 900, scheme).await;
        for page in PAGES.into_iter().chain(tabs.iter().map(String::as_str)) {
            until_page(&browser, page).await;
            broken.extend(violations(&browser, page, scheme).await);
        }
        browser.click(".drawer button[data-verb=restart]").await;
        broken.extend(violations(&browser, "the dialog of a command", scheme).await);
        browser.run("document.querySelector('dialog[open]').close();").await;
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    browser.close().await;
}

#[tokio::test]
async fn the_token_form_and_the_banner_pass_the_axe_rules() {
    let tokens = env_with_tokens();
    let open = env();
    let (_first, second) = (tokens.start(), open.start());
    let browser = Browser::open(&tokens).await;
    browser.go("#/").await;
    browser.until("the form", "document.querySelector('dialog[open] #token')").await;
    let mut broken = Vec::new();
    for scheme in SCHEMES {
        browser.emulate(1440, 900, scheme).await;
        broken.extend(violations(&browser, "the token form", scheme).await);
    }
    browser.close().await;
    let browser = Browser::open(&open).await;
    until_page(&browser, "#/").await;
    second.kill_nine();
    browser.until("the banner", "document.querySelector('#banner:not([hidden])')").await;
    for scheme in SCHEMES {
        browser.emulate(1440, 900, scheme).await;
        broken.extend(violations(&browser, "the banner", scheme).await);
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    browser.close().await;
}
