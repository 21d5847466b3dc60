//! The section `[admin]`.

use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
};

use orchestrator_edge::{SocketAccess, SocketListener, check_socket_path};
use orchestrator_subsystem::{BackupKind, BackupSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{AdminError, audit, token_file};

/// Section `[admin]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// TCP address `IP:PORT`, or "" for no TCP port. An address that is not a loopback one requires
    /// `tokens_file`. If the default address is in use, the program runs without it; an address that is set
    /// must be free.
    #[schemars(extend("format" = "address"))]
    pub listen: String,
    /// TCP address `IP:PORT` that serves only `/livez`, `/readyz` without reasons, and `/metrics`, to
    /// everybody and without tokens; for probes and scrapers on other hosts. "": none.
    #[schemars(extend("format" = "address"))]
    pub probe_listen: String,
    /// Path of a unix socket. Who can connect is an operator. There is none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub unix_socket: Option<PathBuf>,
    /// Mode of the unix socket, such as `"0660"`.
    pub unix_socket_mode: String,
    /// Owner of the unix socket, a name in `/etc/passwd` or a number. Unset: the user of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unix_socket_owner: Option<String>,
    /// Group of the unix socket, a name in `/etc/group` or a number. Unset: the group of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unix_socket_group: Option<String>,
    /// Allows commands that make a child panic or block its arbiter (`POST /v1/actors/{path}/panic`,
    /// `freeze`). For tests only.
    pub chaos: bool,
    /// File with lines `ROLE NAME TOKEN` for access over TCP. A `viewer` may read, an `operator` may also
    /// send commands. With "", every client of the loopback address is an operator. Nobody else may read the
    /// file: its mode is 0600, or 0440 or 0640 with a group of the program. A changed file is read again;
    /// while it is missing or invalid, no token is accepted.
    pub tokens_file: PathBuf,
    /// Audit log: a file to which one line of JSON is appended for each command. At 8 MiB it is renamed to
    /// `NAME.1`; four former files are kept. With "", commands are only logged.
    pub audit_file: PathBuf,
    /// Directory of the file that keeps the samples of the history over a planned restart; created at the
    /// stop. Unset: the directory of the subsystem's database, else `var`. With "", they are kept in memory
    /// only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_dir: Option<PathBuf>,
    /// Memory budget of the process, in bytes, such as `MemoryMax=` of its unit. While the process uses more,
    /// `orchestrator why` names the largest queues. Unset: 256 MiB and the bounds of all queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub memory_budget: Option<u64>,
    /// Accepted names in the `Host` header, besides `localhost` and IP addresses.
    #[schemars(extend("format" = "address"))]
    pub allowed_hosts: Vec<String>,
    /// Maximum number of concurrent readers of `/v1/events` on each of the two sockets. Limited to half of
    /// its connections.
    #[schemars(range(max = 10_000))]
    pub max_event_clients: usize,
}

/// Validated addresses to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) tcp: Option<SocketAddr>,
    /// Address of the probes alone.
    pub(crate) probe: Option<SocketAddr>,
    pub(crate) unix: Option<PathBuf>,
    /// Mode, owner and group of `unix`.
    pub(crate) access: SocketAccess,
}

impl AdminConfig {
    /// Default of `listen`.
    pub const DEFAULT_LISTEN: &'static str = "127.0.0.1:7117";

    /// Checks the section and the tokens file.
    ///
    /// # Errors
    /// The address is invalid, or reachable from other hosts without a token, or the tokens file is invalid.
    pub fn check(&self) -> Result<(), AdminError> {
        self.addresses()?;
        self.tokens_path().map_or(Ok(()), |path| token_file::read(path).map(drop))
    }

    pub(crate) fn addresses(&self) -> Result<Addresses, AdminError> {
        let tcp = match self.listen.as_str() {
            "" => None,
            listen => Some(self.address(listen)?),
        };
        let probe = match self.probe_listen.as_str() {
            "" => None,
            listen => Some(listen.parse().map_err(|_| AdminError::InvalidProbeAddress(listen.to_owned()))?),
        };
        if let Some(host) = self.allowed_hosts.iter().find(|host| !is_name(host)) {
            return Err(AdminError::InvalidHost(host.clone()));
        }
        if let Some(path) = &self.unix_socket {
            check_socket_path("admin.unix_socket", path)?;
        }
        let [owner, group] = [&self.unix_socket_owner, &self.unix_socket_group].map(Option::as_deref);
        let access = SocketAccess::new("admin.unix_socket", Some(&self.unix_socket_mode), owner, group)?;
        Ok(Addresses { tcp, probe, unix: self.unix_socket.clone(), access })
    }

    pub(crate) fn tokens_path(&self) -> Option<&Path> {
        given(&self.tokens_file)
    }

    pub(crate) fn audit_path(&self) -> Option<&Path> {
        given(&self.audit_file)
    }

