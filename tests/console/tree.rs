//! All pages load without errors; filter, keys and links of the tree.

use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{Browser, env, pausable};

/// JavaScript expression: number of visible rows.
const ROWS: &str = "document.querySelectorAll('table.tree tbody tr').length";

#[tokio::test]
async fn all_pages_load_without_errors() {
    let env = env();
    let _instance = env.start();
    let browser = Browser::open(&env).await;
    let path = pausable(&env);
    for (page, shown) in [
        ("#/".to_owned(), "document.querySelector('.card .chart-line')?.getAttribute('d') !== null"),
        ("#/tree".to_owned(), "document.querySelectorAll('table.tree tbody tr').length > 8"),
        ("#/queue".to_owned(), "document.querySelectorAll('.subsystem .sparkline').length > 3"),
        (format!("#/tree/{path}?tab=metrics"), "document.querySelectorAll('.drawer .metric').length > 0"),
        ("#/nothing".to_owned(), "document.querySelector('.subsystem .quiet:not([hidden])')"),
        ("#/tree/no/such/child".to_owned(), "document.querySelector('.drawer .quiet:not([hidden])')"),
    ] {
        browser.go(&page).await;
        browser
            .until(
                &page,
                &format!("document.querySelector('#connection').dataset.status === 'live' && {shown}"),
            )
            .await;
    }
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    let weight = browser.run_async(
        "const done = arguments[0]; const names = performance.getEntriesByType('resource').map(e => e.name).filter(n => n.includes('/ui/'));
         Promise.all(names.map(n => fetch(n).then(r => r.text()).then(t => t.length))).then(all => done([all.length, all.reduce((a, b) => a + b, 0)]));",
    );
    let weight = weight.await;
    assert!(weight[0].as_u64() > Some(10) && weight[1].as_u64() < Some(200 * 1024), "{weight}");
    browser.close().await;
}

#[tokio::test]
async fn rows_show_the_arrows_that_a_child_declares() {
    let env = env();
    let _instance = env.start();
    let browser = Browser::open(&env).await;
    browser.go("#/tree").await;
    let label =
        "document.querySelector('[data-path=\"orchestrator/queue/worker_socket\"] .label')?.textContent";
    browser.until("the arrow", &format!("{label} === '→ queue_store'")).await;
    browser.close().await;
}

#[tokio::test]
async fn the_filter_shows_matches_and_their_ancestors() {
    let env = env();
    let _instance = env.start();
    let path = pausable(&env);
    let browser = Browser::open(&env).await;
    browser.go("#/tree").await;
    browser.until("rows", &format!("{ROWS} > 8")).await;
    browser.run("document.querySelector('main').focus();").await;
    browser.type_text("/").await;
    assert_eq!(browser.run("return document.activeElement.id;").await, json!("filter"));
    let id = path.rsplit('/').next().expect("an id");
    browser.type_text(id).await;
    browser.until("the row that fits", "document.querySelectorAll('table.tree tr.matched').length > 0").await;
    let shown = browser
        .run("return [...document.querySelectorAll('table.tree tbody tr')].map(r => r.dataset.path);")
        .await;
    let shown: Vec<&str> = shown.as_array().expect("rows").iter().filter_map(|path| path.as_str()).collect();
    assert!(shown.contains(&path.as_str()) && shown[0] == "orchestrator", "{shown:?}");
    assert!(shown.iter().all(|other| other.contains(id) || path.starts_with(other)), "{shown:?}");
    browser.type_text("no child has this name").await;
    browser.until("no row", &format!("{ROWS} === 0")).await;
    browser.close().await;
}

#[tokio::test]
async fn keys_move_fold_and_open_rows() {
    let env = env();
    let _instance = env.start();
    let browser = Browser::open(&env).await;
    browser.go("#/tree").await;
    browser.until("rows", &format!("{ROWS} > 8")).await;
    let all = browser.run(&format!("return {ROWS};")).await.as_u64();
    browser.run("document.querySelector('table.tree tbody tr').focus();").await;
    browser.press(Key::Left).await;
    browser.until("the root to be folded", &format!("{ROWS} === 1")).await;
    browser.press(Key::Right).await;
    browser.until("the root to be unfolded", &format!("{ROWS} === {}", all.expect("rows"))).await;
    browser.press(Key::Down).await;
    let second = browser.run("return document.activeElement.dataset.path;").await;
    browser.press(Key::Enter).await;
    browser.until("the drawer", "document.querySelector('.drawer:not([hidden]) .path')?.textContent").await;
    let opened = browser.run("return document.querySelector('.drawer .path').textContent;").await;
    assert_eq!(opened, second);
    browser.close().await;
}

#[tokio::test]
async fn a_link_opens_a_child_and_its_tab() {
    let env = env();
    let _instance = env.start();
    let path = pausable(&env);
    let browser = Browser::open(&env).await;
    browser.go(&format!("#/tree/{path}?tab=events")).await;
    browser
        .until(
            "the events",
            "document.querySelector('#tab-events')?.getAttribute('aria-selected') === 'true'",
        )
        .await;
    browser.until("an event", "document.querySelector('.drawer .event-started')").await;
    assert_eq!(browser.run("return document.querySelector('.drawer .path').textContent;").await, json!(path));
    browser.click("#tab-mailbox").await;
    browser.until("the address to follow", "location.hash.endsWith('?tab=mailbox')").await;
    browser.close().await;
}
