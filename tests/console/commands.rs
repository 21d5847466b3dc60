//! Commands from the page, and the timeline of a crash.

use fantoccini::key::Key;
use orchestrator_harness::{Reply, eventually};
use serde_json::json;

use crate::browser::{Browser, env, pausable};

/// Opens the dialog of a command, enters a reason and confirms.
async fn command(browser: &Browser, verb: &str, reason: &str, until: Option<&str>) {
    browser.click(&format!(".drawer .actions button[data-verb={verb}]")).await;
    browser.until("the dialog", "document.querySelector('dialog[open] #reason')").await;
    browser.type_text(reason).await;
    if let Some(until) = until {
        browser.click("dialog[open] #until").await;
        browser.type_text(until).await;
    }
    let lines = browser
        .run(
            "return [...document.querySelectorAll('dialog[open] code')].map(c => c.textContent).join('\\n');",
        )
        .await;
    let lines = lines.as_str().expect("lines");
    assert!(lines.contains(&format!("orchestrator {verb} ")), "{lines}");
    assert_eq!(lines.contains("--until"), until.is_some(), "{lines}");
    assert!(lines.contains(&format!("--reason '{reason}'")) && lines.contains("curl -X POST"), "{lines}");
    browser.press(Key::Enter).await;
    browser.until("the dialog to close", "!document.querySelector('dialog[open]')").await;
}

