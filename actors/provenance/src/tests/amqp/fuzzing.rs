//! Damaged bodies: none ends a worker or is lost, and good rows are still stored.
//!
//! `ORCHESTRATOR_PROVENANCE_FUZZ` sets the number of bodies sent over the broker; 100 times as many
//! are decoded.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use orchestrator_harness::rounds;
use orchestrator_subsystem::Address;
use orchestrator_supervise::{Strategy, SupervisorSpec, testing::TestTree};

use super::fixture::*;
use crate::{
    ProvenanceConfig, Transport, child_spec,
    edge::amqp::DEAD_LETTER,
    method::Method,
    policy::{Range, Worker, binding_key, methods},
    row::Rows,
    wire,
};

const VARIABLE: &str = "ORCHESTRATOR_PROVENANCE_FUZZ";

/// Bodies captured from the original, with their methods.
const CAPTURED: [(&str, &str); 12] = [
    (
        "origin_add.unknown",
        "81a4646174619192c4143acef14580ea7fd42840ee905c5ce2b0ef9e8175ab68747470733a2f2f612f62",
    ),
    ("location_add.unknown", "81a4646174619191c403612f62"),
    ("location_add.unknown", "81a4646174619191c400"),
    ("content_add.unknown", "81a4646174619191c41420329687bb9c1231a7e05afe86160343ad49b494"),
    (
        "content_add.unknown",
        "81a4646174619192c41420329687bb9c1231a7e05afe86160343ad49b494d7ff1d6f28003b9aca00",
    ),
    (
        "content_add.unknown",
        "81a4646174619292c41420329687bb9c1231a7e05afe86160343ad49b494c70cff00000000000000040000000092c4142f00000000000000000000000000000000000000d7ff0000000100000000",
    ),
    ("directory_add.unknown", "81a4646174619192c4143101010101010101010101010101010101010101d6ff00000005"),
    ("revision_add.unknown", "81a4646174619191c414c102020202020202020202020202020202020202"),
    (
        "revision_add.unknown",
        "81a4646174619192c414c0d8929936631ecbcf9147be6b8aa13b13b014e482c40773776874797065a964617461636c617373c4016483a464617465d6ff00000007a66f726967696ec4143acef14580ea7fd42840ee905c5ce2b0ef9e8175a85f5f747970655f5fac5265766973696f6e44617461",
    ),
    (
        "relation_add.content_in_revision",
        "81a4646174619193c41420329687bb9c1231a7e05afe86160343ad49b494c414c0d8929936631ecbcf9147be6b8aa13b13b014e4c403612f62",
    ),
    (
        "relation_add.directory_in_revision",
        "81a4646174619193c4143101010101010101010101010101010101010101c414c0d8929936631ecbcf9147be6b8aa13b13b014e4c4012e",
    ),
    (
        "relation_add.revision_in_origin",
        "81a4646174619193c414c0d8929936631ecbcf9147be6b8aa13b13b014e4c4143acef14580ea7fd42840ee905c5ce2b0ef9e8175c0",
    ),
];

/// Headers that announce more than any body has.
const INFLATED: [&[u8]; 8] = [
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc9\xff\xff\xff\xff",
    b"\xdc\xff\xff",
    b"\xc5\xff\xff",
    b"\x9f",
];

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Damaged body, with the method of its queue.
fn damaged(rng: &mut Rng) -> (Method, Vec<u8>) {
    let (prefix, hex) = CAPTURED[rng.usize(..CAPTURED.len())];
    let method = Method::ALL.into_iter().find(|method| method.to_string() == prefix).unwrap();
    let mut body = unhex(hex);
    for _ in 0..rng.usize(1..5) {
        let at = rng.usize(..=body.len());
        match rng.u8(..9) {
            0 if at < body.len() => body[at] ^= 1 << rng.u8(..8),
            1 => body.truncate(at),
            2 => {
                let (at, with) = (rng.usize(..=body.len().min(9)), INFLATED[rng.usize(..INFLATED.len())]);
                body.splice(at..(at + 1).min(body.len()), with.iter().copied());
            }
            3 => {
                let other = unhex(CAPTURED[rng.usize(..CAPTURED.len())].1);
                body.splice(at.., other[rng.usize(..other.len())..].iter().copied());
            }
            4 => (0..rng.usize(..40)).for_each(|_| body.push(rng.u8(..))),
            5 if at < body.len() => drop(body.remove(at)),
            6 => body.insert(at, rng.u8(..)),
            // Several items, of which some are damaged.
            7 if body.len() > 7 && body[6] == 0x91 => {
                let items = body[7..].repeat(2);
                body.truncate(7);
                body[6] = 0x93;
                body.extend(items);
                body.extend([0xa1, b'?']);
            }
            _ => (0..rng.usize(..12)).for_each(|_| {
                if let Some(byte) = body.last_mut() {
                    *byte = rng.u8(..);
                }
            }),
        }
    }
    (method, body)
}

