//! Hostile clients of a listening edge: a few connections at a time, or as many as it takes.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::net::sockopt::set_socket_linger;

use crate::{
    behaviour::Behaviour,
    generator::{Protocol, strike},
    wire::{Socket, Wire},
};

/// Connections at a time where the number is not the attack.
const FEW: usize = 4;
/// Connections that are held open without a word.
const SILENT: usize = 64;
/// Connections at a time of a flood.
const MANY: usize = 16;
/// Small messages on each connection of a flood, before the next connection.
const MESSAGES: usize = 20;

/// Where an edge listens.
#[derive(Debug, Clone)]
pub(crate) enum Endpoint {
    /// TCP.
    Tcp(SocketAddr),
    /// Unix socket.
    Unix(PathBuf),
}

impl Endpoint {
    fn connect(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(address) => Socket::Tcp(TcpStream::connect_timeout(address, Duration::from_secs(1))?),
            Self::Unix(path) => Socket::Unix(UnixStream::connect(path)?),
        })
    }
}

/// Clients at work.
pub(crate) struct Clients {
    threads: Vec<JoinHandle<()>>,
    connected: Arc<AtomicU64>,
}

impl Clients {
    /// Attacks `endpoint` until `until`.
    pub(crate) fn attack(
        endpoint: &Endpoint,
        protocol: &Arc<dyn Protocol>,
        behaviour: Behaviour,
        until: Instant,
    ) -> Self {
        let count = match behaviour {
            Behaviour::NeverAnswers => SILENT,
            Behaviour::Floods => MANY,
            _ => FEW,
        };
        let connected = Arc::new(AtomicU64::new(0));
        let client = |_| {
            let (endpoint, protocol, connected) = (endpoint.clone(), protocol.clone(), connected.clone());
            thread::spawn(move || {
                while Instant::now() < until {
                    let Ok(socket) = endpoint.connect() else {
                        // The backlog is full; a flood without a pause would only take the processor.
                        thread::sleep(Duration::from_millis(1));
                        continue;
                    };
                    let number = connected.fetch_add(1, SeqCst);
                    // However the connection ends.
                    let _ = one(&*protocol, behaviour, number, socket, until);
                }
            })
        };
        let threads = (0..count).map(client).collect();
        Self { threads, connected }
    }

    /// Waits until all have ended. Returns how many connections they made.
    pub(crate) fn join(self) -> u64 {
        for thread in self.threads {
            thread.join().expect("a client that does not panic");
        }
        self.connected.load(SeqCst)
    }
}

fn one(
    protocol: &dyn Protocol,
    behaviour: Behaviour,
    number: u64,
    socket: Socket,
    until: Instant,
) -> io::Result<()> {
    if let (Socket::Tcp(stream), Behaviour::Floods | Behaviour::ClosesAfterEachByte) = (&socket, behaviour) {
        // Else the system runs out of ports: each keeps its own for a minute after its end.
        set_socket_linger(stream, Some(Duration::ZERO))?;
    }
    // The same choices in each run.
    fastrand::seed(number);
    let mut wire = Wire::new(socket, until)?;
    let greeted = number % 2 == 1;
    if behaviour != Behaviour::Floods {
        return strike(protocol, behaviour, greeted, &mut wire);
    }
    let request = if greeted { protocol.greet(&mut wire)? } else { Vec::new() };
    wire.write(&protocol.small(&request).repeat(MESSAGES))
}
