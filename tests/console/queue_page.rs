//! The page of `orchestrator queue export`, opened as a file: 100,000 jobs, search, order, pages, foreign
//! text, width.

use std::fs;

use orchestrator_harness::{TestEnv, eventually};
use serde_json::json;

use crate::{
    accessibility::violations,
    browser::{Browser, env},
};

const FOREIGN: &str = "</script><img/src=x/onerror=window.hacked=1>";
const ROWS: usize = 100_000;
/// Rows with paths and payloads of a usual length.
const USUAL: usize = 60;
/// JavaScript function body: pixels by which the page is too wide, and broken words that are short or have
/// room on one line of their cell.
const BROKEN: &str = "
    const found = [];
    const over = document.documentElement.scrollWidth - innerWidth;
    if (over > 0) found.push(`${over} pixels too wide`);
    for (const cell of document.querySelectorAll('th, td')) {
      const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
      const style = getComputedStyle(cell);
      const room = cell.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      for (let text = texts.nextNode(); text; text = texts.nextNode()) {
        for (const word of text.data.matchAll(/[^\\s-]+/g)) {
          const range = document.createRange();
          range.setStart(text, word.index);
          range.setEnd(text, word.index + word[0].length);
          const parts = [...range.getClientRects()].filter(part => part.width > 0);
          const wide = parts.reduce((sum, part) => sum + part.width, 0);
          if (new Set(parts.map(part => Math.round(part.top))).size > 1 && wide <= Math.max(room, 120)) found.push(word[0]);
        }
      }
    }
    return found.slice(0, 5);";

/// Searches for a text, or shows all rows.
async fn search(browser: &Browser, text: &str) {
    let field = "document.querySelector('#search')";
    browser.run(&format!("{field}.value = '{text}'; {field}.dispatchEvent(new Event('input'));")).await;
}

/// Checks the page with rows of a usual length at three widths, and saves screenshots.
async fn no_word_with_room_is_broken(browser: &Browser) {
    search(browser, "requests").await;
    browser
        .until("rows of a usual length", &format!("document.querySelectorAll('tbody tr').length === {USUAL}"))
        .await;
    for (width, scheme) in [(320, "light"), (400, "dark"), (1_280, "light"), (1_280, "dark")] {
        browser.emulate(width, 900, scheme).await;
        assert_eq!(browser.run(BROKEN).await, json!([]), "at {width} pixels");
        browser.picture(&format!("queue-page-{width}-{scheme}")).await;
    }
    // On a phone rows are paragraphs, and the table is not wider than its box.
    browser.emulate(320, 900, "light").await;
    let over = "const box = document.querySelector('.scroll'); return box.scrollWidth - box.clientWidth;";
    assert_eq!(browser.run(over).await, json!(0));
    search(browser, "").await;
    browser.emulate(1_440, 900, "light").await;
}

/// Writes the page and returns its address.
fn export(env: &TestEnv) -> String {
    let database = format!("queue.database={}", env.database_path().display());
    let log_url = "https://logs.example/{attr_path}/{date}.log";
    let arguments = ["queue", "export", "--html", "page", "--log-url", log_url, "--set", &database];
    let (code, out, err) = env.cli(&arguments);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    format!("file://{}", env.path().join("page/index.html").display())
}

#[tokio::test]
async fn the_exported_page_is_searched_sorted_and_paged_without_a_server() {
    let env = env();
    let mut lines = format!("{FOREIGN} <b>1</b>\n");
    lines.extend(
        (1..=USUAL).map(|i| format!("python3Packages.requests_{i} 1.0 1.{i} https://example.org/{i}\n")),
    );
    lines.extend((USUAL + 1..ROWS).map(|i| format!("package{i:06} 1.{i}\n")));
    fs::write(env.file("demo.1.txt"), lines).expect("a fetcher file");
    let _instance = env.start();
    eventually("all rows are read", || {
        let (_, out, _) = env.cli(&["queue", "stats", "--json"]);
        out.contains(&format!("\"ready\": {ROWS}")) || out.contains(&format!("\"ready\":{ROWS}"))
    });
    let (_, _, err) = env.cli(&["queue", "bump", FOREIGN]);
    assert_eq!(err, "");
    let mut worker = env.worker();
    assert_eq!(worker.ready().attr_path(), FOREIGN);
    worker.done(FOREIGN, 3);
    let url = export(&env);
    let browser = Browser::open(&env).await;
    browser.visit(&url).await;
    let first = "document.querySelector('tbody td')?.textContent";
    let texts = |nth: usize| {
        format!("[...document.querySelectorAll('tbody tr')].map(r => r.children[{nth}].textContent).join()")
    };
    browser.until("a table", first).await;
    no_word_with_room_is_broken(&browser).await;
    assert_eq!(browser.run("return document.querySelectorAll('tbody tr').length;").await, json!(100));
    let positions = browser.run(&format!("return {};", texts(4))).await;
    assert!(positions.as_str().is_some_and(|text| text.starts_with("1,2,3,")), "{positions}");
    assert_eq!(
        browser.run("return document.querySelector('#page').textContent;").await,
        json!("Page 1 of 1,000")
    );
    browser.click("#next").await;
    let positions = browser.run(&format!("return {};", texts(4))).await;
    assert!(positions.as_str().is_some_and(|text| text.starts_with("101,102,")), "{positions}");

    // Text of a job is text, wherever it is shown.
    browser.run("document.querySelector('#search').focus();").await;
    browser.type_text("onerror <b>").await;
    browser.until("the job", &format!("{first} === {}", json!(FOREIGN))).await;
    assert_eq!(browser.run("return document.querySelectorAll('img, td b').length;").await, json!(0));
    assert_eq!(browser.run("return window.hacked ?? null;").await, json!(null));

    // The only job with a result, with a link to its log.
    search(&browser, "").await;
    let header = "[...document.querySelectorAll('th button')].find(b => b.textContent === 'Last result')";
    browser.run(&format!("({header}).click();")).await;
    browser
        .until("the failed job", "document.querySelector('tbody td.failed')?.textContent === 'exit 3 log'")
        .await;
    assert_eq!(
        browser.run("return document.querySelector('th[aria-sort]').textContent;").await,
        json!("Last result")
    );
    let link = browser.run("return document.querySelector('tbody a').href;").await;
    let link = link.as_str().expect("a link");
    let encoded = "https://logs.example/%3C%2Fscript%3E%3Cimg%2Fsrc%3Dx%2Fonerror%3Dwindow.hacked%3D1%3E/";
    assert!(link.starts_with(encoded) && link.ends_with(".log"), "{link}");

    let slowest = browser
        .run(
            "const times = [];
             for (const button of document.querySelectorAll('th button')) {
               const begun = performance.now();
               button.click();
               times.push(performance.now() - begun);
             }
             return Math.max(...times);",
        )
        .await;
    assert!(slowest.as_f64().is_some_and(|millis| millis < 5_000.0), "{slowest} ms");
    for scheme in ["light", "dark"] {
        browser.emulate(1440, 900, scheme).await;
        let broken = violations(&browser, "the exported page", scheme).await;
        assert!(broken.is_empty(), "{}", broken.join("\n"));
        browser.picture(&format!("queue-page-{scheme}")).await;
    }
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.close().await;
}
