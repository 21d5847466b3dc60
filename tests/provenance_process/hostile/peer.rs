//! A server that is hostile until it is told to be sane: from then on it leads to a real one.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use orchestrator_harness::{Instance, Link, Site, eventually};

/// Memory that a hostile server may take beside what the process has, bytes.
pub(crate) const GROWTH_MAX: u64 = 160 << 20;

/// A server on a port of loopback.
pub(crate) struct Peer {
    address: SocketAddr,
    sane: Arc<AtomicBool>,
}

impl Peer {
    /// Does `hostile` to each connection, each in a thread of its own, until it is [`Peer::sane`] and leads to `real`.
    pub(crate) fn start(
        real: Option<SocketAddr>,
        hostile: impl Fn(&mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, sane) = (listener.local_addr().expect("an address"), Arc::<AtomicBool>::default());
        let (is_sane, hostile) = (sane.clone(), Arc::new(hostile));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let hostile = hostile.clone();
                match real.filter(|_| is_sane.load(SeqCst)) {
                    Some(real) => forward(stream, real),
                    // It ends when the other side has enough.
                    None => drop(thread::spawn(move || hostile(&mut stream))),
                }
            }
        });
        Self { address, sane }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn turn_sane(&self) {
        self.sane.store(true, SeqCst);
    }
}

fn forward(near: TcpStream, real: SocketAddr) {
    let Ok(far) = TcpStream::connect(real) else { return };
    for (mut from, mut to) in [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))]
        .map(|(from, to)| (from.expect("a handle"), to.expect("a handle")))
    {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

/// Reads `length` bytes.
pub(crate) fn read(stream: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).map(|()| bytes)
}

/// Writes `bytes` until nobody takes them.
pub(crate) fn flood(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    loop {
        stream.write_all(bytes)?;
    }
}

/// Waits until the link of `child` is down because of `reason`; the process took no more memory than it may since `before`.
pub(crate) fn refused(site: &Site, instance: &Instance, child: &str, reason: &str, before: u64) {
    let mut last = Link { state: String::new(), reason: String::new() };
    let held = || {
        last = site.link(child);
        last.reason.contains(reason)
    };
    eventually(&format!("{child} to be down: {reason}"), held);
    let grown = instance.memory("VmHWM").saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{reason}: {grown} bytes");
    assert!(last.reason.len() < 700, "{}", last.reason);
}
