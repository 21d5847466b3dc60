//! Names and reasons with HTML are shown as text.

use std::fs;

use orchestrator_harness::{Instance, TestEnv, ZmtpPeer, eventually, http, wait_for};
use serde_json::json;

use crate::browser::Browser;

const NAME: &str = "<img src=x onerror=window.hacked=1>";

#[tokio::test]
async fn html_in_a_name_is_shown_as_text() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let port = orchestrator_harness::free_port();
    let config = env.path().join("ingester.toml");
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\nunix_socket = \"{socket}\"\n\
         [[ingester]]\nname = \"eiger\"\nlisten = \"127.0.0.1:{port}\"\nredis_url = \"redis://127.0.0.1:1/0\"\n\
         [[ingester.stream]]\nname = \"{NAME}\"\nsource = \"stins\"\nupstream_url = \"tcp://127.0.0.1:1\"\n",
        socket = env.admin_socket().display(),
    );
    fs::write(&config, text).expect("write the configuration");
    let mut command = env.bare_command();
    command.args(["run", "--config"]).arg(&config);
    let _instance = Instance::spawn(command);
    eventually("the endpoint to answer", || env.cli(&["tree"]).0 == 0);
    let reason = json!({ "reason": NAME }).to_string();
    http(
        &env.admin_socket(),
        "POST",
        "/v1/actors/ingester/restart",
        &["Content-Type: application/json"],
        &reason,
    );
    let mut worker = wait_for("the workers' port", || ZmtpPeer::connect(port, "DEALER", NAME).ok());
    worker.send(&[&[7; 16]]).expect("a ping");
    let browser = Browser::open(&env).await;
    for (page, shown) in [
        ("#/", "[...document.querySelectorAll('.event-text')].some(e => e.textContent.includes(NAME))"),
        ("#/tree", "[...document.querySelectorAll('.label')].some(e => e.textContent === NAME)"),
        (
            "#/ingester",
            "[...document.querySelectorAll('.view[aria-label=Workers] td')].some(e => e.textContent === NAME)",
        ),
        (
            "#/tree/orchestrator/ingester?tab=events",
            "[...document.querySelectorAll('.event-text')].some(e => e.textContent.includes(NAME))",
        ),
    ] {
        browser.go(page).await;
        let shown = shown.replace("NAME", &json!(NAME).to_string());
        browser.until(&format!("the name at {page}"), &shown).await;
        assert_eq!(
            browser.run("return document.querySelectorAll('main img').length;").await,
            json!(0),
            "{page}"
        );
        assert_eq!(browser.run("return window.hacked ?? null;").await, json!(null), "{page}");
    }
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.close().await;
}
