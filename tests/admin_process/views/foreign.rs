//! The commands against an endpoint that is none of ours: whatever it says, a terminal is safe and lines of ours stay lines.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    thread,
};

use orchestrator_supervise::is_escaped;
use serde_json::{Value, json};

/// Clears the screen, sets the title, colours, forges a line, and turns the direction of what follows.
const ODD: &str =
    "x\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\n\rFORGED line\u{202e}\u{2066}\u{200b}\u{7f}\u{0}\u{feff}";

/// A server that answers each request by `answer`, which gets its method and path.
fn server(answer: impl Fn(&str, &str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    // It ends with the test.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that went away has seen enough.
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
        "path": path, "id": id, "label": ODD, "kind": ODD, "state": ODD, "stuck": false, "restart": ODD, "strategy": ODD,
        "intensity": 1, "period_ms": 1, "pausable": false, "console": true, "arbiter": ODD, "incarnation": most,
        "started_ms": most, "restarts": most, "budget_left": 1,
        "last_exit": { "kind": ODD, "reason": ODD, "at_ms": most, "in_progress": ODD },
        "mailboxes": [
            { "name": ODD, "depth": most, "capacity": 1, "high_water": 1, "refused": 0, "handled": most, "purged": 0,
              "messages": [{ "name": ODD, "count": most, "wait_us": [1, 1, most], "handling_us": [1, 2, most] }] },
            { "name": ODD, "depth": most, "capacity": 1, "high_water": 1, "refused": 0, "handled": most, "purged": 0, "messages": [] },
        ],
        "in_progress": { "name": ODD, "for_ms": most }, "stale": 0,
        "link": { "kind": ODD, "endpoint": ODD, "state": ODD, "attempts": 3, "since_ms": most, "reason": ODD, "retry_in_ms": most },
        "note": { "text": ODD, "at_ms": most },
        "metrics": [{ "name": ODD, "unit": ODD, "kind": "gauge", "value": i64::MAX, "label": { "name": ODD, "value": ODD } }],
        "children": children,
    })
}

fn tree() -> Value {
    let child = node(&format!("o/{ODD}"), ODD, &json!([]));
    json!({ "seq": 3, "captured_at_ms": 1, "uptime_ms": u64::MAX, "root": node("o", "o", &json!([child])) })
}

/// An answer of any console.
fn status() -> Value {
    json!({
        ODD: ODD, "catalog": ODD, "base": ODD, "agent": ODD, "paused": ODD, "phase": ODD, "stencil": ODD, "blocked_by": [ODD],
        "no_headroom": { ODD: ODD }, "away": { ODD: ODD }, "tcn": 1, "requeued": 1,
        "rules": { ODD: { "phase": ODD, "reason": ODD, "unsettled": [ODD], "would_claim": [ODD] } },
        "presence": { "name": ODD, "url": ODD, "mapping_uuid": ODD, "orchestrator": { "streams": { ODD: { "items": ODD } } } },
        "workers": [{ "worker": ODD, "connected": ODD }],
    })
}

fn answer(_: &str, path: &str) -> String {
    if path.starts_with("/v1/events") {
        let event = |seq: u64| {
            let fields = json!({ "seq": seq, "at_ms": u64::MAX, "path": "o", "event": "exited", "incarnation": 1, "reason": ODD, ODD: ODD });
            let unknown = json!({ "seq": seq, "at_ms": 1, "path": "o", "event": ODD, "x": ODD });
            let data = if seq == 2 { unknown } else { fields };
            format!("id: {seq}\nevent: {ODD}\ndata: {data}\n\n").replace(&format!("event: {ODD}\n"), "")
        };
        return reply("200 OK", "text/event-stream", &[event(1), event(2), event(3)].concat());
    }
    let rows = json!([{ "fetcher": ODD, ODD: ODD }]);
    let body = match path {
        path if path.starts_with("/v1/tree") => tree(),
        path if path.ends_with("/ls") || path.ends_with("/peek") => rows,
        path if path.contains("/consoles/") => status(),
        _ => json!({ "path": ODD, "verb": ODD, "before": ODD, "after": ODD }),
    };
    reply("200 OK", "application/json", &body.to_string())
}

const COMMANDS: [&[&str]; 17] = [
    &["tree"],
    &["tree", "--json"],
    &["top", "--once", "--interval", "0.1"],
    &["top", "--once", "--interval", "0.1", "--json"],
    &["tail", "--no-follow"],
    &["tail", "--no-follow", "--json"],
    &["graph"],
    &["restart", "o"],
    &["restart", "o", "--json"],
    &["queue", "ls"],
    &["queue", "stats"],
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
fn what_a_foreign_endpoint_says_is_escaped() {
    let url = server(answer);
    for arguments in COMMANDS {
        let (code, out, err) = run(&url, arguments);
        assert_eq!(code, 0, "{arguments:?}: {out:?} {err:?}");
        assert!(is_safe(&out) && is_safe(&err), "{arguments:?}: {out:?} {err:?}");
        assert!(out.contains("FORGED line"), "{arguments:?} shows it: {out}");
        if arguments.contains(&"--json") {
            let documents = serde_json::Deserializer::from_str(&out).into_iter::<Value>();
            let same = documents.map(|one| one.expect("JSON")).any(|one| holds(&one));
            assert!(same, "{arguments:?}: the value is the same: {out}");
        }
    }
}

/// Is `ODD`, unchanged, in it?
fn holds(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(ODD),
        Value::Array(list) => list.iter().any(holds),
        Value::Object(map) => map.values().any(holds),
        _ => false,
    }
}

#[test]
fn its_refusals_and_its_nonsense_are_escaped() {
    let refusal = json!({ "error": "refused", "message": ODD }).to_string();
    let nonsense = format!("{{\"{ODD}\": 1}}");
    let bodies =
        [("409 Conflict", refusal), ("200 OK", nonsense), ("200 OK", json!({ ODD: ODD }).to_string())];
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
fn what_an_operator_types_is_escaped_too() {
    for arguments in
        [&["tree", "\u{1b}[2J\u{9b}\n"][..], &["\u{1b}[2J\n\u{202e}"], &["check", "--set", "\u{1b}[2J=\n1"]]
    {
        let (code, out, err) = run("http://127.0.0.1:9", arguments);
        assert!(code != 0 && is_safe(&out) && is_safe(&err), "{arguments:?}: {out:?} {err:?}");
    }
}
