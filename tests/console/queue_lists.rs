//! The lists of the queue's page: tabs with counts, their addresses, keys, the height of the page, sparklines
//! that open.

use fantoccini::key::Key;
use orchestrator_harness::{Instance, Reply, TestEnv, Worker};
use serde_json::json;

use crate::{
    accessibility::violations,
    browser::{Browser, env},
};

/// Rows of each list, as many as a page of a list has.
const ROWS: usize = 20;
/// Maximum height of the page by its width, pixels.
const HEIGHTS: [(u32, u64); 2] = [(1_280, 1_600), (400, 3_500)];
const TABS: [&str; 4] = ["in-flight", "failed", "next", "runs"];
/// JavaScript expressions: texts of the tabs; id and text of the selected one, with the list that is shown;
/// id of the tab with the focus.
const TITLES: &str =
    "[...document.querySelectorAll('.tabbed [role=tab]')].map(tab => tab.textContent).join()";
const SHOWN: &str = "[...document.querySelectorAll('.tabbed [role=tab][aria-selected=true]')].map(tab => tab.id).join() + ' ' + [...document.querySelectorAll('[role=tabpanel]')].filter(panel => panel.offsetHeight > 0).map(panel => panel.getAttribute('aria-labelledby')).join()";
const FOCUS: &str = "document.activeElement.id";
const LISTED: &str = "document.querySelectorAll('[role=tabpanel]:not([hidden]) tbody tr').length";

/// A queue with as many failed jobs, jobs in flight and runs as a list shows, and twice as many that wait.
fn filled(env: &TestEnv) -> (Instance, Vec<Worker>) {
    for run in 0..ROWS {
        let rows: String = (0..4)
            .map(|row| {
                format!("python3Packages.requests_{run}_{row} 1.0 1.{row} https://example.org/{row}\n")
            })
            .collect();
        env.write(&format!("fetcher-{}.{}.txt", run % 5, 1_700_000_000 + run), rows);
    }
    let instance = env.start();
    env.database().expect("SELECT count(*) FROM queue", &["80"]);
    let mut workers = vec![env.worker()];
    let mut reply = workers[0].ready();
    for _ in 1..ROWS {
        reply = workers[0].done(reply.attr_path(), 124);
    }
    reply = workers[0].done(reply.attr_path(), 1);
    assert!(matches!(reply, Reply::Job { .. }), "the first worker has a job");
    for _ in 1..ROWS {
        let mut worker = env.worker();
        assert!(matches!(worker.ready(), Reply::Job { .. }), "each worker has a job");
        workers.push(worker);
    }
    (instance, workers)
}

async fn shows(browser: &Browser, tab: &str) {
    browser.until(tab, &format!("{SHOWN} === 'tab-{tab} tab-{tab}'")).await;
}

#[tokio::test]
async fn lists_are_tabs_with_counts_on_a_short_page() {
    let env = env();
    let _queue = filled(&env);
    let browser = Browser::open(&env).await;
    browser.go("#/").await;
    browser.until("the overview", "document.querySelector('.card')").await;
    browser.go("#/queue").await;
    browser.until("the counts", &format!("{TITLES} === 'In flight 20,Failed 20,Next 40,Runs 20'")).await;
    shows(&browser, "in-flight").await;
    keys_choose_a_tab(&browser).await;
    for tab in TABS {
        browser.go(&format!("#/queue?tab={tab}")).await;
        shows(&browser, tab).await;
        for (width, most) in HEIGHTS {
            browser.emulate(width, 900, "light").await;
            browser.until("the rows", &format!("{LISTED} >= {ROWS}")).await;
            let size = "const page = document.documentElement; return [page.scrollHeight, Math.max(0, page.scrollWidth - innerWidth)];";
            let size = browser.run(size).await;
            assert!(size[0].as_u64() <= Some(most), "{tab}: {size} at {width}");
            assert_eq!(size[1], json!(0), "{tab} at {width}");
        }
    }
    browser.emulate(1_280, 900, "light").await;
    a_sparkline_opens_its_chart(&browser).await;
    browser.go("#/queue?tab=failed").await;
    shows(&browser, "failed").await;
    browser.emulate(1_440, 900, "dark").await;
    let broken = violations(&browser, "failed", "dark").await;
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.close().await;
}

/// Arrows, Home and End move the focus, and Enter selects. Each selection is an entry of the browser's
/// history.
async fn keys_choose_a_tab(browser: &Browser) {
    browser.run("document.querySelector('#tab-in-flight').focus();").await;
    for (key, focus) in [
        (Key::Right, "failed"),
        (Key::End, "runs"),
        (Key::Right, "in-flight"),
        (Key::Left, "runs"),
        (Key::Home, "in-flight"),
        (Key::Right, "failed"),
    ] {
        browser.press(key).await;
        assert_eq!(browser.run(&format!("return {FOCUS};")).await, json!(format!("tab-{focus}")));
    }
    shows(browser, "in-flight").await;
    browser.press(Key::Enter).await;
    shows(browser, "failed").await;
    let stops = "return [...document.querySelectorAll('.tabbed [role=tab]')].filter(tab => tab.tabIndex === 0).length;";
    assert_eq!(browser.run(stops).await, json!(1), "the tabs are one stop of the Tab key");
    browser.click("#tab-next").await;
    browser.until("the address", "location.hash === '#/queue?tab=next'").await;
    shows(browser, "next").await;
    browser.run("history.back();").await;
    shows(browser, "failed").await;
    browser.run("history.back();").await;
    shows(browser, "in-flight").await;
    browser.go("#/queue?tab=unknown").await;
    shows(browser, "in-flight").await;
}

/// All charts are one row below the lists; a press opens one, and another closes it.
async fn a_sparkline_opens_its_chart(browser: &Browser) {
    const ROW: &str = "document.querySelector('[aria-label=\"Charts\"]')";
    const BUTTON: &str = "document.querySelector('[aria-label=\"Charts\"] .sparkline')";
    const OPEN: &str = "[...document.querySelectorAll('.chart')].filter(chart => chart.offsetHeight > 0).map(chart => chart.querySelector('.chart-title').textContent).join()";
    // A page that is opened anew reads the history at once.
    browser.go("#/").await;
    browser.go("#/queue").await;
    browser.until("the sparklines", &format!("{ROW}?.children.length >= 6")).await;
    let tops = format!("return new Set([...{ROW}.children].map(one => one.offsetTop)).size;");
    assert_eq!(browser.run(&tops).await, json!(1), "one row");
    let below = format!(
        "return {ROW}.getBoundingClientRect().top > document.querySelector('.tabbed').getBoundingClientRect().bottom;"
    );
    assert_eq!(browser.run(&below).await, json!(true), "the lists come first");
    for (expanded, open) in [("true", "Jobs handed out"), ("false", "")] {
        browser.run(&format!("{BUTTON}.focus();")).await;
        browser.press(Key::Enter).await;
        assert_eq!(
            browser.run(&format!("return {BUTTON}.getAttribute('aria-expanded');")).await,
            json!(expanded)
        );
        assert_eq!(browser.run(&format!("return {OPEN};")).await, json!(open));
    }
    let controls = format!(
        "return document.getElementById({BUTTON}.getAttribute('aria-controls'))?.classList.contains('chart');"
    );
    assert_eq!(browser.run(&controls).await, json!(true));
}
