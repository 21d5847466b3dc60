//! Tokens, roles, and pages of other origins.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    thread,
};

use fantoccini::key::Key;
use orchestrator_harness::TestEnv;
use serde_json::json;

use crate::browser::{Browser, env, pausable};

const VIEWER: &str = "viewer-0123456789abcdef";
const OPERATOR: &str = "operator-0123456789abcdef";

pub(crate) fn env_with_tokens() -> TestEnv {
    let env = env();
    let tokens = env.path().join("tokens");
    fs::write(&tokens, format!("viewer eve {VIEWER}\noperator bob {OPERATOR}\n")).expect("write a file");
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).expect("chmod a file of ours");
    env.set(&format!("admin.tokens_file={}", tokens.display()))
}

async fn enter(browser: &Browser, token: &str) {
    browser.until("the question for a token", "document.querySelector('dialog[open] #token')").await;
    browser.run("document.querySelector('#token').focus();").await;
    browser.type_text(token).await;
    browser.press(Key::Enter).await;
}

#[tokio::test]
async fn a_viewer_sees_what_reads_and_no_action_and_commands_are_refused() {
    let env = env_with_tokens();
    let _instance = env.start();
    let path = pausable(&env);
    let browser = Browser::open(&env).await;
    browser.go(&format!("#/tree/{path}")).await;
    enter(&browser, "not-a-token-at-all-00000").await;
    browser
        .until("it to be refused", "document.querySelector('#token-why')?.textContent.includes('is unknown')")
        .await;
    enter(&browser, VIEWER).await;
    browser
        .until(
            "the tree",
            "document.body.dataset.role === 'viewer' && document.querySelector('.drawer .facts')",
        )
        .await;
    let actions = "return [...document.querySelectorAll('button[data-verb]')].map(e => e.outerHTML);";
    assert_eq!(browser.run(actions).await, json!([]));
    browser.go("#/tree/queue/queue_console?tab=console").await;
    browser.until("the verbs", "document.querySelectorAll('#console-verb option').length > 0").await;
    let verbs = "return [...document.querySelectorAll('#console-verb option')].map(one => one.value);";
    let reading = json!([
        "explain",
        "failed",
        "failures",
        "in-flight",
        "instances",
        "ls",
        "peek",
        "show",
        "stale",
        "stats"
    ]);
    assert_eq!(browser.run(verbs).await, reading, "those that only read");
    let ask = "const verb = document.querySelector('#console-verb');
        verb.value = 'failed';
        verb.dispatchEvent(new Event('change'));
        verb.form.requestSubmit();";
    browser.run(ask).await;
    browser.until("the answer", "document.querySelector('.console [role=status]').textContent !== ''").await;
    assert_eq!(env.cli(&["queue", "pause", "--reason", "moved"]).0, 0);
    browser.go("#/queue").await;
    browser.until("why it is paused", "document.querySelector('.hold').innerText.includes('moved')").await;
    browser.until("the page", "document.querySelectorAll('.subsystem .sparkline').length > 0").await;
    browser.until("the search", "document.querySelector('.subsystem form.search')?.offsetParent").await;
    // The queue is empty. A viewer sees its figures and lists, without commands for their rows.
    let list =
        |title: &str| format!("document.querySelector('.job-list[aria-label=\"{title}\"]').textContent");
    for (title, text) in [
        ("Failed attempts", "No attempt has failed."),
        ("Jobs in flight", "No job is in flight."),
        ("Next jobs", "No job can be handed out now."),
    ] {
        browser.until(title, &format!("{}.includes('{text}')", list(title))).await;
    }
    let figures = "[...document.querySelectorAll('.subsystem .figure-value')].map(f => f.textContent).join()";
    browser.until("the figures", &format!("{figures} === '0,0,0,0,–,empty'")).await;
    let buttons =
        "return document.querySelectorAll('.subsystem button[data-verb], .bulk:not([hidden])').length;";
    assert_eq!(browser.run(buttons).await, json!(0));
    let refused = format!(
        "const done = arguments[0]; const token = sessionStorage.getItem('orchestrator-token');
         fetch('/v1/actors/{path}/restart', {{ method: 'POST', headers: {{ Authorization: `Bearer ${{token}}` }} }})
             .then(r => done(r.status));"
    );
    assert_eq!(browser.run_async(&refused).await, json!(403));
    assert_eq!(env.node(path.trim_start_matches("orchestrator/"))["restarts"], json!(0));
    browser.close().await;
}

#[tokio::test]
async fn an_operator_enters_a_token_once() {
    let env = env_with_tokens();
    let _instance = env.start();
    let path = pausable(&env);
    let browser = Browser::open(&env).await;
    browser.go("#/").await;
    enter(&browser, OPERATOR).await;
    browser.until("the role", "document.body.dataset.role === 'operator'").await;
    browser.go(&format!("#/tree/{path}")).await;
    browser.until("the actions", "document.querySelector('.drawer button[data-verb=restart]')").await;
    browser.run("document.querySelector('.drawer button[data-verb=restart]').click();").await;
    let line = browser.run("return document.querySelector('dialog[open] .lines').textContent;").await;
    let line = line.as_str().expect("lines");
    assert!(line.contains("Bearer $TOKEN") && !line.contains(OPERATOR), "{line}");
    browser.close().await;
}

#[tokio::test]
async fn a_page_of_another_origin_can_neither_read_nor_command() {
    let env = env();
    let _instance = env.start();
    let path = pausable(&env);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let other = listener.local_addr().expect("its address");
    let server = thread::spawn(move || {
        // Serves the page only, not the icon.
        for stream in listener.incoming().take(1) {
            let mut stream = stream.expect("a connection");
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).expect("a request");
            let page = "<!doctype html><title>other</title><p>another site";
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                page.len()
            );
            stream.write_all(format!("{head}{page}").as_bytes()).expect("it takes the page");
        }
    });
    let browser = Browser::open(&env).await;
    browser.visit(&format!("http://{other}/")).await;
    server.join().expect("the other site");
    let ours = env.admin_tcp();
    let attack = format!(
        "const done = arguments[0];
         const ask = (url, options) => fetch(`http://{ours}${{url}}`, options).then(r => `${{r.type}} ${{r.status}}`, () => 'failed');
         Promise.all([
             ask('/v1/tree', {{}}),
             ask('/v1/actors/{path}/restart', {{ method: 'POST', mode: 'no-cors', body: '{{}}' }}),
             ask('/v1/actors/{path}/restart', {{ method: 'POST', headers: {{ 'Content-Type': 'application/json' }}, body: '{{}}' }}),
         ]).then(done);"
    );
    assert_eq!(browser.run_async(&attack).await, json!(["failed", "failed", "failed"]));
    let short = path.trim_start_matches("orchestrator/");
    assert_eq!(env.node(short)["restarts"], json!(0));
    assert!(env.metric("admin", "refused_origin") >= 2);
    let framed = format!(
        "const frame = document.createElement('iframe'); frame.src = 'http://{ours}/';
         frame.onload = () => arguments[0](frame.contentDocument === null); document.body.append(frame);"
    );
    assert_eq!(browser.run_async(&framed).await, json!(true));
    let console_errors = browser.console_errors().await.join("\n");
    assert!(console_errors.contains("frame-ancestors"), "{console_errors}");
    browser.close().await;
}
