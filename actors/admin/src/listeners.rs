//! The listening sockets of the endpoint. A socket that cannot be opened at first can be opened later.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::OnceLock,
};

use crate::{AdminError, config::Addresses, port_owner::port_owner, unix_socket::UnixSocket};

/// Addresses to listen on, for all incarnations.
#[derive(Debug)]
pub(crate) struct ListenAddresses {
    configured: Addresses,
    /// Bound TCP address. If port 0 is configured, later incarnations use the same port again.
    tcp: OnceLock<SocketAddr>,
    /// As `tcp`, for the probes.
    probe: OnceLock<SocketAddr>,
}

/// The open sockets.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    pub(crate) tcp: Option<TcpListener>,
    pub(crate) unix: Option<UnixSocket>,
    pub(crate) probe: Option<TcpListener>,
}

/// Result of an attempt to open the missing sockets.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    /// True if a socket was opened.
    pub(crate) any: bool,
    pub(crate) errors: Vec<AdminError>,
}

impl ListenAddresses {
    pub(crate) fn new(addresses: Addresses) -> Self {
        Self { configured: addresses, tcp: OnceLock::new(), probe: OnceLock::new() }
    }

    /// True if the endpoint is turned off.
    pub(crate) fn is_empty(&self) -> bool {
        let Addresses { tcp, probe, unix, .. } = &self.configured;
        tcp.is_none() && probe.is_none() && unix.is_none()
    }

    /// Formats the addresses for messages.
    pub(crate) fn names(&self) -> String {
        let url = |bound: &OnceLock<SocketAddr>, configured: Option<SocketAddr>| {
            bound.get().copied().or(configured).map(|address| format!("http://{address}"))
        };
        let tcp = url(&self.tcp, self.configured.tcp);
        let probe = url(&self.probe, self.configured.probe).map(|url| format!("{url} (probes)"));
        let unix = self.configured.unix.as_ref().map(|path| path.display().to_string());
        tcp.into_iter().chain(unix).chain(probe).collect::<Vec<_>>().join(" and ")
    }
}

fn bind(bound: &OnceLock<SocketAddr>, wanted: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(bound.get().copied().unwrap_or(wanted))?;
    // An earlier incarnation may have set the same address.
    let _ = bound.set(listener.local_addr()?);
    Ok(listener)
}

impl Listeners {
    pub(crate) fn open_missing(&mut self, addresses: &ListenAddresses) -> Opened {
        let mut opened = Opened::default();
        if let (Some(path), None) = (&addresses.configured.unix, &self.unix) {
            match UnixSocket::open(path, addresses.configured.access) {
                Ok(socket) => self.unix = Some(socket),
                Err(error) => opened.errors.push(error),
            }
            opened.any |= self.unix.is_some();
        }
        if let (Some(address), None) = (addresses.configured.tcp, &self.tcp) {
            match bind(&addresses.tcp, address) {
                Ok(listener) => self.tcp = Some(listener),
                Err(source) => {
                    let owner = (source.kind() == io::ErrorKind::AddrInUse).then(|| port_owner(address));
                    opened.errors.push(AdminError::Tcp { address, source, owner });
                }
            }
            opened.any |= self.tcp.is_some();
        }
        if let (Some(address), None) = (addresses.configured.probe, &self.probe) {
            match bind(&addresses.probe, address) {
                Ok(listener) => self.probe = Some(listener),
                Err(source) => opened.errors.push(AdminError::ProbeTcp { address, source }),
            }
            opened.any |= self.probe.is_some();
        }
        opened
    }
}
