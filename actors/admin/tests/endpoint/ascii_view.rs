//! Expected texts of the tree.

use orchestrator_admin::ascii::render;
use orchestrator_subsystem::wire::TreeSnapshot;
use serde_json::{Value, json};

fn node(path: &str, kind: &str, state: &str, more: Value) -> Value {
    let mut node = json!({
        "path": path, "id": path.rsplit('/').next(), "kind": kind, "state": state, "stuck": false,
        "restart": "permanent", "pausable": false, "console": false, "incarnation": 1, "started_ms": 1_000_000,
        "restarts": 0, "budget_left": 5, "mailboxes": [], "metrics": [], "children": [],
    });
    node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    node
}

fn mailbox(name: &str, depth: u32, refused: u32) -> Value {
    json!({ "name": name, "depth": depth, "capacity": 1024, "high_water": depth, "refused": refused,
            "handled": 9, "purged": 0, "messages": [] })
}

fn snapshot() -> TreeSnapshot {
    let exit = json!({ "kind": "panicked", "reason": "panicked: index out\nof bounds", "at_ms": 1_050_000, "in_progress": "PushJobs" });
    let link = |state: &str, reason: Value, attempts: Value, retry: Value| {
        json!({ "kind": "inotify", "endpoint": "var/fetchers", "state": state, "reason": reason,
                "attempts": attempts, "retry_in_ms": retry })
    };
    let queue = vec![
        node(
            "o/queue/queue_console",
            "actor",
            "running",
            json!({ "mailboxes": [mailbox("mailbox", 0, 0)], "note": { "text": "a row is refused: too long", "at_ms": 1_191_000 } }),
        ),
        node(
            "o/queue/queue_store",
            "thread",
            "running",
            json!({
                "incarnation": 3, "restarts": 2, "last_exit": exit, "stuck": true,
                "in_progress": { "name": "commit group", "for_ms": 12_345 },
                "mailboxes": [mailbox("requests", 1024, 7), mailbox("batches", 2, 0)],
            }),
        ),
        node(
            "o/queue/fetcher_watcher",
            "actor",
            "paused",
            json!({ "label": "fetchers", "link": link("down", json!("no such directory"), Value::Null, json!(4000)) }),
        ),
        node(
            "o/queue/inotify",
            "task",
            "backing_off",
            json!({ "link": link("connecting", Value::Null, json!(3), Value::Null) }),
        ),
        node("o/queue/wedged", "task", "running", json!({ "stuck": true, "arbiter": "workers" })),
    ];
    let root = node(
        "o",
        "supervisor",
        "running",
        json!({
            "children": [node("o/queue", "supervisor", "running", json!({ "children": queue })),
                         node("o/admin", "task", "running", json!({ "link": link("up", Value::Null, Value::Null, Value::Null) }))],
        }),
    );
    let whole = json!({ "seq": 7, "captured_at_ms": 1_192_000, "uptime_ms": 192_000, "root": root });
    serde_json::from_value(whole).unwrap()
}

#[test]
fn the_tree_is_formatted() {
    let expected = "\
CHILD                             STATE        RESTARTS    AGE  MAILBOX             LINK AND NOTES
o                                 running             0  3m12s
├─ queue                          running             0  3m12s
│  ├─ queue_console               running             0  3m12s  0/1024              1s ago: a row is refused: too long
│  ├─ queue_store                 stuck               2  3m12s  1024/1024 requests  stuck in commit group for 12s; 7 refused; last exit 2m22s ago in PushJobs: panicked: index out of bounds
│  ├─ fetcher_watcher (fetchers)  paused              0  3m12s                      inotify down: no such directory (again in 4s)
│  ├─ inotify                     backing_off         0                             inotify connecting (try 3)
│  └─ wedged                      stuck               0  3m12s                      stuck: arbiter workers is blocked
└─ admin                          running             0  3m12s                      inotify up
";
    assert_eq!(render(&snapshot()), expected);
}

#[test]
fn durations_have_at_most_two_units() {
    let spans = [
        (0, "0ms"),
        (999, "999ms"),
        (59_999, "59s"),
        (192_000, "3m12s"),
        (3_660_000, "1h01m"),
        (270_000_000, "3d03h"),
    ];
    for (ms, text) in spans {
        assert_eq!(orchestrator_admin::ascii::format_duration(ms), text);
    }
}
