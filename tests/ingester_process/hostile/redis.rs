//! Invalid entries and keys in Redis, and a Redis or source that closes every connection.

use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use orchestrator_harness::{Controller, IngesterEnv, Redis, ZmtpPeer, eventually};
use serde_json::json;

use super::{BINARY, NOWHERE, mapping, note};

const UPDATES: &str = "dranspose:controller:updates";
const MIB: usize = 1 << 20;

/// Runs a Redis command whose words are bytes.
fn command(redis: &Redis, words: &[&[u8]]) {
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port())).expect("Redis is there");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out");
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend(format!("${}\r\n", word.len()).as_bytes());
        request.extend(*word);
        request.extend(b"\r\n");
    }
    stream.write_all(&request).expect("it is taken");
    let mut first = [0];
    stream.read_exact(&mut first).expect("an answer");
    assert_ne!(first, *b"-", "it is an error");
}

fn add(redis: &Redis, key: &str, fields: &[&[u8]]) {
    command(redis, &[&[b"XADD", key.as_bytes(), b"*"][..], fields].concat());
}

/// Adds one invalid entry of each kind. Returns their number.
fn add_invalid_entries(redis: &Redis, key: &str, too_long: usize) -> i64 {
    add(redis, key, &[b"\xff", b"x"]);
    add(redis, key, &[b"\xff", &vec![b'x'; 4 * MIB]]);
    add(redis, key, &[b"data", b"no json \x1b[2J\xe2\x80\xae"]);
    add(redis, key, &[b"data", &b"[\"\xff\", ".repeat(1_000)]);
    // Invalid for its newlines, not for its size.
    add(redis, key, &[b"data", &vec![b'\n'; MIB]]);
    add(redis, key, &[b"data", &vec![b'['; too_long]]);
    add(redis, key, &[b"date", b"", b"\xff\xfe", b"\0"]);
    7
}

#[test]
fn an_invalid_entry_is_skipped_and_named() {
    let env = IngesterEnv::new(BINARY, NOWHERE, "");
    let instance = env.start();
    let controller = env.controller();
    controller.start_mapping(&mapping(1), &["eiger"]);
    add(&env.redis, UPDATES, &[b"\xff", b"x\x1b[2J"]);
    eventually("it is named", || {
        note(&env, "redis").contains("field `\\xff` of 5 bytes begins `x\\u{1b}[2J`")
    });
    assert!(note(&env, "redis").contains(&format!("of {UPDATES} is skipped")), "{}", note(&env, "redis"));
    let invalid = 1 + add_invalid_entries(&env.redis, UPDATES, 17 * MIB);
    controller.start_mapping(&mapping(2), &["eiger"]);
    assert_eq!(env.metric("redis", "invalid_updates"), invalid);

    // The same among the assignments.
    let key = format!("dranspose:assigned:{}", mapping(2));
    controller.assign_events(&mapping(2), &[(0, json!({"eiger": ["w"]}))]);
    let invalid = add_invalid_entries(&env.redis, &key, 33 * MIB);
    controller.assign_events(&mapping(2), &[(1, json!({"eiger": ["w"]}))]);
    eventually("both events are known", || env.metric("scan/assign", "assigned_events") == 2);
    assert_eq!(env.metric("scan/assign", "invalid_assignments"), invalid);
    assert!(note(&env, "scan/assign").contains(&key), "{}", note(&env, "scan/assign"));

    let log = env.base.log();
    assert!(log.len() < 64 << 10, "{} bytes are logged", log.len());
    assert!(!log.contains('\u{1b}') && !log.contains('\u{202e}'), "control characters in the log");
    let resident = instance.memory("VmHWM") >> 20;
    assert!(resident < 250, "{resident} MiB");
}

