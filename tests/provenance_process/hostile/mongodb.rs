//! Servers that speak MongoDB's protocol, and break it.

use std::{
    io::{self, Write},
    net::TcpStream,
};

use orchestrator_harness::ProvenanceSite;

use super::peer::{Peer, flood, read, refused};

fn word(bytes: &[u8]) -> i32 {
    i32::from_le_bytes(bytes[..4].try_into().expect("four bytes"))
}

/// Reads a request; gives its number.
fn request(stream: &mut TcpStream) -> io::Result<i32> {
    let header = read(stream, 16)?;
    read(stream, word(&header) as usize - 16)?;
    Ok(word(&header[4..]))
}

fn field(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind], name.as_bytes(), &[0], value].concat()
}

fn document(fields: &[Vec<u8>]) -> Vec<u8> {
    let fields = fields.concat();
    [&(fields.len() as i32 + 5).to_le_bytes()[..], &fields, &[0]].concat()
}

fn text(name: &str, value: &str) -> Vec<u8> {
    field(2, name, &[&(value.len() as i32 + 1).to_le_bytes()[..], value.as_bytes(), &[0]].concat())
}

/// Answers a request in whichever form it came: OP_MSG, or OP_QUERY by OP_REPLY.
fn answer(stream: &mut TcpStream, document: &[u8]) -> io::Result<()> {
    let header = read(stream, 16)?;
    let body = read(stream, word(&header) as usize - 16)?;
    let is_message = word(&header[12..]) == 2_013;
    assert!(is_message || !body.is_empty());
    let (code, before): (i32, &[u8]) = if is_message {
        (2_013, &[0; 5])
    } else {
        (1, &[8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0])
    };
    let length = 16 + before.len() + document.len();
    let head = [length as i32, 1, word(&header[4..]), code].map(i32::to_le_bytes).concat();
    stream.write_all(&[&head, before, document].concat())
}

/// A single server that takes writes.
fn hello() -> Vec<u8> {
    let number = |name: &str, value: i32| field(16, name, &value.to_le_bytes());
    document(&[
        field(8, "helloOk", &[1]),
        field(8, "isWritablePrimary", &[1]),
        field(8, "ismaster", &[1]),
        number("maxBsonObjectSize", 16 << 20),
        number("maxMessageSizeBytes", 48_000_000),
        number("maxWriteBatchSize", 100_000),
        number("minWireVersion", 0),
        number("maxWireVersion", 21),
        field(1, "ok", &1_f64.to_le_bytes()),
    ])
}

fn site(peer: &Peer) -> ProvenanceSite {
    ProvenanceSite::new(env!("CARGO_BIN_EXE_orchestrator"))
        .set("provenance.writer.kind=mongodb")
        .set("links.retry_max_ms=1000")
        .set(&format!(
            "provenance.mongodb.uri=mongodb://127.0.0.1:{}/?serverSelectionTimeoutMS=1000",
            peer.port()
        ))
}

fn announces(stream: &mut TcpStream, length: i32) -> io::Result<()> {
    let asked = request(stream)?;
    let head = [length, 1, asked, 2_013].map(i32::to_le_bytes).concat();
    stream.write_all(&head)?;
    flood(stream, &[0; 65_536])
}

#[test]
fn a_message_that_is_too_large_is_not_read() {
    for (length, said) in [(i32::MAX, "2147483647 over maximum"), (-1, "")] {
        let peer = Peer::start(None, move |stream| announces(stream, length));
        let site = site(&peer);
        let instance = site.start();
        let before = instance.memory("VmRSS");
        refused(site.site(), &instance, "provenance/writer", "no primary of the database was found", before);
        assert!(site.site().link("provenance/writer").reason.contains(said));
        assert!(instance.terminate().success(), "{}", site.site().log());
    }
}

#[test]
fn a_long_text_of_a_server_is_cut_and_escaped_everywhere() {
    let peer = Peer::start(None, |stream| {
        let error = document(&[
            field(1, "ok", &0_f64.to_le_bytes()),
            field(16, "code", &1_i32.to_le_bytes()),
            text("errmsg", &format!("\u{1b}[31m\u{202e}{}", "x".repeat(3_000_000))),
        ]);
        answer(stream, &hello())?;
        loop {
            answer(stream, &error)?;
        }
    });
    let site = site(&peer);
    let instance = site.start();
    let before = instance.memory("VmRSS");
    refused(
        site.site(),
        &instance,
        "provenance/writer",
        "failed while connecting: \\u{1b}[31m\\u{202e}xxx",
        before,
    );
    let (code, _, err) = site.site().cli(&["provenance", "stats"]);
    assert!(
        code != 0 && err.len() < 2_000 && err.contains("\\u{1b}[31m") && !err.contains('\u{1b}'),
        "{err}"
    );
    assert!(site.site().log().len() < 200_000);
    assert!(instance.terminate().success());
}
