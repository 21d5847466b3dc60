//! Trees for the tests of `top`.

use orchestrator_subsystem::wire::TreeSnapshot;
use serde_json::{Value, json};

/// JSON of a child that runs, without children.
fn node(path: &str, state: &str, restarts: u64, mailboxes: &Value) -> Value {
    json!({
        "path": path, "id": path.rsplit('/').next(), "label": null, "kind": "actor", "state": state,
        "stuck": false, "restart": "permanent", "strategy": null, "intensity": null, "period_ms": null,
        "pausable": false, "console": false, "arbiter": null, "incarnation": 1, "started_ms": 0,
        "restarts": restarts, "budget_left": 5, "last_exit": null, "mailboxes": mailboxes, "in_progress": null,
        "link": null, "metrics": [], "children": [],
    })
}

/// JSON of a mailbox with 7 messages waiting.
fn mailbox(handled: u64) -> Value {
    json!([{
        "name": "mailbox", "depth": 7, "capacity": 9, "high_water": 9, "refused": 0, "handled": handled, "purged": 0,
        "messages": [{"name": "A", "count": 1, "wait_us": [1, 1, 1], "handling_us": [1, 2, 2048]}],
    }])
}

/// A tree with the root `o`, the busy child `o/a` and the child `o/b`, which has failed three times.
pub(super) fn tree(at_ms: u64, uptime_ms: u64, handled: u64) -> TreeSnapshot {
    let mut root = node("o", "running", 0, &json!([]));
    root["children"] =
        json!([node("o/a", "running", 0, &mailbox(handled)), node("o/b", "backing_off", 3, &json!([]))]);
    let tree = json!({"seq": 1, "captured_at_ms": at_ms, "uptime_ms": uptime_ms, "root": root});
    serde_json::from_value(tree).unwrap()
}
