//! Connections to the servers of an address, over streams with limits.

use std::{io, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use orchestrator_edge::{LimitedStream, Transport, catch_panic};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_user_timeout};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio_postgres::{
    Client, Config, Connection, NoTls,
    config::{Host, LoadBalanceHosts},
    tls::NoTlsStream,
};

use super::{
    error::{explain, unconnected},
    limits::{Budget, ServerLimit},
};
use crate::store::StoreError;

/// Default port.
const PORT: u16 = 5_432;
/// TCP user time-out: a connection whose sent bytes stay unacknowledged for longer is broken.
const UNACKED_MAX: Duration = Duration::from_secs(30);

/// Connection of the driver over a limited stream.
pub(super) type ServerConnection = Connection<LimitedStream<Box<dyn Transport>, ServerLimit>, NoTlsStream>;

/// Address of one server.
enum Target {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// Connections to the servers of `config`, in order of preference.
pub(super) struct Connector<'a> {
    config: &'a Config,
    budget: Arc<Budget>,
    targets: std::vec::IntoIter<Target>,
}

impl<'a> Connector<'a> {
    /// Takes all servers of `config`; their messages count against `budget`.
    pub(super) fn new(config: &'a Config, budget: Arc<Budget>) -> Self {
        let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
        let mut targets: Vec<Target> = (0..hosts.len().max(addresses.len()))
            .map(|index| {
                let port = ports.get(index).or(ports.first()).copied().unwrap_or(PORT);
                match (addresses.get(index), hosts.get(index)) {
                    (Some(address), _) => Target::Tcp(IpAddr::to_string(address), port),
                    (None, Some(Host::Tcp(host))) => Target::Tcp(host.clone(), port),
                    (None, Some(Host::Unix(directory))) => {
                        Target::Unix(directory.join(format!(".s.PGSQL.{port}")))
                    }
                    (None, None) => unreachable!("the index is below the longer one's length"),
                }
            })
            .collect();
        if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
            fastrand::shuffle(&mut targets);
        }
        Self { config, budget, targets: targets.into_iter() }
    }

    /// Connects to the next server; None after the last one.
    pub(super) async fn next(&mut self) -> Option<Result<(Client, ServerConnection), StoreError>> {
        let target = self.targets.next()?;
        let connected = async {
            let stream = target.connect().await.map_err(|error| unconnected(&error))?;
            self.budget.renew();
            let stream = LimitedStream::new(stream, ServerLimit::new(self.budget.clone()));
            catch_panic(self.config.connect_raw(stream, NoTls))
                .await
                .map_err(|panic| StoreError::Unavailable(format!("connecting: {panic}")))?
                .map_err(|error| explain("connecting", &error))
        };
        Some(connected.await)
    }
}

impl Target {
    async fn connect(&self) -> io::Result<Box<dyn Transport>> {
        let (host, port) = match self {
            Self::Tcp(host, port) => (host.as_str(), *port),
            Self::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
        };
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
        for address in lookup_host((host, port)).await? {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    set_socket_keepalive(&stream, true)?;
                    set_tcp_keepidle(&stream, UNACKED_MAX)?;
                    set_tcp_user_timeout(&stream, UNACKED_MAX.as_millis() as u32)?;
                    return Ok(Box::new(stream));
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}
