//! Fake data port (8889) of a PandABox.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use orchestrator_harness::{DEADLINE, wait_for};

/// Server with one connection at a time.
pub(crate) struct PandaBox {
    listener: TcpListener,
    client: Option<TcpStream>,
}

impl PandaBox {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        // So that the wait for a client can time out.
        listener.set_nonblocking(true).expect("a socket of ours");
        Self { listener, client: None }
    }

    /// Address of the port.
    pub(crate) fn url(&self) -> String {
        format!("tcp://{}", self.listener.local_addr().expect("an address"))
    }

    /// Accepts the next connection and sends `pieces` over it, one packet each.
    ///
    /// The client must have closed the former connection.
    pub(crate) fn play(&mut self, pieces: impl Iterator<Item = String>) {
        let (mut client, _) = wait_for("a connection to the box", || self.listener.accept().ok());
        client.set_nonblocking(false).expect("a socket of ours");
        client.set_nodelay(true).expect("a socket of ours");
        client.set_read_timeout(Some(DEADLINE)).expect("a socket of ours");
        let mut hello = [0];
        client.read_exact(&mut hello).expect("hello");
        assert_eq!(&hello, b"\n");
        client.write_all(b"OK\n").expect("it listens");
        for piece in pieces {
            client.write_all(piece.as_bytes()).expect("it listens");
        }
        if let Some(mut former) = self.client.replace(client) {
            assert_eq!(former.read(&mut hello).expect("an end"), 0, "the former connection is closed");
        }
    }
}
