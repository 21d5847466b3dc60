//! Hostile clients of a listening edge.

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
    generator::{Protocol, carry_out},
    wire::{Socket, Wire},
};

/// Concurrent connections of most behaviours.
const FEW: usize = 4;
/// Connections that are held open silently.
const SILENT: usize = 64;
/// Concurrent connections of a flood.
const MANY: usize = 16;
/// Small messages per connection of a flood.
const MESSAGES: usize = 20;

/// Address of a listening edge.
#[derive(Debug, Clone)]
pub(crate) enum Endpoint {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Endpoint {
    pub(crate) fn connect(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(address) => Socket::Tcp(TcpStream::connect_timeout(address, Duration::from_secs(1))?),
            Self::Unix(path) => Socket::Unix(UnixStream::connect(path)?),
        })
    }
}

/// Running clients.
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
                        // The backlog is full; a busy loop would only use the processor.
                        thread::sleep(Duration::from_millis(1));
                        continue;
                    };
                    let number = connected.fetch_add(1, SeqCst);
                    // Any end of the connection is fine.
                    let _ = one(&*protocol, behaviour, number, socket, until);
                }
            })
        };
        let threads = (0..count).map(client).collect();
        Self { threads, connected }
    }

    /// Waits for all clients. Returns the number of connections.
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
        // Closing with RST avoids TIME_WAIT, which would use up the ports.
        set_socket_linger(stream, Some(Duration::ZERO))?;
    }
    // Reproducible random choices.
    fastrand::seed(number);
    let mut wire = Wire::new(socket, until)?;
    let greeted = number % 2 == 1;
    if behaviour != Behaviour::Floods {
        return carry_out(protocol, behaviour, greeted, &mut wire);
    }
    let request = if greeted { protocol.greet(&mut wire)? } else { Vec::new() };
    wire.write(&protocol.small(&request).repeat(MESSAGES))
}
