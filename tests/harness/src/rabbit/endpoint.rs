//! Address and ports of a private broker.

use std::{
    io,
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

use crate::redis::free_port;

/// Default port of AMQP.
pub(super) const DEFAULT_PORT: u16 = 5672;

/// Address and ports of a broker.
#[derive(Debug, Clone, Copy)]
pub(super) struct BrokerEndpoint {
    pub(super) address: Ipv4Addr,
    pub(super) amqp: u16,
    /// TLS port.
    pub(super) secured: Option<u16>,
    pub(super) distribution: u16,
    pub(super) epmd: u16,
}

impl BrokerEndpoint {
    /// Loopback with free ports.
    pub(super) fn free() -> Self {
        let [amqp, distribution, epmd] = [(); 3].map(|()| free_port());
        Self { address: Ipv4Addr::LOCALHOST, amqp, secured: None, distribution, epmd }
    }

    /// Name of the Erlang node.
    pub(super) fn node(self) -> String {
        format!("t{}@localhost", self.amqp)
    }

    pub(super) fn connect(self) -> io::Result<TcpStream> {
        TcpStream::connect((self.address, self.amqp))
    }
}

/// Returns a loopback address whose default AMQP port is free.
///
/// Each process uses another range and each address once, because brokers bind late.
pub(super) fn free_address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, _, second, third] = std::process::id().to_be_bytes();
    let mut addresses =
        (0..254).map(|_| Ipv4Addr::new(127, second, third, NEXT.fetch_add(1, Relaxed).max(1)));
    // 127.0.0.1 may be used by a system broker.
    let free = addresses.find(|address| {
        !address.eq(&Ipv4Addr::LOCALHOST) && TcpListener::bind((*address, DEFAULT_PORT)).is_ok()
    });
    free.expect("a free address of loopback")
}