    /// Instances that share a directory have different addresses or subsystems, and so different files.
    pub(crate) fn history_path(&self, subsystems: &[String]) -> Option<PathBuf> {
        let directory = given(self.history_dir.as_deref()?)?;
        let instance = format!("{subsystems:?} {:?} {:?}", self.listen, self.unix_socket);
        let [a, b, c, d, ..]: [u8; 32] = Sha256::digest(instance).into();
        Some(directory.join(format!("history-{a:02x}{b:02x}{c:02x}{d:02x}")))
    }

    /// Files of an instance with these subsystems. The tokens are the operator's.
    pub fn files_to_back_up(&self, subsystems: &[String]) -> BackupSet {
        let mut set = BackupSet::default();
        if let Some(path) = self.history_path(subsystems) {
            set = set.with("history", &path, BackupKind::File);
        }
        // The newest first: a file that is renamed meanwhile is copied twice, and none is left out.
        for (suffix, path) in self.audit_path().into_iter().flat_map(audit::files) {
            set = set.with(&format!("audit{suffix}"), &path, BackupKind::Lines);
        }
        set
    }

    /// Address at which an instance with this configuration would listen and another process listens now.
    pub fn address_in_use(&self) -> Option<String> {
        let Addresses { tcp, unix, .. } = self.addresses().ok()?;
        let is_in_use = |address: &SocketAddr| {
            TcpListener::bind(address).is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
        };
        let unix =
            unix.filter(|path| SocketListener::at(path).is_some()).map(|path| path.display().to_string());
        unix.or_else(|| tcp.filter(is_in_use).map(|address| address.to_string()))
    }

    fn address(&self, listen: &str) -> Result<SocketAddr, AdminError> {
        let address: SocketAddr =
            listen.parse().map_err(|_| AdminError::InvalidAddress(listen.to_owned()))?;
        if address.ip().to_canonical().is_loopback() || self.tokens_path().is_some() {
            Ok(address)
        } else {
            Err(AdminError::NotLoopback(address))
        }
    }
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            listen: Self::DEFAULT_LISTEN.to_owned(),
            probe_listen: String::new(),
            unix_socket: None,
            unix_socket_mode: "0600".to_owned(),
            unix_socket_owner: None,
            unix_socket_group: None,
            chaos: false,
            tokens_file: PathBuf::new(),
            audit_file: PathBuf::new(),
            history_dir: None,
            memory_budget: None,
            allowed_hosts: Vec::new(),
            max_event_clients: 16,
        }
    }
}

/// None for "".
fn given(path: &Path) -> Option<&Path> {
    Some(path).filter(|path| !path.as_os_str().is_empty())
}

/// A name has no port.
fn is_name(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(text: &str) -> Result<Addresses, AdminError> {
        AdminConfig { listen: text.to_owned(), ..AdminConfig::default() }.addresses()
    }

    #[test]
    fn loopback_addresses_are_accepted() {
        for text in ["127.0.0.1:7117", "127.9.9.9:1", "[::1]:7117", "[::ffff:127.0.0.1]:7117"] {
            assert!(listen(text).is_ok(), "{text}");
        }
        assert_eq!(listen("").unwrap().tcp, None);
    }

    #[test]
    fn other_addresses_are_refused_with_advice() {
        for text in ["0.0.0.0:7117", "[::]:7117", "192.168.1.4:80"] {
            let error = listen(text).unwrap_err().to_string();
            assert!(error.contains("not a loopback address") && error.contains("tokens_file"), "{error}");
            let config =
                AdminConfig { listen: text.to_owned(), tokens_file: "t".into(), ..AdminConfig::default() };
            assert!(config.addresses().is_ok(), "a tokens file allows the address");
            assert!(
                config.check().unwrap_err().to_string().contains("admin.tokens_file"),
                "the tokens file is checked"
            );
        }
        for text in ["localhost:7117", "7117", "127.0.0.1", " "] {
            let error = listen(text).unwrap_err().to_string();
            assert!(error.contains("127.0.0.1:7117"), "{error}");
        }
    }

    #[test]
    fn probes_may_listen_on_any_address() {
        let probe =
            |text: &str| AdminConfig { probe_listen: text.to_owned(), ..AdminConfig::default() }.addresses();
        assert_eq!(probe("").unwrap().probe, None);
        assert_eq!(probe("0.0.0.0:9100").unwrap().probe, "0.0.0.0:9100".parse().ok());
        assert!(probe("9100").unwrap_err().to_string().contains("admin.probe_listen = \"9100\""));
    }

    #[test]
    fn allowed_hosts_have_no_scheme_or_port() {
        for (host, good) in [("queue.example", true), ("", false), ("h:80", false), ("http://h", false)] {
            let config = AdminConfig { allowed_hosts: vec![host.to_owned()], ..AdminConfig::default() };
            assert_eq!(config.check().is_ok(), good, "{host}");
        }
    }

    #[test]
    fn unknown_keys_are_refused_and_missing_ones_have_defaults() {
        assert_eq!(serde_json::from_str::<AdminConfig>("{}").unwrap(), AdminConfig::default());
        let error = serde_json::from_str::<AdminConfig>(r#"{"listn": ""}"#).unwrap_err().to_string();
        assert!(error.contains("unknown field `listn`"), "{error}");
    }
}
