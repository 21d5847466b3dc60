//! Layout of all pages in several sizes and both color schemes, with screenshots.

use orchestrator_harness::TestEnv;
use serde_json::json;

use crate::browser::{Browser, child_with_work, env};

/// Environment with several subsystems, some of them without their servers.
pub(crate) fn env_with_subsystems() -> TestEnv {
    let env = env();
    let [rows, letters] = ["provenance.db", "dead-letters.db"].map(|name| env.path().join(name));
    env.set("provenance.transport=embedded")
        .set(&format!("provenance.sqlite.path={}", rows.display()))
        .set(&format!("provenance.dead_letters={}", letters.display()))
        .set("producer.mongodb.uri=mongodb://127.0.0.1:1")
        .set("producer.mongodb.database=knots")
        .set("producer.mongodb.stencils=stencils")
        .set("producer.mongodb.tangles=tangles")
}

#[tokio::test]
async fn no_page_is_wider_than_the_screen() {
    let env = env_with_subsystems();
    env.write("f.1.txt", (0..500).map(|i| format!("pkgs.a{i} 0 1\n")).collect::<String>());
    let _instance = env.start();
    let mut worker = env.worker();
    for _ in 0..100 {
        worker.ready();
    }
    let path = child_with_work(&env);
    let browser = Browser::open(&env).await;
    let pages = [
        ("overview", "#/".to_owned(), "document.querySelectorAll('.card').length > 2"),
        ("tree", "#/tree".to_owned(), "document.querySelectorAll('table.tree tbody tr').length > 12"),
        ("drawer", format!("#/tree/{path}?tab=mailbox"), "document.querySelector('.drawer .chart')"),
        (
            "queue",
            "#/queue".to_owned(),
            "document.querySelectorAll('.subsystem .chart:not([hidden])').length > 3",
        ),
        ("provenance", "#/provenance".to_owned(), "document.querySelectorAll('.heat').length === 80"),
        (
            "producer",
            "#/producer".to_owned(),
            "document.querySelectorAll('.subsystem .chart:not([hidden])').length > 2",
        ),
    ];
    let sizes = [("wide", 1440, 900), ("narrow", 320, 720), ("large", 3840, 2160)];
    for scheme in ["light", "dark"] {
        for (size, width, height) in sizes {
            browser.emulate(width, height, scheme).await;
            for (name, hash, shown) in &pages {
                browser.go(hash).await;
                browser.until(name, shown).await;
                let over =
                    browser.run("return document.documentElement.scrollWidth - window.innerWidth;").await;
                assert!(over.as_i64() <= Some(0), "{name} is {over} pixels wider than a {size} screen");
                let ground = browser.run("return getComputedStyle(document.body).backgroundColor;").await;
                assert_eq!(ground == json!("rgb(15, 20, 24)"), scheme == "dark", "{name}: {ground}");
                if size != "large" {
                    let whole = browser.run("return document.documentElement.scrollHeight;").await;
                    let whole = whole.as_u64().and_then(|high| u32::try_from(high).ok()).unwrap_or(height);
                    browser.emulate(width, whole.clamp(height, 4_000), scheme).await;
                    browser.picture(&format!("{name}-{size}-{scheme}")).await;
                    browser.emulate(width, height, scheme).await;
                }
            }
        }
    }
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.close().await;
}
