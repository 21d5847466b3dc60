//! Posts to Sardana's port that are valid and mean nothing, or do not end.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use orchestrator_harness::{IngesterSite, Instance, eventually, free_port, http_tcp, try_raw};
use serde_json::json;

use super::{BINARY, NOWHERE, mapping};

const JSON: &[&str] = &["Content-Type: application/json"];
const START: &str = r#"{"serialno":1,"scandir":"a","title":"b"}"#;
const MIB: usize = 1 << 20;
/// Connections that the port takes at once.
const CONNECTIONS: usize = 256;

/// A site whose stream `sardana` is the only one, and where it is posted to.
fn start() -> (IngesterSite, Instance, SocketAddr) {
    let site = IngesterSite::new(BINARY, NOWHERE, "");
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let config = site.site.path().join("ingester.toml");
    let stream =
        format!("[[ingester.stream]]\nname = \"sardana\"\nsource = \"sardana\"\nlisten = \"{address}\"\n");
    let text = fs::read_to_string(&config).expect("a configuration") + &stream;
    fs::write(&config, text).expect("it is written");
    let instance = site.start();
    site.controller().begin(&mapping(1), &["sardana"]);
    eventually("the port is open", || TcpStream::connect(address).is_ok());
    let events: Vec<_> = (0..1_000).map(|event| (event, json!({"sardana": []}))).collect();
    site.controller().assign(&mapping(1), &events);
    (site, instance, address)
}

fn post(address: SocketAddr, path: &str, body: &str) -> u16 {
    http_tcp(address, "POST", path, JSON, body).status
}

#[test]
fn bodies_that_mean_nothing_are_refused_or_taken_as_they_are() {
    let (site, instance, address) = start();
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
    // Compressed bodies are not unpacked.
    let gzip = ["Content-Type: application/json", "Content-Encoding: gzip"];
    assert_eq!(http_tcp(address, "POST", "/v1/record_data", &gzip, "\u{1f}\u{8b}\u{8}").status, 422);
    assert_eq!(post(address, "/v1/record_end", "{}"), 200);
    let items = 1 + 6 + 1;
    eventually("what was taken is an item", || site.figure("scan/stream_1", "items") == items);
    let memory = instance.memory("VmHWM") >> 20;
    assert!(memory < 500, "{memory} MiB");
}

/// One that sends a chunked body without end, many that send long ones and do not come to an end, and headers without end.
#[test]
fn bodies_and_headers_without_end_are_cut_off_and_the_next_scan_is_taken() {
    let (site, instance, address) = start();
    let head = "POST /v1/record_data HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    let chunk = [format!("{MIB:x}\r\n").into_bytes(), vec![b' '; MIB], b"\r\n".to_vec()].concat();
    let answer = |bytes: &[u8]| {
        let answer = try_raw(address, bytes).unwrap_or_default();
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
    };
    let endless = [chunked.as_bytes(), &chunk.repeat(80)].concat();
    // What is sent after the answer may reset the connection before it is read.
    assert!(["HTTP/1.1 413 Payload Too Large", ""].contains(&&*answer(&endless)), "{}", answer(&endless));
    let announced = format!("{head}Content-Length: 4294967296\r\n\r\n");
    assert_eq!(answer(announced.as_bytes()), "HTTP/1.1 413 Payload Too Large");
    let flood = format!("{head}{}\r\n", "X-Flood: x\r\n".repeat(100_000));
    assert!(!answer(flood.as_bytes()).contains("200"));
    let flood = [head.as_bytes(), b"X-Flood: ", &vec![b'x'; 2 * MIB]].concat();
    assert!(!answer(&flood).contains("200"));

    // Three quarters of what all connections could send at once, were there no limit for all.
    let mut senders: Vec<TcpStream> = Vec::new();
    for _ in 0..CONNECTIONS * 3 / 4 {
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a time-out");
        let announced = format!("{head}Content-Length: {}\r\n\r\n", 32 * MIB);
        if stream
            .write_all(announced.as_bytes())
            .and_then(|()| stream.write_all(&vec![b' '; 4 * MIB]))
            .is_ok()
        {
            senders.push(stream);
        }
    }
    let memory = instance.memory("VmHWM") >> 20;
    assert!(memory < 500, "{memory} MiB");
    // Those who are silent are cut off, and then there is room.
    eventually("a start is taken", || http_tcp(address, "POST", "/v1/data_desc", JSON, START).status == 200);
    eventually("it is an item", || site.figure("scan/stream_1", "items") == 1);
    let mut cut_off = 0;
    for mut stream in senders {
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out");
        let mut answer = Vec::new();
        // Reset or answered: it ends.
        let ended = stream.read_to_end(&mut answer);
        assert!(
            ended.is_ok() || ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
        );
        cut_off += 1;
    }
    assert!(cut_off > 0);
}
