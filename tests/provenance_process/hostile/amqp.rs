//! Brokers that break AMQP, and a message that breaks its readers.

use std::{
    io::{self, Write},
    net::TcpStream,
};

use orchestrator_harness::{ProvenanceSite, Rabbit, eventually, sha1_of};
use serde_json::json;

use super::peer::{Peer, flood, read, refused};

/// Levels of tables that fit into one frame and not on a stack.
const DEPTH: usize = 20_000;

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    [&[kind][..], &channel.to_be_bytes(), &(payload.len() as u32).to_be_bytes(), payload, &[0xce]].concat()
}

fn start(table: &[u8]) -> Vec<u8> {
    let table = [&(table.len() as u32).to_be_bytes()[..], table].concat();
    frame(1, 0, &[&[0, 10, 0, 10, 0, 9][..], &table, b"\0\0\0\x05PLAIN\0\0\0\x05en_US"].concat())
}

fn nested() -> Vec<u8> {
    // From the inside: each length is known when the level around it begins.
    let mut lengths: Vec<u32> = (0..DEPTH as u32).map(|level| level * 5).collect();
    lengths.reverse();
    let levels = lengths.into_iter().flat_map(|length| [&b"A"[..], &length.to_be_bytes()].concat());
    b"\x01k".iter().copied().chain(levels).collect()
}

/// Reads frames until one is method `class.method`; gives its payload and channel.
fn until(stream: &mut TcpStream, class: u8, method: u8) -> io::Result<u16> {
    loop {
        let head = read(stream, 7)?;
        let size = u32::from_be_bytes(head[3..].try_into().expect("four bytes"));
        let payload = read(stream, size as usize + 1)?;
        if head[0] == 1 && payload[..4] == [0, class, 0, method] {
            return Ok(u16::from_be_bytes([head[1], head[2]]));
        }
    }
}

/// Lets a client in and opens its first channel. The frames of the broker may be as large as any.
fn greet(stream: &mut TcpStream) -> io::Result<u16> {
    read(stream, 8)?;
    // Properties that fill a stack are no reason to end.
    stream.write_all(&start(&nested()))?;
    until(stream, 10, 11)?;
    stream.write_all(&frame(1, 0, &[0, 10, 0, 30, 0, 0, 0, 0, 0, 0, 0, 0]))?;
    until(stream, 10, 40)?;
    stream.write_all(&frame(1, 0, &[0, 10, 0, 41, 0]))?;
    let channel = until(stream, 20, 10)?;
    stream.write_all(&frame(1, channel, &[0, 20, 0, 11, 0, 0, 0, 0]))?;
    Ok(channel)
}

fn deliver(channel: u16, size: u64) -> Vec<u8> {
    let method = [&[0, 60, 0, 60][..], b"\x01c\0\0\0\0\0\0\0\x01\0\0\0"].concat();
    let header = [&[0, 60, 0, 0][..], &size.to_be_bytes(), &[0, 0]].concat();
    [frame(1, channel, &method), frame(2, channel, &header)].concat()
}

type Hostile = fn(&mut TcpStream) -> io::Result<()>;

