//! Proxy between an edge and its server that can be switched to a hostile peer.

use std::{
    io::{Read, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Instant,
};

use crate::{
    behaviour::Behaviour,
    generator::{Protocol, carry_out},
    wire::{Socket, Wire},
};

/// Maximum size of one read of a proxy, bytes.
const RELAYED: usize = 64 << 10;

/// Listening loopback port.
#[derive(Clone)]
pub(crate) struct Switch(Arc<Shared>);

struct Shared {
    address: SocketAddr,
    state: Mutex<State>,
    gate: Arc<Gate>,
    /// Number of connections that hostile peers accepted or froze.
    attacked: AtomicU64,
}

/// Holds back the data and the ends of connections to the real server while it is frozen.
#[derive(Default)]
struct Gate {
    is_frozen: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn freeze(&self, is_frozen: bool) {
        *self.is_frozen.lock().unwrap_or_else(PoisonError::into_inner) = is_frozen;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let is_frozen = self.is_frozen.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(is_frozen, |is_frozen| *is_frozen));
    }
}

struct State {
    mode: Mode,
    /// Both ends of every connection, to cut them. Closed ones are removed at the next connection.
    open: Vec<TcpStream>,
}

impl State {
    fn cut(&mut self) {
        for stream in self.open.drain(..) {
            // The connection may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[derive(Clone)]
enum Mode {
    Sane(SocketAddr),
    Hostile(Arc<dyn Protocol>, Behaviour, Instant),
    Closed,
}

impl Switch {
    /// Opens a port that forwards to `real`, which need not listen yet.
    pub(crate) fn to(real: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let state = State { mode: Mode::Sane(real), open: Vec::new() };
        let address = listener.local_addr().expect("its address");
        let (gate, attacked) = (Arc::default(), AtomicU64::new(0));
        let switch = Self(Arc::new(Shared { address, state: Mutex::new(state), gate, attacked }));
        let accepting = Arc::downgrade(&switch.0);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared: Option<Arc<Shared>> = accepting.upgrade();
                if !shared.is_some_and(|shared| shared.take(stream)) {
                    return;
                }
            }
        });
        switch
    }

    /// As [`Switch::to`], for a port of loopback.
    pub(crate) fn to_port(port: u16) -> Self {
        Self::to(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    /// Address for the edge's configuration.
    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Switches to a hostile peer. Cuts all connections, or freezes them.
    pub(crate) fn turn_hostile(&self, protocol: Arc<dyn Protocol>, behaviour: Behaviour, until: Instant) {
        self.turn(Mode::Hostile(protocol, behaviour, until));
    }

    /// Cuts all connections and switches to the real server.
    pub(crate) fn turn_sane(&self, real: SocketAddr) {
        self.turn(Mode::Sane(real));
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        self.0.lock().cut();
    }

    /// Number of connections that hostile peers accepted or froze.
    pub(crate) fn attacked(&self) -> u64 {
        self.0.attacked.load(SeqCst)
    }

    fn turn(&self, mode: Mode) {
        self.0.turn(mode);
    }
}

impl Shared {
    fn turn(&self, mode: Mode) {
        let mut state = self.lock();
        let freezes = matches!(mode, Mode::Hostile(_, Behaviour::FreezesAfterConnecting, _));
        if freezes {
            self.attacked.fetch_add(state.open.len() as u64 / 2, SeqCst);
        } else {
            state.cut();
        }
        state.mode = mode;
        self.gate.freeze(freezes);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a connection on its own threads. Returns false once the switch is closed.
    fn take(&self, stream: TcpStream) -> bool {
        let mut state = self.lock();
        state.open.retain(|stream| stream.peer_addr().is_ok());
        let Ok(kept) = stream.try_clone() else { return true };
        state.open.push(kept);
        match state.mode.clone() {
            Mode::Sane(real) => {
                let Ok(server) = TcpStream::connect(real) else {
                    // The closest that a proxy can come to a refused connection.
                    let _ = stream.shutdown(Shutdown::Both);
                    return true;
                };
                state.open.extend(server.try_clone());
                relay(stream, server, &self.gate);
            }
            Mode::Hostile(protocol, behaviour, until) => {
                let number = self.attacked.fetch_add(1, SeqCst);
                // Alternates between before and after the handshake, also for pairs of connections.
                let greeted = (number ^ (number >> 1)) & 1 == 1;
                thread::spawn(move || {
                    // Reproducible random choices.
                    fastrand::seed(number);
                    let wire = Wire::new(Socket::Tcp(stream), until);
                    // Any end of the connection is fine.
                    let _ = wire.and_then(|mut wire| carry_out(&*protocol, behaviour, greeted, &mut wire));
                });
            }
            Mode::Closed => return false,
        }
        true
    }
}

fn relay(one: TcpStream, other: TcpStream, gate: &Arc<Gate>) {
    let _ = (one.set_nodelay(true), other.set_nodelay(true));
    let (Ok(one_again), Ok(other_again)) = (one.try_clone(), other.try_clone()) else { return };
    for (mut from, mut to) in [(one, other), (other_again, one_again)] {
        let gate = gate.clone();
        thread::spawn(move || {
            let mut bytes = vec![0; RELAYED];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                gate.pass();
                if to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            gate.pass();
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if Arc::strong_count(&self.0) == 1 {
            self.turn(Mode::Closed);
            // Wakes the accepting thread, which then ends.
            let _ = TcpStream::connect(self.0.address);
        }
    }
}
