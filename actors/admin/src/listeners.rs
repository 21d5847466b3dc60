//! The sockets that the endpoint accepts on. They are opened before anything else, and one that is missing can be opened later.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::OnceLock,
};

use crate::{AdminError, config::Addresses, unix_socket::UnixSocket};

/// Where to listen, for all incarnations.
#[derive(Debug)]
pub(crate) struct Places {
    addresses: Addresses,
    /// Port 0 means any, once: later incarnations come back to the same one.
    tcp: OnceLock<SocketAddr>,
}

/// What is open.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    pub(crate) tcp: Option<TcpListener>,
    pub(crate) unix: Option<UnixSocket>,
}

/// What came of an attempt to open what is missing.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    pub(crate) any: bool,
    pub(crate) trouble: Vec<AdminError>,
}

impl Places {
    pub(crate) fn new(addresses: Addresses) -> Self {
        Self { addresses, tcp: OnceLock::new() }
    }

    /// Is the endpoint turned off?
    pub(crate) fn is_empty(&self) -> bool {
        self.addresses.tcp.is_none() && self.addresses.unix.is_none()
    }

    /// For people: where the endpoint is.
    pub(crate) fn names(&self) -> String {
        let tcp = self.tcp.get().copied().or(self.addresses.tcp).map(|address| format!("http://{address}"));
        let unix = self.addresses.unix.as_ref().map(|path| path.display().to_string());
        tcp.into_iter().chain(unix).collect::<Vec<_>>().join(" and ")
    }

    fn bind(&self, wanted: SocketAddr) -> io::Result<TcpListener> {
        let listener = TcpListener::bind(self.tcp.get().copied().unwrap_or(wanted))?;
        // Set already by an earlier incarnation: then it is the same.
        let _ = self.tcp.set(listener.local_addr()?);
        Ok(listener)
    }
}

impl Listeners {
    /// Opens what is not open.
    pub(crate) fn open_missing(&mut self, places: &Places) -> Opened {
        let mut opened = Opened::default();
        if let (Some(path), None) = (&places.addresses.unix, &self.unix) {
            match UnixSocket::open(path) {
                Ok(socket) => self.unix = Some(socket),
                Err(error) => opened.trouble.push(error),
            }
            opened.any |= self.unix.is_some();
        }
        if let (Some(address), None) = (places.addresses.tcp, &self.tcp) {
            match places.bind(address) {
                Ok(listener) => self.tcp = Some(listener),
                Err(source) => opened.trouble.push(AdminError::Tcp { address, source }),
            }
            opened.any |= self.tcp.is_some();
        }
        opened
    }
}
