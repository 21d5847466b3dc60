//! Connections to the servers of an address, over streams with limits.

use std::{path::PathBuf, sync::Arc, time::Duration};

use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_user_timeout};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::{
    Client, Config, Connection, NoTls,
    config::{Host, LoadBalanceHosts},
    tls::NoTlsStream,
};

use super::{
    PostgresTls,
    address::Address,
    limits::{Budget, ServerLimit},
    postgres_error::PostgresError,
};
use crate::{HostPort, LimitedStream, PeerError, Transport, catch_panic, dial};

/// Default port.
const PORT: u16 = 5_432;
/// TCP user time-out: a connection whose sent bytes stay unacknowledged for longer is broken.
const UNACKED_MAX: Duration = Duration::from_secs(30);

/// Connection of the driver over a limited stream.
pub(super) type ServerConnection = Connection<LimitedStream<Box<dyn Transport>, ServerLimit>, NoTlsStream>;

/// Address of one server.
struct Target {
    /// Name by which a passfile knows it.
    name: String,
    port: u16,
    socket: Socket,
}

/// Socket of a server.
enum Socket {
    Tcp {
        /// Name that its certificate has.
        name: String,
        /// Name or address to connect to.
        host: String,
    },
    Unix(PathBuf),
}

/// Connections to the servers of `address`, in order of preference.
pub(super) struct Connector<'a> {
    address: &'a Address,
    budget: Arc<Budget>,
    targets: std::vec::IntoIter<Target>,
}

impl<'a> Connector<'a> {
    /// Takes all servers of `address`; their messages count against `budget`.
    pub(super) fn new(address: &'a Address, budget: Arc<Budget>) -> Self {
        let config = address.config();
        let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
        let mut targets: Vec<Target> = (0..hosts.len().max(addresses.len()))
            .map(|index| {
                let port = ports.get(index).or(ports.first()).copied().unwrap_or(PORT);
                let tcp = |name: String, host: String| Target {
                    name: name.clone(),
                    port,
                    socket: Socket::Tcp { name, host },
                };
                match (addresses.get(index), hosts.get(index)) {
                    (Some(address), Some(Host::Tcp(name))) => tcp(name.clone(), address.to_string()),
                    (Some(address), _) => tcp(address.to_string(), address.to_string()),
                    (None, Some(Host::Tcp(host))) => tcp(host.clone(), host.clone()),
                    (None, Some(Host::Unix(directory))) => Target {
                        name: directory.display().to_string(),
                        port,
                        socket: Socket::Unix(directory.join(format!(".s.PGSQL.{port}"))),
                    },
                    (None, None) => unreachable!("the index is below the longer one's length"),
                }
            })
            .collect();
        balance(config, &mut targets);
        Self { address, budget, targets: targets.into_iter() }
    }

    /// Connects to the next server; None after the last one.
    pub(super) async fn next(&mut self) -> Option<Result<(Client, ServerConnection), PostgresError>> {
        let target = self.targets.next()?;
        let connected = async {
            let stream = target.connect(self.address.tls()).await?;
            self.budget.renew();
            let stream = LimitedStream::new(stream, ServerLimit::new(self.budget.clone()));
            let config = self.address.config_for(&target.name, target.port);
            catch_panic(config.connect_raw(stream, NoTls))
                .await
                .map_err(|panic| PostgresError::of_panic("connecting", &panic))?
                .map_err(|error| PostgresError::of_request("connecting", &error, &self.address.login()))
        };
        Some(connected.await)
    }
}

impl Target {
    async fn connect(&self, tls: &PostgresTls) -> Result<Box<dyn Transport>, PostgresError> {
        match &self.socket {
            Socket::Tcp { name, host } => {
                let stream = dial(host, self.port).await.map_err(PostgresError::unconnected)?;
                configure(&stream).map_err(|error| PostgresError::unopened(error.to_string()))?;
                let at = HostPort { host: host.clone(), port: self.port };
                tls.secure(stream, name).await.map_err(|error| PostgresError::unsecured(&error, &at))
            }
            // A socket of this machine needs no TLS.
            Socket::Unix(path) => match UnixStream::connect(path).await {
                Ok(stream) => Ok(Box::new(stream)),
                Err(error) => Err(PostgresError::unconnected(PeerError::unconnected(&error))),
            },
        }
    }
}

/// Lets the system detect a broken connection.
fn configure(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, UNACKED_MAX)?;
    Ok(set_tcp_user_timeout(stream, UNACKED_MAX.as_millis() as u32)?)
}

/// Shuffles the servers of an address if its option `load_balance_hosts` is `random`.
fn balance<T>(config: &Config, servers: &mut [T]) {
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
        fastrand::shuffle(servers);
    }
}
