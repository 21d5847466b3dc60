//! Brokers that go away or stay silent during the handshake.

use std::{
    net::{TcpListener, TcpStream},
    thread,
};

use super::*;
use crate::amqp::{AmqpError, Broker};

fn method(class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
    let payload = [&class.to_be_bytes()[..], &number.to_be_bytes(), arguments].concat();
    [&[1, 0, 0], &(payload.len() as u32).to_be_bytes()[..], &payload, &[0xce]].concat()
}

fn start() -> Vec<u8> {
    method(10, 10, b"\0\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\x05en_US")
}

fn tune() -> Vec<u8> {
    method(10, 30, &[0, 0, 0, 2, 0, 0, 0, 60])
}

/// Returns the error of connecting to a broker that calls `serve` for each connection, and the time until the error.
fn refusal(serve: impl Fn(&mut TcpStream) -> io::Result<()> + Send + 'static) -> (String, Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut header = [0; 8];
            let _ = stream.read_exact(&mut header).and_then(|()| serve(&mut stream));
        }
    });
    let broker = Broker::new(&format!("amqp://guest:guest@127.0.0.1:{port}/%2f"), "test").expect("a url");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let began = Instant::now();
    match runtime.block_on(broker.connect()) {
        Err(AmqpError::Connect { reason, .. }) => (reason, began.elapsed()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_closed_during_the_handshake_fails_at_once() {
    let cases: [fn(&mut TcpStream) -> io::Result<()>; 3] = [
        |_| Ok(()),
        |stream| stream.write_all(&start()),
        |stream| {
            stream.write_all(&start())?;
            stream.read_exact(&mut [0; 64])?;
            stream.write_all(&tune())
        },
    ];
    for (case, serve) in cases.into_iter().enumerate() {
        let (reason, after) = refusal(serve);
        assert!(after < CONNECT_TIMEOUT / 2, "case {case}: {after:?}: {reason}");
    }
}

#[test]
fn endless_heartbeats_during_the_handshake_fail_the_connection() {
    let (reason, after) = refusal(|stream| {
        stream.write_all(&start())?;
        loop {
            stream.write_all(&[8, 0, 0, 0, 0, 0, 0, 0xce].repeat(1_000))?;
        }
    });
    assert!(reason.contains("does not end the handshake"), "{reason}");
    assert!(after < CONNECT_TIMEOUT / 2, "{after:?}");
}
