//! The `[admin]` section: where the endpoint listens, and for whom. Nothing is bound here.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AdminError, token_file};

/// The `[admin]` section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// TCP address, `IP:PORT`; "" keeps off TCP. Others than loopback ones need `tokens_file`.
    #[schemars(extend("format" = "address"))]
    pub listen: String,
    /// Unix socket, made with mode 0600; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub unix_socket: Option<PathBuf>,
    /// Lets an operator make children panic and arbiters freeze (`POST /v1/actors/{path}/panic`, `freeze`): for tests only.
    pub chaos: bool,
    /// Who may come in over TCP: a file of mode 0600 with lines `ROLE NAME TOKEN`, where a viewer may look and an
    /// operator command as well. "": whoever reaches the loopback address. It is read again when it changes.
    pub tokens_file: PathBuf,
    /// Who commanded what, when, why, and what came of it: one JSON object a line is appended. "": in the log only.
    pub audit_file: PathBuf,
    /// Names by which clients may call this endpoint, besides `localhost` and IP addresses.
    #[schemars(extend("format" = "address"))]
    pub allowed_hosts: Vec<String>,
    /// Most readers of `/v1/events` at once, on each of the two sockets; at most half of its connections.
    #[schemars(range(max = 10_000))]
    pub max_event_clients: usize,
}

/// Where to listen, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) tcp: Option<SocketAddr>,
    pub(crate) unix: Option<PathBuf>,
}

impl AdminConfig {
    /// The address of a configuration that says nothing.
    pub const DEFAULT_LISTEN: &'static str = "127.0.0.1:7117";

    /// Checks the section, and the tokens file if it names one.
    ///
    /// # Errors
    /// The address is none, or others than this machine could reach it without a token; the tokens file is not as it
    /// must be.
    pub fn check(&self) -> Result<(), AdminError> {
        self.addresses()?;
        self.tokens_path().map_or(Ok(()), |path| token_file::read(path).map(drop))
    }

    /// For a person at a terminal: where the endpoint is and what to do with it. Empty when it is off.
    pub fn greeting(&self) -> String {
        let tcp = (!self.listen.is_empty()).then(|| format!("http://{}/", self.listen));
        let how = if tcp.is_some() { "open it in a browser, or run" } else { "see" };
        let unix = self.unix_socket.as_ref().map(|path| path.display().to_string());
        let places: Vec<_> = tcp.into_iter().chain(unix).collect();
        if places.is_empty() {
            return String::new();
        }
        format!("  admin   {}  ({how} `orchestrator tree`)\n", places.join(" and "))
    }

    pub(crate) fn addresses(&self) -> Result<Addresses, AdminError> {
        let tcp = match self.listen.as_str() {
            "" => None,
            listen => Some(self.address(listen)?),
        };
        if let Some(host) = self.allowed_hosts.iter().find(|host| !is_name(host)) {
            return Err(AdminError::NoHost(host.clone()));
        }
        Ok(Addresses { tcp, unix: self.unix_socket.clone() })
    }

    pub(crate) fn tokens_path(&self) -> Option<&Path> {
        Some(self.tokens_file.as_path()).filter(|path| !path.as_os_str().is_empty())
    }

    pub(crate) fn audit_path(&self) -> Option<&Path> {
        Some(self.audit_file.as_path()).filter(|path| !path.as_os_str().is_empty())
    }

    fn address(&self, listen: &str) -> Result<SocketAddr, AdminError> {
        let address: SocketAddr = listen.parse().map_err(|_| AdminError::NoAddress(listen.to_owned()))?;
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
            unix_socket: None,
            chaos: false,
            tokens_file: PathBuf::new(),
            audit_file: PathBuf::new(),
            allowed_hosts: Vec::new(),
            max_event_clients: 16,
        }
    }
}

/// A host as it stands in a `Host` header, without its port.
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
    fn loopback_addresses_are_taken() {
        for text in ["127.0.0.1:7117", "127.9.9.9:1", "[::1]:7117", "[::ffff:127.0.0.1]:7117"] {
            assert!(listen(text).is_ok(), "{text}");
        }
        assert_eq!(listen("").unwrap().tcp, None);
    }

    #[test]
    fn others_are_refused_with_what_to_do() {
        for text in ["0.0.0.0:7117", "[::]:7117", "192.168.1.4:80"] {
            let error = listen(text).unwrap_err().to_string();
            assert!(error.contains("not a loopback address") && error.contains("tokens_file"), "{error}");
            let config =
                AdminConfig { listen: text.to_owned(), tokens_file: "t".into(), ..AdminConfig::default() };
            assert!(config.addresses().is_ok(), "with tokens");
            assert!(config.check().unwrap_err().to_string().contains("admin.tokens_file"), "which is read");
        }
        for text in ["localhost:7117", "7117", "127.0.0.1", " "] {
            let error = listen(text).unwrap_err().to_string();
            assert!(error.contains("127.0.0.1:7117"), "{error}");
        }
    }

    #[test]
    fn hosts_are_names() {
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