/// Each key that the ingester reads or writes has the wrong type at first.
#[test]
fn a_key_of_the_wrong_type_blocks_only_itself() {
    let env = IngesterEnv::new(BINARY, NOWHERE, "");
    let redis = &env.redis;
    for key in [UPDATES, "dranspose_logs", &format!("dranspose:ready:{}", mapping(1))] {
        redis.command(&["SET", key, "x"]);
    }
    let own = "dranspose:ingester:eiger-ingester:config";
    redis.command(&["RPUSH", own, "x"]);
    let _instance = env.spawn();
    let down = || env.base.link("ingester/eiger-ingester/redis").reason;
    eventually("the updates cannot be read", || down().contains("WRONGTYPE"));
    redis.command(&["DEL", UPDATES]);
    let controller = env.controller();
    eventually("its own key heals", || redis.command(&["TYPE", own]) == "string");
    eventually("it follows", || env.base.link("ingester/eiger-ingester/redis").state == "up");

    // An invalid and a valid parameter.
    let versions = [mapping(8), mapping(9)];
    redis.command(&["SADD", &format!("dranspose:parameters:a:{}", versions[0]), "x"]);
    redis.command(&["SET", &format!("dranspose:parameters:dump_prefix:{}", versions[1]), "/nowhere/"]);
    let mut update = Controller::update_json(&mapping(1), &["eiger"], false);
    update["parameters_version"] = json!({"a": versions[0], "dump_prefix": versions[1]});
    controller.publish_update(&update);
    eventually("the mapping is taken", || controller.is_active(&mapping(1)));
    eventually("the second parameter is known", || note(&env, "dump").contains("/nowhere/eiger-ingester-"));

    // The end of a mapping whose key has the wrong type, and the next mapping.
    controller.publish_update(&Controller::update_json(&mapping(1), &[], true));
    let key = format!("dranspose:assigned:{}", mapping(2));
    redis.command(&["SET", &key, "x"]);
    controller.start_mapping(&mapping(2), &["eiger"]);
    let assign = || env.base.link("ingester/eiger-ingester/scan/assign");
    eventually("the assignments cannot be read", || assign().reason.contains("WRONGTYPE"));
    redis.command(&["DEL", &key]);
    controller.assign_events(&mapping(2), &[(0, json!({"eiger": ["w"]}))]);
    eventually("they can", || assign().state == "up" && env.metric("scan/assign", "assigned_events") == 1);
    controller.publish_update(&Controller::update_json(&mapping(2), &[], true));
    eventually("the second end is answered", || controller.is_finished(&mapping(2)));
    redis.command(&["DEL", &format!("dranspose:ready:{}", mapping(1))]);
    eventually("then the first is, too", || controller.is_finished(&mapping(1)));
}

/// Starts a proxy to Redis that closes each connection that sends `word`. Returns its port and the times of
/// the closes.
fn start_closing_proxy(redis: &Redis, word: &'static [u8]) -> (u16, Arc<Mutex<Vec<Instant>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let (behind, cut) = (redis.port(), Arc::<Mutex<Vec<Instant>>>::default());
    let times = cut.clone();
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let times = times.clone();
            thread::spawn(move || {
                let mut server = TcpStream::connect(("127.0.0.1", behind))?;
                let (mut back, mut to) = (server.try_clone()?, client.try_clone()?);
                thread::spawn(move || std::io::copy(&mut back, &mut to));
                let mut block = vec![0; 1 << 16];
                loop {
                    let read = client.read(&mut block)?;
                    if read == 0 || block[..read].windows(word.len()).any(|part| part == word) {
                        times.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
                        client.shutdown(Shutdown::Both)?;
                        return server.shutdown(Shutdown::Both);
                    }
                    server.write_all(&block[..read])?;
                }
            });
        }
    });
    (port, cut)
}

/// A connection without a reply does not reset the backoff.
#[test]
fn reconnects_to_redis_back_off() {
    let env = IngesterEnv::new(BINARY, NOWHERE, "");
    let (port, cut) = start_closing_proxy(&env.redis, b"XREAD\r\n");
    let file = env.base.path().join("ingester.toml");
    let text = fs::read_to_string(&file).expect("a configuration");
    fs::write(&file, text.replace(&env.redis.port().to_string(), &port.to_string())).expect("it is written");
    let _instance = env.spawn();
    // The longest delay is 2 s with a jitter of 20 %.
    eventually("the tries are a second apart", || {
        let cut = cut.lock().unwrap_or_else(PoisonError::into_inner);
        cut.windows(2).any(|pair| pair[1] - pair[0] > Duration::from_secs(1))
    });
}

/// The same for a source that closes after the handshake, or sends only invalid messages.
#[test]
fn reconnects_to_a_source_back_off() {
    for garbage in [&[][..], &[&b"no header"[..]]] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let upstream = format!("tcp://{}", listener.local_addr().expect("its address"));
        let env = IngesterEnv::new(BINARY, &upstream, "");
        let _instance = env.start();
        env.controller().start_mapping(&mapping(1), &["eiger"]);
        let mut last = Instant::now();
        // The longest delay is 1 s with a jitter of 20 %.
        eventually("the tries are half a second apart", || {
            let mut peer = ZmtpPeer::accept(&listener, "PUSH").expect("it is dialled");
            if !garbage.is_empty() {
                peer.send(garbage).expect("it is taken");
            }
            std::mem::replace(&mut last, Instant::now()).elapsed() > Duration::from_millis(500)
        });
    }
}
