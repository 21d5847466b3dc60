//! Invalid, unusual and oversized posts to the Sardana port. `tests/hostile` covers endless ones.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
};

use orchestrator_harness::{IngesterEnv, Instance, eventually, free_port, http_tcp, raw_tcp};
use serde_json::json;

use super::{BINARY, NOWHERE, mapping};

const JSON: &[&str] = &["Content-Type: application/json"];
const START: &str = r#"{"serialno":1,"scandir":"a","title":"b"}"#;
const MIB: usize = 1 << 20;

/// Starts an ingester with a mapping of the stream `sardana`. Returns the address for posts.
fn start() -> (IngesterEnv, Instance, SocketAddr) {
    let env = IngesterEnv::new(BINARY, NOWHERE, "");
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let config = env.base.path().join("ingester.toml");
    let stream =
        format!("[[ingester.stream]]\nname = \"sardana\"\nsource = \"sardana\"\nlisten = \"{address}\"\n");
    let text = fs::read_to_string(&config).expect("a configuration") + &stream;
    fs::write(&config, text).expect("it is written");
    let instance = env.start();
    env.controller().start_mapping(&mapping(1), &["sardana"]);
    eventually("the port is open", || TcpStream::connect(address).is_ok());
    let events: Vec<_> = (0..1_000).map(|event| (event, json!({"sardana": []}))).collect();
    env.controller().assign_events(&mapping(1), &events);
    (env, instance, address)
}

fn post(address: SocketAddr, path: &str, body: &str) -> u16 {
    http_tcp(address, "POST", path, JSON, body).status
}

#[test]
fn invalid_bodies_are_refused_and_unusual_ones_accepted() {
    let (env, instance, address) = start();
    assert_eq!(post(address, "/v1/data_desc", START), 200);
    let record = |rest: &str| format!(r#"{{"timestamp":1{rest}}}"#);
    let keys = |count: usize| (0..count).map(|key| format!(",\"{key}\":{key}")).collect::<String>();
    let nested = |levels: usize| format!(",\"x\":{}1{}", "[".repeat(levels), "]".repeat(levels));
    let long_and_deep = format!(",\"x\":{}{}0{}", "[".repeat(150), "0,".repeat(8 * MIB), "]".repeat(150));
    let digits = "9".repeat(100_000);
    for (rest, status) in [
        (keys(100_000), 200),
        (keys(1_000_000), 422),
        (nested(150), 200),
        (nested(100_000), 422),
        (long_and_deep, 422),
        (format!(",\"x\":{digits}"), 200),
        (format!(",\"x\":-{digits}.5e{digits}"), 200),
        (",\"x\":1e999999,\"y\":NaN,\"z\":-Infinity".to_owned(), 200),
        (format!(",\"{}\":1", "\\u202e\\u0000".repeat(1_000)), 200),
        (",\"x\":\"\\ud800\"".to_owned(), 422),
    ] {
        assert_eq!(
            post(address, "/v1/record_data", &record(&rest)),
            status,
            "{}",
            &rest[..rest.len().min(60)]
        );
    }
    for body in ["", "null", "[]", "7", r#"{"timestamp":"soon"}"#, r#"{"timestamp":{}}"#, r#"{"type":"End"}"#]
    {
        assert_eq!(post(address, "/v1/record_data", body), 422, "{body}");
    }
    for serial in ["1.5", "\"x\"", &digits, "[]", "true1"] {
        let body = format!(r#"{{"serialno":{serial},"scandir":"a","title":"b"}}"#);
        assert_eq!(post(address, "/v1/data_desc", &body), 422, "{}", &body[..body.len().min(60)]);
    }
    let announced = "POST /v1/record_data HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                     Content-Length: 4294967296\r\n\r\n";
    let answer = raw_tcp(address, announced.as_bytes()).expect("an answer");
    assert!(answer.starts_with(b"HTTP/1.1 413 "), "{}", answer.escape_ascii());
    // Compressed bodies are not supported.
    let gzip = ["Content-Type: application/json", "Content-Encoding: gzip"];
    assert_eq!(http_tcp(address, "POST", "/v1/record_data", &gzip, "\u{1f}\u{8b}\u{8}").status, 422);
    assert_eq!(post(address, "/v1/record_end", "{}"), 200);
    let items = 1 + 6 + 1;
    eventually("each accepted post to be an item", || env.metric("scan/stream_1", "items") == items);
    let memory = instance.memory("VmHWM") >> 20;
    assert!(memory < 500, "{memory} MiB");
}
