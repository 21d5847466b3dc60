//! Connecting to a server, or to the first of several that is of use, over a stream that keeps the limits.

use std::{io, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use orchestrator_edge::{LimitedStream, Transport};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_user_timeout};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio_postgres::{
    Client, Config, Connection, NoTls,
    config::{Host, LoadBalanceHosts},
    tls::NoTlsStream,
};

use super::limits::{Budget, ServerLimit};

/// Port of a server whose address names none.
const PORT: u16 = 5_432;
/// Time that sent bytes may go unacknowledged before the connection counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A connection, before and after it was let in.
pub(super) type Wire = Connection<LimitedStream<Box<dyn Transport>, ServerLimit>, NoTlsStream>;

/// One address to be tried.
enum Target {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// Streams to the servers that `config` names, in the order in which they are to be tried.
pub(super) struct Dial<'a> {
    config: &'a Config,
    budget: Arc<Budget>,
    targets: std::vec::IntoIter<Target>,
}

impl<'a> Dial<'a> {
    /// All servers of `config`; what they send is spent from `budget`.
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

    /// Connects to the next server; None when there is no further one.
    pub(super) async fn next(&mut self) -> Option<Result<(Client, Wire), Failure>> {
        let target = self.targets.next()?;
        let connected = async {
            let stream = target.connect().await.map_err(Failure::Connect)?;
            self.budget.renew();
            let stream = LimitedStream::new(stream, ServerLimit::new(self.budget.clone()));
            self.config.connect_raw(stream, NoTls).await.map_err(Failure::Greeting)
        };
        Some(connected.await)
    }
}

/// Why there is no connection.
pub(super) enum Failure {
    Connect(io::Error),
    Greeting(tokio_postgres::Error),
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
                    set_tcp_keepidle(&stream, SILENCE_MAX)?;
                    set_tcp_user_timeout(&stream, SILENCE_MAX.as_millis() as u32)?;
                    return Ok(Box::new(stream));
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}
