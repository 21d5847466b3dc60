//! The queue's page in use: figures, lists of jobs, bulk commands, and the page of one job.

use std::fs;

use fantoccini::key::Key;
use orchestrator_harness::{Reply, TestEnv, eventually};
use serde_json::{Value, json};

use crate::{
    accessibility::violations,
    browser::{Browser, env},
};

/// JavaScript functions: value of a figure, text of a view, button of a row.
const TEXTS: &str = "const figure = name => [...document.querySelectorAll('.subsystem .figure')].find(f => f.querySelector('dt').textContent === name)?.querySelector('dd').textContent;
     const view = t => document.querySelector(`.subsystem section[aria-label=\"${t}\"]:not([hidden])`);
     const text = t => view(t)?.innerText.replaceAll(/\\s+/g, ' ') ?? '';";

async fn open_tab(browser: &Browser, tab: &str) {
    browser.click(&format!("#tab-{tab}")).await;
    browser.until(tab, &format!("document.querySelector('#panel-{tab}').offsetHeight > 0")).await;
}

async fn shows(browser: &Browser, what: &str, expression: &str) {
    browser.until(what, &format!("(() => {{ {TEXTS} return {expression}; }})()")).await;
}

/// Confirms the open dialog.
async fn confirm(browser: &Browser, about: &str) {
    browser.until("the dialog", "document.querySelector('dialog[open] button.main')").await;
    let text = browser.run("return document.querySelector('dialog[open]').textContent;").await;
    assert!(text.as_str().is_some_and(|text| text.contains(about)), "{text}");
    browser.run("document.querySelector('dialog[open] form').requestSubmit();").await;
    browser.until("the dialog to close", "!document.querySelector('dialog[open]')").await;
}

/// A finished queue of twelve jobs, of which three failed with exit code 124 and one with 3, and one is in
/// flight. The instance is started again, so that nothing of it is in memory.
fn finished(env: &TestEnv) -> orchestrator_harness::Instance {
    env.write("demo.7.txt", (0..12).map(|i| format!("package{i:02} 1.0 1.1\n")).collect::<String>());
    let first = env.start();
    env.database().expect("SELECT count(*) FROM queue", &["12"]);
    let mut worker = env.worker();
    let mut reply = worker.ready();
    for code in [124, 0, 124, 0, 0, 3, 0, 124, 0, 0, 0] {
        reply = worker.done(reply.attr_path(), code);
    }
    assert!(matches!(reply, Reply::Job { .. }), "the last one stays in flight");
    assert_eq!(env.worker().ready(), Reply::NoJobs);
    drop(worker);
    assert!(first.terminate().success());
    env.start()
}

