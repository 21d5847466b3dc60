//! Layout of all pages in several sizes and both color schemes, with screenshots if
//! `ORCHESTRATOR_SCREENSHOTS` is set.

use serde_json::json;

use crate::{
    browser::{self, Browser, child_with_work},
    busy::{BusyEnv, until_page},
    roles::env_with_tokens,
};

/// Screen: name, width, height and color scheme, which has no effect on the layout.
type Screen = (&'static str, u32, u32, &'static str);

const SCREENS: [Screen; 4] = [
    ("wide", 1440, 900, "light"),
    ("narrow", 320, 720, "light"),
    ("large", 3840, 2160, "light"),
    ("wide", 1440, 900, "dark"),
];

/// Checks width and colors of the shown page. Saves a screenshot of its whole height, if wanted.
async fn check(browser: &Browser, name: &str, (size, width, height, scheme): Screen) {
    let over = browser.run("return document.documentElement.scrollWidth - window.innerWidth;").await;
    assert!(over.as_i64() <= Some(0), "{name} is {over} pixels wider than a {size} screen");
    let ground = browser.run("return getComputedStyle(document.body).backgroundColor;").await;
    assert_eq!(ground == json!("rgb(15, 20, 24)"), scheme == "dark", "{name}: {ground}");
    // Texts that are cut off can be read by scrolling, except in these elements.
    let cut = browser
        .run(
            "return [...document.querySelectorAll('button, .button, .connection, .banner, h1, h2, .chart-title, .chart-now, .sparkline, #nav a, .flow-box, .arrow-text, .heat a')]
                 .filter(e => e.offsetParent && (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && getComputedStyle(e).display !== 'inline'))
                 .map(e => e.outerHTML.slice(0, 120));",
        )
        .await;
    assert_eq!(cut, json!([]), "{name} on a {size} screen");
    if width <= 400 {
        // Rows of tables are blocks there.
        let cut = browser
            .run(
                "return [...document.querySelectorAll('.panel .scroll, .view .scroll')]
                     .filter(e => e.offsetParent && !e.querySelector('.heat-map') && e.scrollWidth > e.clientWidth)
                     .map(e => e.getAttribute('aria-label'));",
            )
            .await;
        assert_eq!(cut, json!([]), "tables of {name} on a {size} screen");
    }
    if !browser::takes_pictures() {
        return;
    }
    let whole = browser.run("return document.documentElement.scrollHeight;").await;
    let whole = whole.as_u64().and_then(|high| u32::try_from(high).ok()).unwrap_or(height);
    browser.emulate(width, whole.clamp(height, 4_000), scheme).await;
    browser.picture(&format!("{name}-{size}-{scheme}")).await;
    browser.emulate(width, height, scheme).await;
}

#[tokio::test]
async fn no_page_is_wider_than_the_screen() {
    let busy = BusyEnv::shared();
    let path = child_with_work(&busy.env);
    let browser = Browser::open(&busy.env).await;
    let pages = [
        ("overview", "#/".to_owned()),
        ("tree", "#/tree".to_owned()),
        ("drawer", format!("#/tree/{path}?tab=mailbox")),
        ("drawer-metrics", format!("#/tree/{path}?tab=metrics")),
        ("queue", "#/queue".to_owned()),
        ("queue-failed", "#/queue?tab=failed".to_owned()),
        ("queue-runs", "#/queue?tab=runs".to_owned()),
        ("job", "#/queue/job/githubPackages.p1-7".to_owned()),
        ("provenance", "#/provenance".to_owned()),
        ("ingester", "#/ingester".to_owned()),
        ("producer", "#/producer".to_owned()),
        ("catalog", "#/catalog".to_owned()),
    ];
    for screen in SCREENS {
        browser.emulate(screen.1, screen.2, screen.3).await;
        for (name, hash) in &pages {
            until_page(&browser, hash).await;
            check(&browser, name, screen).await;
        }
    }
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
async fn the_token_form_and_the_dialog_of_a_command_fit_the_screen() {
    let tokens = env_with_tokens();
    let open = browser::env();
    let _instances = (tokens.start(), open.start());
    let browser = Browser::open(&tokens).await;
    browser.go("#/").await;
    browser.until("the form", "document.querySelector('dialog[open] #token')").await;
    for screen in SCREENS {
        browser.emulate(screen.1, screen.2, screen.3).await;
        check(&browser, "token", screen).await;
    }
    browser.close().await;
    let browser = Browser::open(&open).await;
    until_page(&browser, &format!("#/tree/{}", child_with_work(&open))).await;
    browser.click(".drawer button[data-verb=restart]").await;
    for screen in SCREENS {
        browser.emulate(screen.1, screen.2, screen.3).await;
        check(&browser, "command", screen).await;
    }
    browser.close().await;
}

#[tokio::test]
async fn the_banner_fits_the_screen() {
    let env = browser::env();
    let instance = env.start();
    let browser = Browser::open(&env).await;
    until_page(&browser, "#/").await;
    instance.kill_nine();
    browser.until("the banner", "document.querySelector('#banner:not([hidden])')").await;
    for screen in SCREENS {
        browser.emulate(screen.1, screen.2, screen.3).await;
        check(&browser, "banner", screen).await;
    }
    browser.close().await;
}
