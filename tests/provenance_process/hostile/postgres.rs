//! Servers that speak PostgreSQL's protocol, and break it.

use std::{
    io::{self, Write},
    net::TcpStream,
};

use orchestrator_harness::{Postgres, ProvenanceSite, eventually, sha1_of};
use serde_json::json;

use super::peer::{Peer, flood, read, refused};

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// Lets a client in, and waits for its first request.
fn greet(stream: &mut TcpStream) -> io::Result<()> {
    let length = read(stream, 4)?;
    read(stream, u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize - 4)?;
    stream.write_all(&message(b'R', &[0; 4]))?;
    stream.write_all(&message(b'Z', b"I"))?;
    read(stream, 5).map(drop)
}

fn row() -> Vec<u8> {
    message(b'D', &[&[0, 1, 0, 0, 1, 0][..], &[7; 256]].concat())
}

type Hostile = fn(&mut TcpStream) -> io::Result<()>;

/// What a server does, and what the link says of it.
const ALL: [(&str, Hostile); 6] = [
    ("announces DataRow ('D') of 2147483647 bytes", |stream| {
        greet(stream)?;
        stream.write_all(b"D\x7f\xff\xff\xff")?;
        flood(stream, &[7; 65_536])
    }),
    ("announces ErrorResponse ('E') of 3000028 bytes", |stream| {
        greet(stream)?;
        let text = "x".repeat(3_000_000);
        stream.write_all(&message(b'E', format!("SERROR\0VERROR\0CXX000\0M{text}\0\0").as_bytes()))?;
        read(stream, 1).map(drop)
    }),
    ("unasked, last NoticeResponse ('N')", |stream| {
        greet(stream)?;
        flood(stream, &message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mhello\0\0").repeat(1_000))
    }),
    ("unasked, last ParameterStatus ('S')", |stream| {
        read(stream, 8)?;
        stream.write_all(&message(b'R', &[0; 4]))?;
        for number in 0.. {
            stream.write_all(&message(b'S', format!("name{number}\0{}\0", "v".repeat(1_000)).as_bytes()))?;
        }
        Ok(())
    }),
    ("the answer is longer than", |stream| {
        greet(stream)?;
        stream.write_all(&message(b'T', b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0"))?;
        flood(stream, &row().repeat(1_000))
    }),
    ("a message of another protocol", |stream| {
        read(stream, 8)?;
        flood(stream, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    }),
];

#[test]
fn a_server_that_breaks_the_protocol_takes_little_memory_and_is_left_for_a_sane_one() {
    let dsn = Postgres::shared().create_database("hostile");
    let real = dsn.split(['@', '/']).find(|part| part.starts_with("127.")).expect("an address");
    let site = ProvenanceSite::new(env!("CARGO_BIN_EXE_orchestrator"));
    assert_eq!(site.site().cli(&["provenance", "init", "--dsn", &dsn]).0, 0);
    for (reason, hostile) in ALL {
        let peer = Peer::start(Some(real.parse().expect("an address")), hostile);
        let dsn = format!("provenance.postgres.dsn=postgresql://postgres@127.0.0.1:{}/hostile", peer.port());
        let site = ProvenanceSite::new(env!("CARGO_BIN_EXE_orchestrator"))
            .set("provenance.writer.kind=postgres")
            .set("links.retry_max_ms=1000")
            .set(&dsn);
        let instance = site.start();
        let before = instance.memory("VmRSS");
        for child in ["provenance/writer", "provenance/reader"] {
            refused(site.site(), &instance, child, reason, before);
        }
        peer.turn_sane();
        let up = |child: &str| site.site().link(child).state == "up";
        eventually("both links to be up", || up("provenance/writer") && up("provenance/reader"));
        let rows = site.file([json!({"add": "content", "id": sha1_of(0, 1)})]);
        assert_eq!(site.ask(&["import", &rows])["stored"], json!(1), "{reason}");
        assert!(instance.terminate().success(), "{}", site.site().log());
    }
}

/// One that lets in and then says nothing is given up, and not waited for.
#[test]
fn a_server_that_never_answers_is_left_after_ten_seconds() {
    let peer = Peer::start(None, |stream| {
        greet(stream)?;
        read(stream, 1_000_000).map(drop)
    });
    let site = ProvenanceSite::new(env!("CARGO_BIN_EXE_orchestrator"))
        .set("provenance.writer.kind=postgres")
        .set(&format!("provenance.postgres.dsn=host=127.0.0.1 port={} user=me dbname=d", peer.port()));
    let instance = site.start();
    let before = instance.memory("VmRSS");
    refused(site.site(), &instance, "provenance/writer", "did not answer within 10 s", before);
    assert!(instance.terminate().success(), "{}", site.site().log());
}
