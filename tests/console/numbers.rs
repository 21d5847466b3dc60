//! Numbers of the console: units at their borders, what was not measured, charts of what is idle.

use std::fs;

use orchestrator_harness::{FULL_RULE, Instance, TestEnv, eventually, free_port};
use serde_json::{Value, json};

use crate::browser::Browser;

/// JavaScript function body: a number in each unit below and above its border, after rounding.
const FORMATTED: &str = "const done = arguments[0];
    import('/ui/format.js').then(({ bounds, bytes, count, micros }) => done({
      count: [null, 0, 0.04, 0.5, 9999, 10000, 99949, 99950, 999499, 999500, 999950, 1000000, -999950, 999950000, 1000000000, 1.8e19].map(count),
      bytes: [null, 0, 3.3333, 1023, 1024, 1048569, 1048576, 1073741823, 1099511627775].map(bytes),
      micros: [null, 0, 999, 1000, 9949, 9960, 999499, 999600, 1000000, 9960000].map(micros),
      bounds: [0, 1, 32768, 1048576, 134217728].map(bounds),
    }), error => done(String(error)));";

/// All subsystems with a peer, without any peer, and a queue without jobs.
fn alone(env: &TestEnv) -> Instance {
    let file = env.path().join("lists.toml");
    let text = format!(
        "[[ingester]]\nname = \"beamline\"\nlisten = \"127.0.0.1:{}\"\nredis_url = \"redis://127.0.0.1:1/0\"\n\
         [[ingester.stream]]\nname = \"eiger\"\nsource = \"stins\"\nupstream_url = \"tcp://127.0.0.1:1\"\n\
         [[catalog]]\nname = \"lab\"\nbase = \"http://127.0.0.1:1/ermrest/catalog/1\"\namqp = \"\"\n{FULL_RULE}\
         handler = {{ kind = \"command\", argv = [\"/bin/true\"] }}\n",
        free_port()
    );
    fs::write(&file, text).expect("write the configuration");
    let mut command = env.command();
    command.arg("--config").arg(file);
    let instance = Instance::spawn(command);
    eventually("the endpoint", || env.snapshot().is_some());
    instance
}

#[tokio::test]
async fn a_unit_ends_where_rounding_ends_and_what_was_not_measured_has_no_number() {
    let env = crate::browser::env()
        .set("producer.mongodb.uri=mongodb://127.0.0.1:1")
        .set("producer.faktory.url=tcp://127.0.0.1:1");
    let _instance = alone(&env);
    let browser = Browser::open(&env).await;
    browser.go("#/ingester").await;
    let formatted = browser.run_async(FORMATTED).await;
    assert_eq!(
        formatted,
        json!({
            "count": ["–", "0", "0.04", "0.5", "9999", "10k", "99.9k", "100k", "999k", "1.0M", "1.0M", "1M", "−1.0M", "1.0G", "1G", "18E"],
            "bytes": ["–", "0 B", "3.3 B", "1023 B", "1 KiB", "1.0 MiB", "1 MiB", "1.0 GiB", "1.0 TiB"],
            "micros": ["–", "0 µs", "999 µs", "1 ms", "9.9 ms", "10 ms", "999 ms", "1.0 s", "1 s", "10 s"],
            "bounds": ["–", "under 1 µs", "16–33 ms", "524 ms – 1.0 s", "over 67 s"],
        })
    );

    for (page, name) in [
        ("ingester", "Events of the mapping"),
        ("producer", "TCN"),
        ("producer", "In the server"),
        ("catalog", "Candidates"),
    ] {
        browser.go(&format!("#/{page}")).await;
        let value = format!(
            "[...document.querySelectorAll('.subsystem .figure')].find(one => one.querySelector('dt').textContent === '{name}')?.querySelector('.figure-value').textContent"
        );
        let value = browser.until(name, &value).await;
        assert_eq!(value, Value::from("–"), "{name}");
    }
    browser.go("#/queue").await;
    // The chart of an idle queue has a baseline and no scale.
    let chart = "[...document.querySelectorAll('.chart')].find(chart => chart.querySelector('.chart-title').textContent === 'Files followed')";
    browser.until("the chart", &format!("{chart}?.querySelector('.chart-now').textContent === '0'")).await;
    let scale = browser
        .run(&format!("const chart = {chart}; return [chart.querySelector('.chart-top').textContent, chart.querySelector('svg').getAttribute('aria-label'), chart.querySelectorAll('.chart-base').length];"))
        .await;
    assert_eq!(scale, json!(["", "Files followed, now 0", 1]));
    // A child without a mailbox has no messages to count; others have none.
    let cells = "[...document.querySelectorAll('.tree tbody tr')].map(row => ['.name', '.col-depth', '.col-rate'].map(cell => row.querySelector(cell).textContent).join(' '))";
    for line in ["inotify – –", "reader 0/1024 0/s"] {
        browser.until(line, &format!("{cells}.includes('{line}')")).await;
    }

    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.close().await;
}
