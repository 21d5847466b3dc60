//! What an ingester is given that it should not be given: odd entries and keys in Redis, a Redis that is none, dumps that are none,
//! bodies that mean nothing, full disks, clocks that jump, and children that stand still. It goes on, and says what was wrong.

#[path = "ingester_hostile/clock.rs"]
mod clock;
#[path = "ingester_panics/detector.rs"]
mod detector;
#[path = "ingester_hostile/disk.rs"]
mod disk;
#[path = "ingester_hostile/dump.rs"]
mod dump;
#[path = "ingester_hostile/http.rs"]
mod http;
#[path = "ingester_hostile/redis.rs"]
mod redis;

use orchestrator_harness::IngesterSite;
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
/// Nobody listens there.
const NOWHERE: &str = "tcp://127.0.0.1:1";

/// Uuid of a mapping.
fn mapping(number: u64) -> String {
    format!("6277a4d0-975c-4dfe-97be-{number:012x}")
}

/// Note of a child of the first ingester.
fn note(site: &IngesterSite, child: &str) -> String {
    let node =
        site.site.snapshot().map(|tree| tree.node(&format!("ingester/eiger-ingester/{child}")).clone());
    let text = node.as_ref().and_then(|node| node.pointer("/note/text").and_then(Value::as_str));
    text.unwrap_or_default().to_owned()
}