fn audited(env: &TestEnv) -> Vec<Value> {
    let text = fs::read_to_string(env.path().join("audit.jsonl")).expect("the audit log");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn failed_jobs_of_a_finished_queue_are_requeued_by_a_filter() {
    let env = env();
    let audit = env.path().join("audit.jsonl");
    let env = env.set(&format!("admin.audit_file={}", audit.display()));
    let _instance = finished(&env);
    let browser = Browser::open(&env).await;
    browser.set_timezone("Asia/Tokyo").await;
    browser.go("#/queue").await;
    shows(&browser, "a finished queue", "figure('Waiting') === '0' && figure('In flight') === '1'").await;
    // The list of jobs has its own time.
    shows(
        &browser,
        "the age of the count",
        "/^In flight 1 \\d+ s ago$/.test([...document.querySelectorAll('.subsystem .figure')][1].innerText.replaceAll(/\\s+/g, ' '))",
    )
    .await;
    shows(
        &browser,
        "ends of the former process",
        "figure('Done, 24 h') === '7' && figure('Failed, 24 h') === '4'",
    )
    .await;
    shows(
        &browser,
        "an empty backlog",
        "figure('Oldest waiting') === '–' && figure('Time to empty') === 'empty'",
    )
    .await;
    shows(&browser, "the job in flight", "view('Jobs in flight').querySelectorAll('tbody tr').length === 1")
        .await;
    open_tab(&browser, "runs").await;
    shows(&browser, "no row that waits", "text('Backlog by fetcher and age').includes('No job waits.')")
        .await;
    shows(
        &browser,
        "a run without a time",
        "/demo 7 – 12 0 complete/.test(text('Backlog by fetcher and age'))",
    )
    .await;
    open_tab(&browser, "next").await;
    shows(&browser, "nothing next", "text('Next jobs').includes('No job can be handed out now.')").await;
    open_tab(&browser, "failed").await;
    let failed = "view('Failed attempts').querySelectorAll('tbody tr').length";
    shows(&browser, "all failures", &format!("{failed} === 4")).await;
    // Sorted by the exit code, and back in the other direction.
    let code = "view('Failed attempts').querySelector('tbody td:nth-child(2)').textContent";
    for (direction, first) in [("ascending", "3"), ("descending", "124")] {
        browser.run("[...document.querySelectorAll('.job-list[aria-label=\"Failed attempts\"] .sort')].find(b => b.textContent === 'Exit code').click();").await;
        shows(
            &browser,
            direction,
            &format!(
                "view('Failed attempts').querySelector('th[aria-sort={direction}]') && {code} === '{first}'"
            ),
        )
        .await;
    }

    browser.run("document.querySelector('#failed-code').focus();").await;
    browser.type_text("124").await;
    browser.press(Key::Enter).await;
    shows(&browser, "those with the exit code", &format!("{failed} === 3")).await;
    browser.run("document.querySelector('.job-list[aria-label=\"Failed attempts\"] .bulk').click();").await;
    confirm(&browser, "whose last attempt failed with exit code 124").await;
    shows(&browser, "the answer", "text('Failed attempts').includes('3 jobs are available again.')").await;
    let lines = audited(&env);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(
        (&lines[0]["verb"], &lines[0]["args"], &lines[0]["outcome"]),
        (&json!("requeue-all"), &json!({ "state": "failed", "code": 124 }), &json!("ok"))
    );
    eventually("three jobs to wait", || env.cli(&["queue", "stats", "--json"]).1.contains("\"ready\": 3"));

    // One job: its page by the link of a row, and a command in the row.
    let attr = browser
        .run("return document.querySelector('.job-list[aria-label=\"Failed attempts\"] td a').textContent;")
        .await;
    browser
        .run("document.querySelector('.job-list[aria-label=\"Failed attempts\"] [data-verb=bump]').click();")
        .await;
    confirm(&browser, "bump orchestrator/queue/queue_console").await;
    shows(&browser, "the answer", &format!("text('Failed attempts').includes({attr} + ' is next.')")).await;
    browser.click(".job-list[aria-label=\"Failed attempts\"] td a").await;
    job_page(&browser, &env, attr.as_str().expect("a path")).await;
    browser.close().await;
}

/// Checks the page of a job that failed once, waits and is bumped.
async fn job_page(browser: &Browser, env: &TestEnv, attr: &str) {
    let body = "document.querySelector('.job-page .view')?.innerText.replaceAll(/\\s+/g, ' ') ?? ''";
    browser
        .until("the page", &format!("document.querySelector('.job-page h1')?.textContent === '{attr}'"))
        .await;
    for (what, pattern) in [
        ("place and last result", "Waits, place 1; the last attempt ended with exit code 124 at"),
        ("who lists it", "Listed by .* demo 7 \\S.* not handed out"),
        ("its payload", "demo 7 place 1 1.0 1.1"),
        ("its attempt", "Attempts .* \\d\\d:\\d\\d:\\d\\d \\d+ s 124 demo "),
    ] {
        browser.until(what, &format!("/{pattern}/.test({body})")).await;
    }
    let (code, shown, _) = env.cli(&["queue", "show", attr]);
    assert_eq!(code, 0);
    for line in ["listed   in run 7 of demo since ", "waiting  position 1 in run 7 of demo: 1.0 1.1"] {
        assert!(shown.contains(line), "{shown}");
    }
    let (_, answer, _) = env.cli(&["queue", "show", attr, "--json"]);
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let seconds = answer["attempts"][0]["started"].as_u64().expect("a time") + 9 * 3_600;
    let tokyo = format!("{:02}:{:02}:{:02}", seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let cell = "[...document.querySelectorAll('.job-page .scroll')].at(-1).querySelector('td').textContent";
    browser.until("the local time", &format!("{cell}.endsWith('{tokyo}')")).await;
    for scheme in ["light", "dark"] {
        for (size, width) in [("wide", 1_440), ("phone", 400)] {
            browser.emulate(width, 900, scheme).await;
            browser.picture(&format!("job-{size}-{scheme}")).await;
        }
        let broken = violations(browser, "the page of a job", scheme).await;
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }
    let over = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length + Math.max(0, document.documentElement.scrollWidth - innerWidth)";
    assert_eq!(browser.run(&format!("return {over};")).await, json!(0), "at 400 pixels");
    browser.emulate(1_440, 900, "light").await;
    // The browser reports the answer to the next request.
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.go("#/queue/job/no.such%2Fjob").await;
    browser.until("an unknown job", &format!("{body}.includes('does not know this attribute path')")).await;
}