#[tokio::test]
async fn a_restart_command_restarts_the_child() {
    let env = env();
    let _instance = env.start();
    let path = pausable(&env);
    let browser = Browser::open(&env).await;
    browser.go(&format!("#/tree/{path}?tab=events")).await;
    command(&browser, "restart", "its disk was full", None).await;
    let row = format!("document.querySelector('tr[data-path=\"{path}\"]')");
    browser
        .until(
            "the next incarnation",
            "document.querySelector('.drawer .facts')?.textContent.includes('incarnation 2')",
        )
        .await;
    let marked = format!("{row}.querySelector('.col-restarts[data-some]') !== null");
    assert_eq!(browser.run(&format!("return {marked};")).await, false, "only failures are");
    browser.until("it to run again", &format!("{row}.dataset.state === 'running'")).await;
    let root = "document.querySelector('tr[data-path=orchestrator] .col-restarts').textContent";
    browser.until("no restart after a failure", &format!("{root} === '0'")).await;
    browser
        .until(
            "the reason",
            "document.querySelector('.drawer .event-commanded')?.textContent.includes('its disk was full')",
        )
        .await;
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
async fn pause_and_resume_commands_change_the_state() {
    let env = env();
    let _instance = env.start();
    let path = pausable(&env);
    let short = path.trim_start_matches("orchestrator/").to_owned();
    let browser = Browser::open(&env).await;
    browser.go(&format!("#/tree/{path}?tab=events")).await;
    command(&browser, "pause", "maintenance", Some("2h")).await;
    let row = format!("document.querySelector('tr[data-path=\"{path}\"]')");
    browser
        .until(
            "the badge",
            &format!("{row}.dataset.state === 'paused' && {row}.querySelector('.state-paused')"),
        )
        .await;
    assert_eq!(env.node(&short)["state"], json!("paused"));
    browser.until("the end", "document.querySelector('.drawer').textContent.includes('paused until ')").await;
    browser
        .until("the button that resumes", "document.querySelector('.drawer button[data-verb=resume]')")
        .await;
    // The overview names the command that ends it.
    browser.go("#/").await;
    let help = "document.querySelector('.hold code')?.textContent";
    browser.until("the help", &format!("{help} === 'orchestrator resume {short}'")).await;
    browser.go(&format!("#/tree/{path}?tab=events")).await;
    command(&browser, "resume", "done", None).await;
    browser.until("it to run", &format!("{row}.dataset.state === 'running'")).await;
    browser.go("#/").await;
    let cause = "[...document.querySelectorAll('.cause')].map(c => c.textContent).join('\\n')";
    browser.until("the next cause", &format!("{cause}.includes('queue/reader: no fetcher file in ')")).await;
    // A worker that asks is there.
    assert_eq!(env.worker().ready(), Reply::NoJobs);
    env.write("f.1.txt", "alpha 0 1\n");
    let quiet = "Nothing holds up work: no job since the start; more work waits";
    browser.until("no cause", &format!("{cause}.includes('{quiet}')")).await;
    browser.close().await;
}

#[tokio::test]
async fn a_child_console_shows_its_answer() {
    let env = env();
    let _instance = env.start();
    let browser = Browser::open(&env).await;
    browser.go("#/queue").await;
    browser
        .until(
            "the questions",
            "[...document.querySelectorAll('.view button')].some(b => b.textContent === 'stats')",
        )
        .await;
    browser
        .run("[...document.querySelectorAll('.view button')].find(b => b.textContent === 'stats').click();")
        .await;
    browser
        .until("the counts", "document.querySelector('.view .pairs')?.textContent.includes('ready')")
        .await;
    browser.click(".view button[data-verb=pause]").await;
    browser.until("the dialog", "document.querySelector('dialog[open] #reason')").await;
    browser.type_text("no workers today").await;
    browser.press(Key::Enter).await;
    browser
        .until("the answer", "document.querySelector('.view .pairs')?.textContent.includes('pausedtrue')")
        .await;
    browser.close().await;
}

#[tokio::test]
async fn each_verb_of_a_child_has_a_form() {
    let env = env();
    let _instance = env.start();
    let browser = Browser::open(&env).await;
    browser.go("#/tree/orchestrator/queue/queue_console?tab=console").await;
    browser.until("the verbs", "document.querySelectorAll('#console-verb option').length === 17").await;
    let choose = |verb: &str| {
        format!(
            "const list = document.querySelector('#console-verb'); list.value = '{verb}'; list.dispatchEvent(new Event('change'));"
        )
    };
    browser.run(&choose("peek")).await;
    browser.until("the default", "document.querySelector('#argument-n')?.value === '10'").await;
    browser.click(".console button.main").await;
    browser
        .until("the answer", "document.querySelector('.console [role=status]').textContent === '[]'")
        .await;
    browser.run(&choose("bump")).await;
    browser.click("#argument-attr_path").await;
    browser.type_text("alpha").await;
    browser.click(".console button.main").await;
    // A change is confirmed, and takes no reason if the verb has none.
    browser
        .until("the dialog", "document.querySelector('dialog[open]') && !document.querySelector('#reason')")
        .await;
    browser.press(Key::Enter).await;
    browser
        .until(
            "the refusal",
            "document.querySelector('dialog[open] .problem').textContent.includes('alpha: no such job waits')",
        )
        .await;
    browser.close().await;
}

#[tokio::test]
async fn the_timeline_shows_a_crash_and_the_tree_before_it() {
    let env = env();
    let _instance = env.start();
    let path = pausable(&env);
    let short = path.trim_start_matches("orchestrator/").to_owned();
    let browser = Browser::open(&env).await;
    browser.go("#/").await;
    // A sample of the time before the crash.
    browser.until("the history", "document.querySelector('.timeline .time')?.max > 0").await;
    let before = browser.run_async("const done = arguments[0]; fetch('/v1/history?metric=child_state').then(r => r.json()).then(h => done(h.at_ms[0] ?? 0));").await;
    let before = before.as_u64().filter(|at| *at > 0).expect("a sample");
    env.inject_panic(&short);
    eventually("it to be restarted", || {
        env.node(&short)["restarts"] == 1 && env.node(&short)["state"] == "running"
    });
    browser.until("the mark", "document.querySelector('.timeline .mark-bad')").await;
    browser
        .until(
            "the exit",
            "[...document.querySelectorAll('.timeline .event-exited.bad')].some(e => e.textContent.includes('panicked'))",
        )
        .await;
    let select = format!(
        "const time = document.querySelector('.timeline .time'); time.min = {before}; time.value = {before};
         time.dispatchEvent(new Event('input'));"
    );
    browser.run(&select).await;
    browser.click(".timeline a.button").await;
    browser
        .until(
            "the tree of that time",
            "document.querySelector('.past:not([hidden])')?.textContent.startsWith('The tree at ')",
        )
        .await;
    let row = format!("document.querySelector('tr[data-path=\"{path}\"] .col-restarts').textContent");
    browser.until("no restart yet", &format!("{row} === '0'")).await;
    browser.click(".past a").await;
    browser.until("the restart", &format!("{row} === '1'")).await;
    browser.close().await;
}

#[tokio::test]
async fn a_subsystem_that_was_given_up_is_shown_with_its_next_try_and_can_be_started() {
    let env =
        env().set("provenance.sqlite.path=provenance.db").set("provenance.dead_letters=dead-letters.db");
    let _instance = env.start();
    let browser = Browser::open(&env).await;
    browser.go("#/").await;
    // The second wait is long enough for the page.
    for _ in 0..2 {
        env.exceed_restarts("provenance");
        env.actor_command("provenance", "start");
    }
    env.exceed_restarts("provenance");
    let card = "document.querySelector('.card[aria-label=provenance]')";
    browser
        .until(
            "the card",
            &format!(
                "{card}.dataset.state === 'given_up' && \
                 /given up: panicked: injected panic.*tried again in /s.test(document.querySelector('.hold').innerText)"
            ),
        )
        .await;
    browser.go("#/tree/orchestrator/provenance").await;
    browser
        .until(
            "the next try",
            "document.querySelector('.drawer .facts').textContent.includes('tried again in')",
        )
        .await;
    command(&browser, "start", "the disk is back", None).await;
    let row = "document.querySelector('tr[data-path=\"orchestrator/provenance\"]')";
    // It may count as blocked until it has run for a while.
    browser.until("it to run again", &format!("['blocked', 'running'].includes({row}.dataset.state)")).await;
    eventually("it to run", || env.node("provenance")["state"] == "running");
    assert_eq!(browser.console_errors().await, Vec::<String>::new());
    browser.close().await;
}
