//! Proxy in front of a server that can be made unavailable or frozen.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use orchestrator_harness::free_port;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Works,
    /// Connections are refused.
    Away,
    /// Connections stay open and new ones are accepted, but no byte is forwarded, as with a process that is
    /// suspended.
    Frozen,
}

/// Loopback port in front of a server.
pub(crate) struct Relay {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
}

struct State {
    mode: Mode,
    open: Vec<TcpStream>,
}

impl Relay {
    /// Opens a port in front of the server at `server`, `HOST:PORT`.
    pub(crate) fn to(server: &str) -> Self {
        let server = server.to_owned();
        let (port, state) =
            (free_port(), Arc::new(Mutex::new(State { mode: Mode::Works, open: Vec::new() })));
        let shared = state.clone();
        // Ends with the test's process.
        thread::spawn(move || {
            loop {
                if mode(&shared) == Mode::Away {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                }
                let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port of ours");
                listener.set_nonblocking(true).expect("a listener");
                while mode(&shared) != Mode::Away {
                    match listener.accept() {
                        Ok((stream, _)) => forward(stream, &server, &shared),
                        Err(_) => thread::sleep(Duration::from_millis(2)),
                    }
                }
            }
        });
        Self { port, state }
    }

    pub(crate) fn turn(&self, mode: Mode) {
        let mut state = lock(&self.state);
        state.mode = mode;
        if mode != Mode::Frozen {
            // A connection that was frozen may have lost its time-outs.
            state.open.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn mode(state: &Mutex<State>) -> Mode {
    lock(state).mode
}

fn forward(stream: TcpStream, server: &str, state: &Arc<Mutex<State>>) {
    stream.set_nonblocking(false).expect("a socket");
    let Ok(server) = TcpStream::connect(server) else { return };
    let both = || {
        Some([
            (stream.try_clone().ok()?, server.try_clone().ok()?),
            (server.try_clone().ok()?, stream.try_clone().ok()?),
        ])
    };
    let Some(both) = both() else { return };
    lock(state).open.extend([stream, server]);
    for (mut from, mut to) in both {
        let state = state.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                while mode(&state) == Mode::Frozen {
                    thread::sleep(Duration::from_millis(5));
                }
                if to.write_all(&buffer[..read]).is_err() {
                    break;
                }
            }
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
}
