//! Client commands against a foreign endpoint: control characters in its responses are escaped and forge no
//! line.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
};

use orchestrator_harness::PtyProgram;
use orchestrator_text::is_escaped;
use serde_json::{Value, json};

/// Text that clears the screen, sets the title and colors, forges a line, and reverses the text direction.
const HOSTILE_TEXT: &str =
    "x\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\n\rFORGED line\u{202e}\u{2066}\u{200b}\u{7f}\u{0}\u{feff}";

/// Starts a server that answers each request with `answer(method, path)`. Returns its URL.
fn server(answer: impl Fn(&str, &str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    // The thread ends with the test process.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The client may close the connection early.
            let _ = serve(stream, &answer);
        }
    });
    url
}

fn serve(mut stream: TcpStream, answer: &impl Fn(&str, &str) -> String) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    std::io::Read::read_exact(&mut reader, &mut vec![0; length])?;
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    stream.write_all(answer(method, path).as_bytes())
}

fn reply(status: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn node(path: &str, id: &str, children: &Value) -> Value {
    let most = u64::MAX;
    json!({
        "path": path, "id": id, "label": HOSTILE_TEXT, "kind": HOSTILE_TEXT, "state": HOSTILE_TEXT, "stuck": false, "restart": HOSTILE_TEXT, "strategy": HOSTILE_TEXT,
        "intensity": 1, "period_ms": 1, "pausable": false, "console": true, "arbiter": HOSTILE_TEXT, "incarnation": most,
        "started_ms": most, "restarts": most, "budget_left": 1,
        "last_exit": { "kind": HOSTILE_TEXT, "reason": HOSTILE_TEXT, "at_ms": most, "in_progress": HOSTILE_TEXT },
        "mailboxes": [
            { "name": HOSTILE_TEXT, "depth": most, "capacity": 1, "high_water": 1, "refused": 0, "handled": most, "purged": 0,
              "messages": [{ "name": HOSTILE_TEXT, "count": most, "wait_us": [1, 1, most], "handling_us": [1, 2, most] }] },
            { "name": HOSTILE_TEXT, "depth": most, "capacity": 1, "high_water": 1, "refused": 0, "handled": most, "purged": 0, "messages": [] },
        ],
        "in_progress": { "name": HOSTILE_TEXT, "for_ms": most },
        "waits": [{ "on": HOSTILE_TEXT, "kind": HOSTILE_TEXT, "count": most, "blocks": true, "for_ms": most }],
        "link": { "kind": HOSTILE_TEXT, "endpoint": HOSTILE_TEXT, "state": HOSTILE_TEXT, "attempts": 3, "since_ms": most, "reason": HOSTILE_TEXT, "retry_in_ms": most },
        "note": { "text": HOSTILE_TEXT, "at_ms": most },
        "metrics": [{ "name": HOSTILE_TEXT, "unit": HOSTILE_TEXT, "kind": "gauge", "value": i64::MAX, "label": { "name": HOSTILE_TEXT, "value": HOSTILE_TEXT } }],
        "children": children,
    })
}

fn tree() -> Value {
    let child = node(&format!("o/{HOSTILE_TEXT}"), HOSTILE_TEXT, &json!([]));
    json!({ "seq": 3, "captured_at_ms": 1, "uptime_ms": u64::MAX, "root": node("o", "o", &json!([child])) })
}

fn causes() -> Value {
    let cause = json!({
        "kind": HOSTILE_TEXT, "path": HOSTILE_TEXT, "text": HOSTILE_TEXT, "since_ms": 1, "evidence": [HOSTILE_TEXT],
        "help": HOSTILE_TEXT,
    });
    json!({ "at_ms": u64::MAX, "subsystems": [{ "path": HOSTILE_TEXT, "causes": [cause] }] })
}

fn crashes() -> Value {
    let event = json!({ "seq": 1, "at_ms": 1, "path": HOSTILE_TEXT, "event": "exited", "incarnation": 1, "reason": HOSTILE_TEXT });
    let samples =
        json!({ "at_ms": [1, 2], "series": [{ "metric": HOSTILE_TEXT, "values": [i64::MIN, i64::MAX] }] });
    let report = json!({
        "number": u64::MAX, "at_ms": u64::MAX, "path": HOSTILE_TEXT, "incarnation": u64::MAX, "kind": HOSTILE_TEXT, "message": HOSTILE_TEXT,
        "location": HOSTILE_TEXT, "in_progress": HOSTILE_TEXT, "events": [event], "samples": samples,
        "backtrace": [HOSTILE_TEXT], "left_out": [HOSTILE_TEXT],
    });
    json!({ "crashes": [report], "left_out": u64::MAX })
}

/// Answer of the console at the request's `path`.
fn console(path: &str) -> Value {
    const H: &str = HOSTILE_TEXT;
    if path.contains("/producer/") {
        return json!({
            H: H, "phase": H, "stencil": H, "blocked_by": [H], "no_headroom": { H: H }, "away": { H: H }, "tcn": 1, "links": [H],
        });
    }
    if path.contains("/catalog/") {
        let rule = json!({ "phase": H, "reason": H, "unsettled": [H], "would_claim": [H] });
        return json!({
            "catalog": H, "base": H, "agent": H, "paused": [H], "notices": { "up": true, "count": 1, "since_secs": 1 },
            "rules": { H: rule },
        });
    }
    if path.contains("/ingester/") {
        let state = json!({
            "service_uuid": H, "mapping_uuid": H, "dranspose_version": H, "mapreduce_version": null, "parameters_hash": H,
            "processed_events": 1, "event_rate": 0.5, "name": H, "url": H, "connected_workers": {}, "streams": [H],
            "orchestrator": { "streams": { H: { "items": 1 } } },
        });
        let worker = json!({
            "worker": H, "connected": true, "events": 1, "bytes": 1, "queued_messages": 1, "queued_bytes": 1,
            "spilled_bytes": 1, "oldest_ms": null,
        });
        return json!({ "state": state, "pending_requests": false, "workers": [worker] });
    }
    let waiting = json!({
        "fetcher": H, "run_started": 1, "payload": H, "position": 1, "held_until": null, "limited": false,
    });
    json!({ "attr_path": H, "waiting": [waiting], "in_flight": null, "attempts": [] })
}

fn answer(_: &str, path: &str) -> String {
    if path.starts_with("/v1/events") {
        let event = |seq: u64| {
            let fields = json!({ "seq": seq, "at_ms": u64::MAX, "path": "o", "event": "exited", "incarnation": 1, "reason": HOSTILE_TEXT, HOSTILE_TEXT: HOSTILE_TEXT });
            let unknown =
                json!({ "seq": seq, "at_ms": 1, "path": "o", "event": HOSTILE_TEXT, "x": HOSTILE_TEXT });
            let data = if seq == 2 { unknown } else { fields };
            format!("id: {seq}\nevent: {HOSTILE_TEXT}\ndata: {data}\n\n")
                .replace(&format!("event: {HOSTILE_TEXT}\n"), "")
        };
        return reply("200 OK", "text/event-stream", &[event(1), event(2), event(3)].concat());
    }
    let rows = json!([{
        "fetcher": HOSTILE_TEXT, "run_started": 1, "complete": true, "rows": 1, "deleted": false, HOSTILE_TEXT: HOSTILE_TEXT,
    }]);
    let body = match path {
        path if path.starts_with("/v1/tree") => tree(),
        path if path.starts_with("/v1/why") => causes(),
        path if path.starts_with("/v1/crashes") => crashes(),
        path if path.starts_with("/v1/history") => json!({ "at_ms": [], "series": [] }),
        path if path.ends_with("/ls") || path.ends_with("/peek") => rows,
        path if path.contains("/consoles/") => console(path),
        _ => {
            json!({ "path": HOSTILE_TEXT, "verb": HOSTILE_TEXT, "before": HOSTILE_TEXT, "after": HOSTILE_TEXT })
        }
    };
    reply("200 OK", "application/json", &body.to_string())
}

const COMMANDS: [&[&str]; 21] = [
    &["tree"],
    &["tree", "--json"],
    &["why"],
    &["why", "--json"],
    &["crashes"],
    &["crashes", "--json"],
    &["top", "--once", "--interval", "0.1"],
    &["top", "--once", "--interval", "0.1", "--json"],
    &["tail", "--no-follow"],
    &["tail", "--no-follow", "--json"],
    &["graph"],
    &["restart", "o"],
    &["restart", "o", "--json"],
    &["queue", "ls"],
    &["queue", "show", "a"],
    &["queue", "peek", "--json"],
    &["producer", "status"],
    &["producer", "status", "--json"],
    &["ingester", "status"],
    &["catalog", "status"],
    &["catalog", "status", "--json"],
];

fn run(url: &str, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_orchestrator"))
        .env_remove("ORCHESTRATOR_SOCKET")
        .args(arguments)
        .args(["--url", url])
        .output()
        .expect("run the program");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn is_safe(text: &str) -> bool {
    !text.chars().any(|c| c != '\n' && is_escaped(c)) && !text.lines().any(|line| line.starts_with("FORGED"))
}

#[test]
fn foreign_response_text_is_escaped() {
    let url = server(answer);
    for arguments in COMMANDS {
        let (code, out, err) = run(&url, arguments);
        assert_eq!(code, 0, "{arguments:?}: {out:?} {err:?}");
        assert!(is_safe(&out) && is_safe(&err), "{arguments:?}: {out:?} {err:?}");
        assert!(out.contains("FORGED line"), "{arguments:?} hides the text: {out}");
        if arguments.contains(&"--json") {
            let documents = serde_json::Deserializer::from_str(&out).into_iter::<Value>();
            let same = documents.map(|one| one.expect("JSON")).any(|one| holds(&one));
            assert!(same, "{arguments:?} changes the value: {out}");
        }
    }
}

#[test]
fn foreign_response_text_is_escaped_on_a_terminal() {
    let url = server(answer);
    let mut command = Command::new(env!("CARGO_BIN_EXE_orchestrator"));
    command.args(["top", "--interval", "0.1", "--url", &url]);
    let top = PtyProgram::start(&command, 160, 50);
    top.await_printed("two frames", |printed| printed.matches("\x1b[J").count() > 1);
    let printed = top.printed();
    assert!(printed.contains("\\u{1b}[2J") && printed.contains("FORGED"), "{printed}");
    let (frames, _) = printed.rsplit_once("\x1b[J").expect("a frame");
    let text = ["\x1b[H", "\x1b[K", "\x1b[J", "\r"]
        .iter()
        .fold(frames.to_owned(), |text, own| text.replace(own, ""));
    assert!(is_safe(&text), "{text}");
}

/// Returns true if `value` contains `HOSTILE_TEXT` unchanged.
fn holds(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(HOSTILE_TEXT),
        Value::Array(list) => list.iter().any(holds),
        Value::Object(map) => map.values().any(holds),
        _ => false,
    }
}

#[test]
fn foreign_error_responses_and_malformed_json_are_escaped() {
    let refusal = json!({ "error": "refused", "message": HOSTILE_TEXT }).to_string();
    let nonsense = format!("{{\"{HOSTILE_TEXT}\": 1}}");
    let bodies = [
        ("409 Conflict", refusal),
        ("200 OK", nonsense),
        ("200 OK", json!({ HOSTILE_TEXT: HOSTILE_TEXT }).to_string()),
    ];
    for (status, body) in bodies {
        let url = server(move |_, _| reply(status, "application/json", &body));
        for arguments in [
            &["tree"][..],
            &["tail", "--no-follow"],
            &["restart", "o"],
            &["queue", "ls"],
            &["catalog", "status"],
        ] {
            let (code, out, err) = run(&url, arguments);
            assert!(code != 0 && out.is_empty(), "{arguments:?}: {code} {out:?}");
            assert!(is_safe(&err) && err.lines().count() == 1, "{arguments:?}: {err:?}");
        }
    }
}

#[test]
fn command_line_arguments_are_escaped() {
    for arguments in
        [&["tree", "\u{1b}[2J\u{9b}\n"][..], &["\u{1b}[2J\n\u{202e}"], &["check", "--set", "\u{1b}[2J=\n1"]]
    {
        let (code, out, err) = run("http://127.0.0.1:9", arguments);
        assert!(code != 0 && is_safe(&out) && is_safe(&err), "{arguments:?}: {out:?} {err:?}");
    }
}

/// Each value of a reply takes 16 to 60 times its bytes when it is read.
#[test]
fn a_reply_of_very_many_values_is_refused() {
    const BYTES: usize = 60 << 20;
    let url = server(|_, _| reply("200 OK", "application/json", &format!("[{}0]", "0,".repeat(BYTES / 2))));
    for arguments in [&["tree"][..], &["queue", "ls", "--json"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orchestrator"));
        command.args(arguments).args(["--url", &url]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = command.spawn().expect("the binary runs");
        let mut peak = 0;
        while running.try_wait().expect("a child").is_none() {
            let status =
                std::fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            peak = line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(peak);
            thread::yield_now();
        }
        let output = running.wait_with_output().expect("it has ended");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("more than 4000000 values"), "{text}");
        assert!(peak < 300 << 10, "{arguments:?}: {peak} KiB");
    }
}
