//! A tree of 500 children that changes five times a second blocks the page for less than 50 ms at a time.

use std::{
    fs,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use orchestrator_harness::{Instance, TestEnv, eventually, free_port, http};
use serde_json::Value;

use crate::browser::{self, Browser};

const RULES: usize = 490;
/// Reads of the tree in the measured time.
const UPDATES: u64 = 50;
const ROUNDS: usize = 3;
/// Lower bound of updates per second; the page reads at most five times a second.
const RATE_MIN: f64 = 4.0;
/// Shorter than the minimum time between two reads of the tree, which events cause.
const PACE: Duration = Duration::from_millis(100);

/// Starts a catalog with many rules, whose server does not answer.
fn start(env: &TestEnv) -> Instance {
    let mut text = format!(
        "[[catalog]]\nname = \"lab\"\nbase = \"http://127.0.0.1:{}/ermrest/catalog/1\"\namqp = \"\"\npoll_without_notices_secs = 600\n",
        free_port()
    );
    for rule in 0..RULES {
        text += &format!(
            "[[catalog.rule]]\nname = \"rule-{rule}\"\ntable = \"T\"\nfilter = \"state=new\"\nclaim.set = {{ state = \"claimed\" }}\ndone = {{ state = \"done\" }}\nhandler = {{ kind = \"command\", argv = [\"/bin/true\"] }}\n"
        );
    }
    let file = env.path().join("rules.toml");
    fs::write(&file, text).expect("write the configuration");
    let mut command = env.command();
    command.arg("--config").arg(file);
    let instance = Instance::spawn(command);
    instance.await_service(env);
    instance
}

/// Durations of long tasks, in milliseconds, and updates per second.
type Round = (Vec<Value>, f64);

fn is_smooth((long, rate): &Round) -> bool {
    long.is_empty() && *rate >= RATE_MIN
}

/// Measures until the page has read the tree [`UPDATES`] times.
async fn measure(browser: &Browser) -> Round {
    let reads = "performance.getEntriesByType('resource').filter(e => e.name.endsWith('/v1/tree')).length";
    browser
        .run(
            "performance.setResourceTimingBufferSize(10000); performance.clearResourceTimings();
             window.long = []; window.began = performance.now(); window.observer?.disconnect();
             window.observer = new PerformanceObserver(list => window.long.push(...list.getEntries().map(e => Math.round(e.duration))));
             window.observer.observe({ type: 'longtask' });",
        )
        .await;
    browser.until("the updates", &format!("{reads} >= {UPDATES}")).await;
    let measured = browser.run("return [window.long, performance.now() - window.began];").await;
    let long = measured[0].as_array().expect("a list").clone();
    (long, UPDATES as f64 * 1_000.0 / measured[1].as_f64().expect("a duration"))
}

#[tokio::test]
async fn five_updates_a_second_of_500_children_never_block_the_page() {
    let env = browser::env();
    let _instance = start(&env);
    eventually("all rules", || env.snapshot().is_some_and(|tree| tree.all().len() >= 500));
    let browser = Browser::open(&env).await;
    browser.go("#/tree").await;
    browser.click("tr[data-path='orchestrator/catalog/lab/rules'] .toggle").await;
    browser.until("all rows", "document.querySelectorAll('table.tree tbody tr').length >= 500").await;
    let (alive, stop) = channel::<()>();
    let socket = env.admin_socket();
    let commands = thread::spawn(move || {
        for verb in ["pause", "resume"].into_iter().cycle() {
            let url = format!("/v1/actors/catalog/lab/rules/rule-7/{verb}");
            http(&socket, "POST", &url, &["Content-Type: application/json"], "{}");
            if stop.recv_timeout(PACE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    });
    // Another process that takes the processor ends a round; a slow page fails them all.
    let mut rounds = Vec::new();
    while rounds.len() < ROUNDS && !rounds.last().is_some_and(is_smooth) {
        rounds.push(measure(&browser).await);
    }
    drop(alive);
    commands.join().expect("all commands were answered");
    assert!(rounds.last().is_some_and(is_smooth), "long tasks and updates a second: {rounds:?}");
    browser.close().await;
}
