//! The page of `queue export` (CONTRACT QX12) on the real binary.

use std::{
    fs,
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use orchestrator_harness::{Instance, TestEnv, eventually, wait_for};
use serde_json::{Value, json};

use crate::site;

const LOG_URL: &str = "https://logs.example/{attr_path}/{date}.log";

/// Embedded data of a page, or None if the page is not whole.
fn data(page: &str) -> Option<Value> {
    let (_, rest) = page.strip_suffix("</html>\n")?.split_once("id=\"data\">")?;
    serde_json::from_str(rest.split_once("</script>")?.0).ok()
}

/// Arguments of an export of the site's database into `page`.
fn arguments(site: &TestEnv) -> Vec<String> {
    let database = format!("queue.database={}", site.database_path().display());
    ["queue", "export", "--html", "page", "--log-url", LOG_URL, "--set", &database]
        .map(str::to_owned)
        .to_vec()
}

/// Exports once and returns the page's text and its data.
fn exported(site: &TestEnv) -> (String, Value) {
    let arguments = arguments(site);
    let (code, out, err) = site.cli(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let page = fs::read_to_string(site.path().join("page/index.html")).expect("the page");
    let data = data(&page).expect("a whole page");
    (page, data)
}

/// Values of a column of the rows, by its name.
fn column(data: &Value, name: &str) -> Vec<Value> {
    let at = data["columns"].as_array().and_then(|names| names.iter().position(|other| other == name));
    let rows = data["rows"].as_array().expect("rows").iter();
    rows.map(|row| row[at.expect("a column")].clone()).collect()
}

#[test]
fn x11_the_page_shows_what_the_queue_would_answer_also_while_it_is_stopped() {
    let site = site();
    let lines: String = (0..30).map(|i| format!("path{i:02} 0 {i}\n")).collect();
    site.write("demo.1.txt", lines);
    let instance = site.start();
    site.database().expect("SELECT is_complete FROM fetcher_runs", &["1"]);
    let order = |site: &TestEnv| -> Value {
        let (_, out, _) = site.cli(&["queue", "peek", "-n", "40", "--json"]);
        serde_json::from_str::<Vec<Value>>(&out)
            .expect("JSON")
            .iter()
            .map(|job| job["attr_path"].clone())
            .collect()
    };
    let (_, before) = exported(&site);
    assert_eq!(json!(column(&before, "attr_path")), order(&site));
    assert_eq!(column(&before, "position"), (1..=30).collect::<Vec<_>>());
    assert_eq!((&before["secs_per_job"], &before["log_url"]), (&Value::Null, &json!(LOG_URL)));

    let mut worker = site.worker();
    let failed = worker.ready().attr_path().to_owned();
    let mut running = worker.done(&failed, 3).attr_path().to_owned();
    for _ in 0..10 {
        running = worker.done(&running, 0).attr_path().to_owned();
    }
    let (page, after) = wait_for("a second since the first hand-out", || {
        let (page, data) = exported(&site);
        data["secs_per_job"].as_f64().is_some_and(|secs| secs > 0.0).then_some((page, data))
    });
    let paths = column(&after, "attr_path");
    assert_eq!(json!(paths[..18]), order(&site), "waiting jobs come first, in their order");
    let of = |path: &str, name: &str| {
        column(&after, name)[paths.iter().position(|other| other == path).expect("it is listed")].clone()
    };
    let states =
        [&failed, &running].map(|path| (of(path, "state"), of(path, "exit_code"), of(path, "attempts")));
    assert_eq!(states, [(json!(4), json!(3), json!(1)), (json!(3), Value::Null, json!(1))]);
    assert!(
        page.contains("Waiting jobs: 18,") && page.contains("Jobs in progress: 1."),
        "{}",
        &page[..2_000]
    );
    assert!(!page.contains("pid "), "no name of a connection");

    let (_, _, err) = site.cli(&["queue", "pause"]);
    assert_eq!(err, "");
    let (page, paused) = exported(&site);
    assert!(page.contains("Hand-outs are paused.") && paused["secs_per_job"].is_null());
    assert_eq!(instance.terminate().code(), Some(0));
    assert_eq!(exported(&site).1["rows"], after["rows"], "while the program is stopped");
    let _again = site.start();
    assert_eq!(exported(&site).1["rows"], after["rows"]);
}

#[test]
fn x11_readers_and_kills_see_whole_pages_only() {
    let site = site();
    let lines: String = (0..20_000).map(|i| format!("path{i} 0 {}\n", "x".repeat(100))).collect();
    site.write("demo.1.txt", lines);
    let _instance = site.start();
    site.database().expect("SELECT is_complete FROM fetcher_runs", &["1"]);
    let start = || {
        let mut command = site.bare_command();
        command.args(arguments(&site)).args(["--every", "1s"]).stdout(Stdio::null());
        Instance::spawn(command)
    };
    let (page, done) = (site.path().join("page/index.html"), AtomicBool::new(false));
    let read = || fs::read_to_string(&page).ok();
    let exporter = start();
    let first = wait_for("a page", read);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !done.load(Relaxed) {
                        let page = read().expect("a page is there at any time");
                        assert!(data(&page).is_some_and(|data| {
                            data["rows"].as_array().is_some_and(|rows| rows.len() == 20_000)
                        }));
                    }
                })
            })
            .collect();
        let version = wait_for("a second page", || read().filter(|page| *page != first));
        let (code, _, err) = site.cli(&arguments(&site).iter().map(String::as_str).collect::<Vec<_>>());
        assert!(code != 0 && err.contains("another export writes to page"), "{err}");
        exporter.kill_nine();
        for _ in 0..5 {
            // Killed as soon as it writes.
            let exporter = start();
            eventually("the next page is being written", || {
                Path::new(&site.path().join("page/.index.html.tmp")).exists()
            });
            exporter.kill_nine();
        }
        let exporter = start();
        eventually("a page of the last exporter", || read().is_some_and(|page| page != version));
        drop(exporter);
        done.store(true, Relaxed);
        readers.into_iter().for_each(|reader| reader.join().expect("whole pages"));
    });
}

#[test]
fn x11_what_cannot_be_exported_is_told() {
    let site = site();
    let fails = |extra: &[&str]| {
        let (code, _, err) = site.cli(&[&["queue", "export", "--html", "page"], extra].concat());
        assert_ne!(code, 0, "{err}");
        err
    };
    let error = fails(&["--set", "queue.database=missing.db"]);
    assert!(error.contains("cannot read the queue from missing.db"), "{error}");
    let error = fails(&["--log-url", "javascript:{attr_path}"]);
    assert!(error.contains("it begins with none of https://"), "{error}");
    fs::write(site.path().join("file"), "").expect("a file");
    let (code, _, error) = site.cli(&["queue", "export", "--html", "file"]);
    assert!(code != 0 && error.contains("cannot write the page to file"), "{error}");
}