const ALL: [(&str, Hostile); 5] = [
    ("announces a frame of 4294967295 bytes", |stream| {
        read(stream, 8)?;
        stream.write_all(b"\x01\0\0\xff\xff\xff\xff")?;
        flood(stream, &[0; 65_536])
    }),
    ("a message of 9223372036854775808 bytes", |stream| {
        let channel = greet(stream)?;
        stream.write_all(&deliver(channel, 1 << 63))?;
        flood(stream, &frame(3, channel, &[7; 65_536]))
    }),
    ("announces more than 2047 messages and begins none", |stream| {
        let channel = greet(stream)?;
        let deliver = frame(1, channel, &[&[0, 60, 0, 60][..], b"\x01c\0\0\0\0\0\0\0\x01\0\0\0"].concat());
        flood(stream, &deliver.repeat(100))
    }),
    ("messages that may wait for their acknowledgement", |stream| {
        let channel = greet(stream)?;
        let message = [deliver(channel, 2), frame(3, channel, b"ab")].concat();
        flood(stream, &message.repeat(100))
    }),
    ("a frame of type 72", |stream| {
        read(stream, 8)?;
        flood(stream, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    }),
];

#[test]
fn a_broker_that_breaks_the_protocol_takes_little_memory_and_is_left_for_a_sane_one() {
    let url = Rabbit::shared().vhost("hostile");
    let real = url.split(['@', '/']).find(|part| part.starts_with("127.")).expect("an address");
    for (reason, hostile) in ALL {
        let peer = Peer::start(Some(real.parse().expect("an address")), hostile);
        let site = ProvenanceSite::new(env!("CARGO_BIN_EXE_orchestrator"))
            .set("provenance.transport=amqp")
            .set("links.retry_max_ms=1000")
            .set(&format!("provenance.amqp.url=amqp://guest:guest@127.0.0.1:{}/hostile", peer.port()));
        let instance = site.start();
        let before = instance.memory("VmRSS");
        refused(site.site(), &instance, "provenance/amqp", reason, before);
        peer.turn_sane();
        eventually("the link to be up", || site.site().link("provenance/amqp").state == "up");
        let rows = site.file([json!({"add": "content", "id": sha1_of(0, 1)})]);
        eventually("a row to be stored", || site.site().cli(&["provenance", "import", &rows]).0 == 0);
        assert!(instance.terminate().success(), "{}", site.site().log());
    }
}

/// Whoever may publish to the broker could end every consumer of it: a real broker hands such headers on.
#[test]
fn a_message_with_headers_that_fill_the_stack_does_not_end_the_process() {
    // Its messages are written by hand for the broker's own virtual host.
    let url = Rabbit::shared().url();
    let site = ProvenanceSite::new(env!("CARGO_BIN_EXE_orchestrator"))
        .set("provenance.transport=amqp")
        .set("links.retry_max_ms=1000")
        .set(&format!("provenance.amqp.url={url}"));
    let mut instance = site.start();
    eventually("the link to be up", || site.site().link("provenance/amqp").state == "up");
    publish(&url, "content_add.unknown.0").expect("it is published");
    eventually("the message to be refused as any other that is none of ours", || {
        assert_eq!(instance.ended(), None, "{}", site.site().log());
        site.site().log().contains("content_add.unknown.0")
    });
    assert_eq!(site.site().link("provenance/amqp").state, "up", "{}", site.site().log());
    let rows = site.file([json!({"add": "content", "id": sha1_of(0, 1)})]);
    assert_eq!(site.site().cli(&["provenance", "import", &rows]).0, 0, "the consumer goes on");
    assert!(instance.terminate().success(), "{}", site.site().log());
}

/// Publishes a message with nested headers, without a client: one would recurse into them, too.
fn publish(url: &str, queue: &str) -> io::Result<()> {
    let address = url.split(['@', '/']).find(|part| part.starts_with("127.")).expect("an address");
    let stream = &mut TcpStream::connect(address)?;
    stream.write_all(b"AMQP\0\0\x09\x01")?;
    until(stream, 10, 10)?;
    let login = b"\0\0\0\0\x05PLAIN\0\0\0\x0c\0guest\0guest\x05en_US";
    stream.write_all(&frame(1, 0, &[&[0, 10, 0, 11][..], login].concat()))?;
    until(stream, 10, 30)?;
    stream.write_all(&frame(1, 0, &[0, 10, 0, 31, 7, 255, 0, 2, 0, 0, 0, 0]))?;
    stream.write_all(&frame(1, 0, &[0, 10, 0, 40, 1, b'/', 0, 0]))?;
    until(stream, 10, 41)?;
    stream.write_all(&frame(1, 1, &[0, 20, 0, 10, 0]))?;
    until(stream, 20, 11)?;
    let key = [&[queue.len() as u8], queue.as_bytes()].concat();
    stream.write_all(&frame(1, 1, &[&[0, 60, 0, 40, 0, 0, 0][..], &key, &[0]].concat()))?;
    let table = nested();
    let table = [&(table.len() as u32).to_be_bytes()[..], &table].concat();
    let header = [&[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0x20, 0][..], &table].concat();
    stream.write_all(&[frame(2, 1, &header), frame(3, 1, b"body")].concat())?;
    // Its answer says that all before was read.
    stream.write_all(&frame(1, 1, &[0, 20, 0, 40, 0, 200, 0, 0, 0, 0, 0]))?;
    until(stream, 20, 41).map(drop)
}
