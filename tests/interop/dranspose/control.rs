//! The control plane: simultaneous updates, parameters, and restarts of Redis and the controller.

use std::{collections::BTreeMap, thread};

use orchestrator_harness::{
    Redis,
    dranspose::{Map, series},
    eventually, wait_for,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::Fixture;

/// Waits until every blocking read that Redis holds now has ended. A suspended process starts no new one.
fn held_reads_run_out(redis: &Redis) {
    // By connection id: idle seconds, and whether it is blocked in a read.
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
            // A repeated read has a shorter idle time.
            let same = now.get(id).is_some_and(|(silent, blocked)| *blocked && silent >= idle);
            *idle = now.get(id).map_or(0, |(silent, _)| *silent);
            same
        });
        held.is_empty()
    });
}

/// A new mapping and a consistency update arrive in one answer of Redis.
///
/// dranspose's own ingester handles only the last one, which has the mapping's uuid but no streams, and
/// ignores the scan.
#[test]
fn a_mapping_survives_a_nudge_in_the_same_read() {
    let mut fixture = Fixture::new();
    fixture.ingester.signal(Signal::STOP);
    // A pending read would receive the first update alone.
    held_reads_run_out(&fixture.deployment.redis);
    let map = Map::of_stream("eiger", 10);
    let scan = thread::scope(|scope| {
        let deployment = &fixture.deployment;
        let posted = scope.spawn(|| deployment.post_mapping(&map));
        let update: Value = wait_for("the map's update", || {
            let updates = deployment.redis.entries("dranspose:controller:updates").into_iter();
            updates.map(|(_, update)| update).find(|update| update["active_streams"] == json!(["eiger"]))
        });
        let mut nudge = update;
        nudge["active_streams"] = json!([]);
        nudge["target_parameters_hash"] = deployment.get("config")["parameters_hash"].clone();
        let nudge = nudge.to_string();
        let words = ["XADD", "dranspose:controller:updates", "*", "data", &nudge];
        deployment.redis.transaction(&[&words, &words]);
        fixture.ingester.signal(Signal::CONT);
        posted.join().expect("the map is taken")
    });
    let sent = fixture.source.send(&series("nudged", 10, 100));
    fixture.finish(&scan, &sent);
}

/// All processes apply parameters that are set during a scan, and no event is lost.
#[test]
fn parameters_set_during_a_scan_lose_no_event() {
    let mut fixture = Fixture::new();
    fixture.deployment.set_parameter("roi1", "[0, 20, 35, 65]");
    fixture.deployment.wait_for_parameters();
    let scan = fixture.deployment.post_mapping(&Map::of_stream("eiger", 30));
    let all = series("parameters", 30, 100);
    let mut sent = fixture.source.send(&all[..10]);
    for (name, value) in [("roi1", "[1]"), ("b", "\u{fc}ml\u{e4}ut"), ("a", ""), ("roi1", "[2]")] {
        fixture.deployment.set_parameter(name, value);
    }
    fixture.deployment.wait_for_parameters();
    sent.extend(fixture.source.send(&all[10..]));
    fixture.finish(&scan, &sent);
}

/// Redis is killed and restarted with its data. The Python processes must be restarted; the ingester
/// survives.
///
/// dranspose's own ingester does not survive.
#[test]
fn the_ingester_survives_a_redis_restart_during_a_scan() {
    let mut fixture = Fixture::with(Redis::start_persistent());
    fixture.scan(5, 100);
    let scan = fixture.deployment.post_mapping(&Map::of_stream("eiger", 50));
    fixture.source.send(&series("cut", 50, 100)[..20]);
    fixture.deployment.wait_for_events(&scan, 20);
    fixture.deployment.redis.kill_nine();
    fixture.deployment.redis.start_again();
    fixture.deployment.start_all_again();
    assert!(!fixture.ingester.ended(), "the ingester goes on: {}", fixture.ingester.log());
    fixture.deployment.wait_until_connected();
    fixture.scan(10, 100);
}

/// The same with a Redis without persistence.
#[test]
fn the_ingester_survives_an_empty_redis_restart() {
    let mut fixture = Fixture::new();
    fixture.scan(5, 100);
    fixture.deployment.redis.stop();
    fixture.deployment.redis.start_again();
    fixture.deployment.start_all_again();
    assert!(!fixture.ingester.ended(), "the ingester goes on: {}", fixture.ingester.log());
    fixture.deployment.wait_until_connected();
    fixture.scan(10, 100);
}

#[test]
fn the_ingester_survives_a_flush_of_redis() {
    let mut fixture = Fixture::new();
    fixture.scan(5, 100);
    fixture.deployment.redis.flush();
    eventually("the ingester's key", || fixture.deployment.ingester_state(&fixture.spec).is_some());
    fixture.deployment.wait_until_connected();
    fixture.scan(10, 100);
}

/// A controller removes its keys at its end and starts with a new mapping and new parameters.
#[test]
fn the_ingester_survives_a_controller_restart() {
    let mut fixture = Fixture::new();
    fixture.scan(5, 100);
    fixture.deployment.stop_controller();
    fixture.deployment.start_controller();
    fixture.deployment.wait_until_connected();
    fixture.scan(10, 100);
}

/// A restarted controller has no parameters, and all processes drop theirs.
///
/// dranspose's own processes keep the old ones.
#[test]
fn parameters_are_dropped_after_a_controller_restart() {
    let mut fixture = Fixture::new();
    fixture.deployment.set_parameter("old", "1");
    fixture.deployment.wait_for_parameters();
    fixture.deployment.stop_controller();
    fixture.deployment.start_controller();
    fixture.deployment.wait_until_connected();
    eventually("the ingester to forget the parameter", || {
        let held =
            fixture.deployment.ingester_state(&fixture.spec).map(|config| config["parameters_hash"].clone());
        held.as_ref() == Some(&fixture.deployment.get("config")["parameters_hash"])
    });
    fixture.scan(10, 100);
}

/// Both write one key. When one ends, the other is found again.
#[test]
fn the_remaining_ingester_republishes_a_shared_key() {
    let mut fixture = Fixture::new();
    fixture.scan(5, 100);
    let uuid = |fixture: &Fixture| {
        fixture.deployment.ingester_state(&fixture.spec).map(|config| config["service_uuid"].clone())
    };
    let first = uuid(&fixture);
    let second = fixture.deployment.start_ingester(&fixture.spec.clone().with_new_port());
    eventually("the first to write the key again", || uuid(&fixture) == first);
    eventually("the second to write the key again", || uuid(&fixture).is_some_and(|now| Some(now) != first));
    assert!(second.terminate(), "a clean exit");
    eventually("the first to write the key again", || uuid(&fixture) == first);
    fixture.deployment.wait_until_connected();
    fixture.scan(10, 100);
}
