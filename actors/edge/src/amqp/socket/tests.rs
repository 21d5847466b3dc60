//! Brokers that go away or stay silent during the handshake.

use std::{
    net::{TcpListener, TcpStream},
    thread,
};

use super::*;
use crate::{PeerError, PeerErrorKind, amqp::Broker};

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

/// Connects to a broker that calls `serve` for each connection. The result is the error, and the time until
/// it.
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
        Err(PeerError { kind: PeerErrorKind::Connect, text, .. }) => (text, began.elapsed()),
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

/// lapin does not report every error that comes this early, so there are several rounds.
#[test]
fn endless_heartbeats_during_the_handshake_fail_the_connection() {
    for round in 0..25 {
        let (reason, after) = refusal(|stream| {
            stream.write_all(&start())?;
            loop {
                stream.write_all(&[8, 0, 0, 0, 0, 0, 0, 0xce].repeat(1_000))?;
            }
        });
        let expected = ["does not end the handshake", "ended during the handshake"];
        assert!(expected.iter().any(|text| reason.contains(text)), "round {round}: {reason}");
        assert!(after < CONNECT_TIMEOUT / 2, "round {round}: {after:?}");
    }
}

/// Completes a handshake up to `connection.open-ok`.
fn hand_shake(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(&start())?;
    read_method(stream)?;
    stream.write_all(&tune())?;
    // tune-ok and open.
    read_method(stream)?;
    read_method(stream)?;
    stream.write_all(&method(10, 41, &[0]))
}

fn read_method(stream: &mut TcpStream) -> io::Result<()> {
    let mut head = [0; 7];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    stream.read_exact(&mut vec![0; length + 1])
}

/// Reply code, text, class and method of `connection.close`.
fn close() -> Vec<u8> {
    method(10, 50, &[&541_u16.to_be_bytes()[..], b"\x0fthe peer is ill", &[0; 4]].concat())
}

/// lapin may wait for the reply without end: one connection in some hundreds.
#[test]
fn a_connection_that_ends_before_a_reply_fails_the_request_at_once() {
    let cases: [fn(&mut TcpStream) -> io::Result<()>; 4] = [
        |_| Ok(()),
        read_method,
        |stream| stream.write_all(&close()),
        |stream| {
            read_method(stream)?;
            stream.write_all(&close())
        },
    ];
    for (case, end) in (0..100).flat_map(|_| cases.into_iter().enumerate()) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let broker = thread::spawn(move || {
            let (mut stream, _) = listener.accept()?;
            stream.read_exact(&mut [0; 8])?;
            hand_shake(&mut stream).and_then(|()| end(&mut stream))
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let began = Instant::now();
        let opened = runtime.block_on(async {
            let url = format!("amqp://guest:guest@127.0.0.1:{port}/%2f");
            let session = Broker::new(&url, "test").expect("a url").connect().await?;
            session.while_connected(session.channel()).await
        });
        assert!(opened.is_err() && began.elapsed() < CONNECT_TIMEOUT / 2, "case {case}: {opened:?}");
        broker.join().expect("no panic").expect("a client that shakes hands");
    }
}

/// A panic of lapin's thread drops the socket; lapin itself then reports nothing.
#[test]
fn a_socket_dropped_without_a_report_is_a_lost_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        stream.read_exact(&mut [0; 8])?;
        hand_shake(&mut stream)?;
        stream.read_to_end(&mut Vec::new())
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let lost = runtime.block_on(async {
        let url = format!("amqp://guest:guest@127.0.0.1:{port}/%2f");
        let session = Broker::new(&url, "test").expect("a url").connect().await.expect("a connection");
        session.socket_closed.cancel();
        let never = std::future::pending::<Result<(), PeerError>>();
        session.while_connected(never).await
    });
    assert!(
        matches!(&lost, Err(PeerError { kind: PeerErrorKind::Lost, text, .. }) if text.contains("panic")),
        "{lost:?}"
    );
}
