//! Malformed addresses, and a database that never answers. `tests/hostile` covers other hostile peers.

mod addresses;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use orchestrator_harness::{ProvenanceEnv, eventually};

/// Completes the PostgreSQL handshake and then only reads.
fn greet(mut stream: TcpStream) -> std::io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    stream.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize - 4])?;
    stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")?;
    std::io::copy(&mut stream, &mut std::io::sink()).map(drop)
}

#[test]
fn a_silent_database_times_out_after_ten_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(|| greet(stream));
        }
    });
    let env = ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
        .set("provenance.writer.kind=postgres")
        .set(&format!("provenance.postgres.dsn=host=127.0.0.1 port={port} user=me dbname=d sslmode=disable"));
    let instance = env.start();
    let reason = || env.base().link("provenance/writer").reason;
    eventually("the writer to give it up", || reason().contains("did not answer within 10 s"));
    assert!(instance.terminate().success(), "{}", env.base().log());
}
