//! The page shows a lost connection and reconnects by itself.

use serde_json::json;

use crate::browser::{Browser, env};

#[tokio::test]
async fn the_page_reconnects_after_a_kill() {
    // A fixed port, so that the page finds the second instance.
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let env = env().set(&format!("admin.listen=127.0.0.1:{port}"));
    let first = env.start();
    let browser = Browser::open(&env).await;
    browser.go("#/tree").await;
    browser.until("the page", "document.querySelector('#connection').dataset.status === 'live'").await;
    first.kill_nine();
    browser
        .until(
            "the banner",
            "document.querySelector('#banner:not([hidden])')?.textContent.includes('Connection lost')",
        )
        .await;
    let _second = env.start();
    browser
        .until("the page to go on", "document.querySelector('#connection').dataset.status === 'live'")
        .await;
    browser
        .until("the news", "document.querySelector('#banner').textContent.includes('was restarted')")
        .await;
    browser
        .until("events of the new program", "document.querySelectorAll('table.tree tbody tr').length > 8")
        .await;
    assert_eq!(
        browser.run("return document.querySelectorAll('tr[data-state=running]').length > 8;").await,
        json!(true)
    );
    browser.close().await;
}
