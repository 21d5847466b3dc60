//! The control plane: updates that come together, parameters, a Redis and a controller that go away and come back.

use std::{collections::BTreeMap, thread};

use orchestrator_harness::{
    Redis,
    dranspose::{Map, series},
    eventually, wait_for,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::Fixture;

/// Waits until each read that Redis holds open now has been answered. Those of a stopped process are not repeated.
fn held_reads_run_out(redis: &Redis) {
    // Each connection: its number, for how many seconds it said nothing, whether Redis holds a read of it.
    let connections = || -> BTreeMap<u64, (u64, bool)> {
        let list = redis.command(&["CLIENT", "LIST"]);
        let lines = list.as_str().expect("text").lines();
        lines
            .map(|line| {
                let field = |name: &str| {
                    line.split(' ').find_map(|field| field.strip_prefix(name)).unwrap_or_default()
                };
                let number = |name| field(name).parse().expect("a number");
                (number("id="), (number("idle="), field("flags=").contains('b')))
            })
            .collect()
    };
    let mut held = connections();
    held.retain(|_, (_, blocked)| *blocked);
    eventually("reads to be answered", || {
        let now = connections();
        held.retain(|id, (idle, _)| {
            // One that was repeated since has been silent for less long.
            let same = now.get(id).is_some_and(|(silent, blocked)| *blocked && silent >= idle);
            *idle = now.get(id).map_or(0, |(silent, _)| *silent);
            same
        });
        held.is_empty()
    });
}

/// A new map and a consistency nudge reach the ingester in one answer of Redis.
///
/// dranspose's own ingester looks at the last one only: it has the map's uuid and no streams, so that the scan is ignored.
#[test]
fn a_map_and_a_nudge_at_once() {
    let mut fixture = Fixture::new();
    fixture.ingester.signal(Signal::STOP);
    // A read that Redis holds open would take the first update alone.
    held_reads_run_out(&fixture.facility.redis);
    let map = Map::each("eiger", 10);
    let scan = thread::scope(|scope| {
        let facility = &fixture.facility;
        let posted = scope.spawn(|| facility.post(&map));
        let update: Value = wait_for("the map's update", || {
            let updates = facility.redis.entries("dranspose:controller:updates").into_iter();
            updates.map(|(_, update)| update).find(|update| update["active_streams"] == json!(["eiger"]))
        });
        let mut nudge = update;
        nudge["active_streams"] = json!([]);
        nudge["target_parameters_hash"] = facility.get("config")["parameters_hash"].clone();
        let nudge = nudge.to_string();
        let words = ["XADD", "dranspose:controller:updates", "*", "data", &nudge];
        facility.redis.transaction(&[&words, &words]);
        fixture.ingester.signal(Signal::CONT);
        posted.join().expect("the map is taken")
    });
    let sent = fixture.source.send(&series("nudged", 10, 100));
    fixture.finish(&scan, &sent);
}

/// Parameters that are set in the middle of a scan: all parts agree on them, and no event is lost.
#[test]
fn parameters_in_the_middle_of_a_scan() {
    let mut fixture = Fixture::new();
    fixture.facility.set("roi1", "[0, 20, 35, 65]");
    fixture.facility.agreed();
    let scan = fixture.facility.post(&Map::each("eiger", 30));
    let all = series("parameters", 30, 100);
    let mut sent = fixture.source.send(&all[..10]);
    for (name, value) in [("roi1", "[1]"), ("b", "\u{fc}ml\u{e4}ut"), ("a", ""), ("roi1", "[2]")] {
        fixture.facility.set(name, value);
    }
    fixture.facility.agreed();
    sent.extend(fixture.source.send(&all[10..]));
    fixture.finish(&scan, &sent);
}

/// Redis dies and comes back with its data. The Python parts do not survive that and are started again; the ingester does.
///
/// dranspose's own does not.
#[test]
fn redis_is_restarted_in_the_middle_of_a_scan() {
    let mut fixture = Fixture::with(Redis::start_persistent());
    fixture.scan(5, 100);
    let scan = fixture.facility.post(&Map::each("eiger", 50));
    fixture.source.send(&series("cut", 50, 100)[..20]);
    fixture.facility.begun(&scan, 20);
    fixture.facility.redis.kill_nine();
    fixture.facility.redis.start_again();
    fixture.facility.start_all_again();
    assert!(!fixture.ingester.ended(), "the ingester goes on: {}", fixture.ingester.log());
    fixture.facility.ready();
    fixture.scan(10, 100);
}

/// The same with a Redis that keeps nothing.
#[test]
fn redis_is_restarted_empty() {
    let mut fixture = Fixture::new();
    fixture.scan(5, 100);
    fixture.facility.redis.stop();
    fixture.facility.redis.start_again();
    fixture.facility.start_all_again();
    assert!(!fixture.ingester.ended(), "the ingester goes on: {}", fixture.ingester.log());
    fixture.facility.ready();
    fixture.scan(10, 100);
}

#[test]
fn redis_is_emptied() {
    let mut fixture = Fixture::new();
    fixture.scan(5, 100);
    fixture.facility.redis.flush();
    eventually("the ingester's key", || fixture.facility.config(&fixture.spec).is_some());
    fixture.facility.ready();
    fixture.scan(10, 100);
}

/// It removes its keys when it ends, and starts with a map and parameters of its own.
#[test]
fn the_controller_is_restarted() {
    let mut fixture = Fixture::new();
    fixture.scan(5, 100);
    fixture.facility.stop_controller();
    fixture.facility.start_controller();
    fixture.facility.ready();
    fixture.scan(10, 100);
}

/// A controller that comes back knows no parameters: nor does anyone after a while.
///
/// dranspose's own parts keep the old ones, which ours must not.
#[test]
fn a_restarted_controller_has_no_parameters() {
    let mut fixture = Fixture::new();
    fixture.facility.set("old", "1");
    fixture.facility.agreed();
    fixture.facility.stop_controller();
    fixture.facility.start_controller();
    fixture.facility.ready();
    eventually("the ingester to forget the parameter", || {
        let held = fixture.facility.config(&fixture.spec).map(|config| config["parameters_hash"].clone());
        held.as_ref() == Some(&fixture.facility.get("config")["parameters_hash"])
    });
    fixture.scan(10, 100);
}

/// Both write one key; when one ends the other is found again.
#[test]
fn two_ingesters_with_one_name() {
    let mut fixture = Fixture::new();
    fixture.scan(5, 100);
    let uuid = |fixture: &Fixture| {
        fixture.facility.config(&fixture.spec).map(|config| config["service_uuid"].clone())
    };
    let first = uuid(&fixture);
    let second = fixture.facility.ingester(&fixture.spec.clone().elsewhere());
    eventually("the first to write the key again", || uuid(&fixture) == first);
    eventually("the second to write the key again", || uuid(&fixture).is_some_and(|now| Some(now) != first));
    assert!(second.terminate(), "an orderly end");
    eventually("the first to write the key again", || uuid(&fixture) == first);
    fixture.facility.ready();
    fixture.scan(10, 100);
}