#[test]
fn damaged_bodies_are_stored_or_dead_lettered() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = ProvenanceConfig { transport: Transport::Amqp, ..ProvenanceConfig::default() };
    config.amqp.url = Address::new(rabbit().create_vhost("fuzz"));
    config.sqlite.path = dir.path().join("provenance.db");
    let (tree, _entrance) = child_spec(&config).unwrap();
    TestTree::run(SupervisorSpec::new(Strategy::OneForOne).child(tree), async |tree| {
        let metric = |name: &str| {
            let node = tree.node("provenance/amqp").unwrap();
            node.metrics.iter().find(|metric| metric.name == name).map_or(0, |metric| metric.value)
        };
        eventually("all queues are consumed", || metric("consumed") == 160).await;
        let mut client = Client::connect(config.amqp.url.expose()).await;
        let mut rng = Rng::with_seed(rounds("ORCHESTRATOR_SEED", 1));
        let mut sent = BTreeMap::new();
        for n in 0..rounds(VARIABLE, 2_000) {
            let (method, body) = damaged(&mut rng);
            let range = Range::ALL[rng.usize(..Range::COUNT)];
            client.send(&binding_key(method, range), &format!("bad-{n}"), &body).await;
            sent.insert(format!("bad-{n}"), (method, body));
        }
        // Each worker's channel answers good rows after the damaged ones.
        let mut good = BTreeSet::new();
        for worker in Worker::all() {
            let method = methods(worker.exchange)[0];
            let body = unhex(CAPTURED.iter().find(|(prefix, _)| method.to_string() == *prefix).unwrap().1);
            client.send(&binding_key(method, worker.range), &format!("good-{worker}"), &body).await;
            good.insert(format!("good-{worker}"));
        }
        eventually("everything is acknowledged", || metric("acked") == (sent.len() + Worker::COUNT) as i64)
            .await;
        let mut answered = BTreeMap::new();
        while !good.is_empty() {
            let (id, count) = client.response().await;
            good.remove(&id);
            assert_eq!(answered.insert(id, count), None, "one answer for each message");
        }
        let mut letters = BTreeMap::<_, u32>::new();
        while let Some(letter) = client.get(DEAD_LETTER).await {
            let id = letter.properties.correlation_id().as_ref().unwrap().to_string();
            *letters.entry(id).or_default() += 1;
        }
        for (id, (method, body)) in &sent {
            let empty = Rows::none(*method);
            let nothing = wire::decode(*method, &body.clone().into())
                .is_ok_and(|decoded| decoded.malformed.is_empty() && decoded.rows == empty);
            let (stored, dead) = (answered.contains_key(id), letters.contains_key(id));
            assert!(
                nothing != (stored || dead),
                "{id}, {method}, {body:02x?}: stored {stored}, dead letter {dead}"
            );
        }
        let stored = sent.keys().filter(|id| answered.contains_key(*id)).count();
        eprintln!(
            "{} bodies: {stored} stored, wholly or in part, {} dead letters",
            sent.len(),
            metric("dead_lettered")
        );
        assert!(stored > 50 && letters.len() > 50, "damage of both kinds");
        tree.snapshot().root.walk(&mut |node| {
            assert_eq!((node.restarts, node.incarnation), (0, 1), "{}", node.path);
        });
    });
}
