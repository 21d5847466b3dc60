//! The `[admin]` section: where the endpoint listens. Pure; nothing is bound here.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::AdminError;

/// The `[admin]` section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// TCP address, `IP:PORT`, loopback only; "" keeps off TCP.
    pub listen: String,
    /// Unix socket, made with mode 0600; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unix_socket: Option<PathBuf>,
    /// Lets an operator inject panics with `POST /v1/actors/{path}/panic`: for tests only.
    pub chaos: bool,
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

    /// Checks the section.
    ///
    /// # Errors
    /// The address is none, or others than this machine could reach it.
    pub fn check(&self) -> Result<(), AdminError> {
        self.addresses().map(drop)
    }

    /// For a person at a terminal: where the endpoint is and what to do with it. Empty when it is off.
    pub fn greeting(&self) -> String {
        let tcp = (!self.listen.is_empty()).then(|| format!("http://{}", self.listen));
        let unix = self.unix_socket.as_ref().map(|path| path.display().to_string());
        let places: Vec<_> = tcp.into_iter().chain(unix).collect();
        if places.is_empty() {
            return String::new();
        }
        format!("  admin   {}  (see `orchestrator tree`)\n", places.join(" and "))
    }

    pub(crate) fn addresses(&self) -> Result<Addresses, AdminError> {
        let tcp = match self.listen.as_str() {
            "" => None,
            listen => Some(loopback(listen)?),
        };
        Ok(Addresses { tcp, unix: self.unix_socket.clone() })
    }
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self { listen: Self::DEFAULT_LISTEN.to_owned(), unix_socket: None, chaos: false }
    }
}

fn loopback(listen: &str) -> Result<SocketAddr, AdminError> {
    let address: SocketAddr = listen.parse().map_err(|_| AdminError::NoAddress(listen.to_owned()))?;
    if address.ip().to_canonical().is_loopback() {
        Ok(address)
    } else {
        Err(AdminError::NotLoopback(address))
    }
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
            assert!(error.contains("not a loopback address") && error.contains("ssh"), "{error}");
        }
        for text in ["localhost:7117", "7117", "127.0.0.1", " "] {
            let error = listen(text).unwrap_err().to_string();
            assert!(error.contains("127.0.0.1:7117"), "{error}");
        }
    }

    #[test]
    fn unknown_keys_are_refused_and_missing_ones_have_defaults() {
        assert_eq!(serde_json::from_str::<AdminConfig>("{}").unwrap(), AdminConfig::default());
        let error = serde_json::from_str::<AdminConfig>(r#"{"listn": ""}"#).unwrap_err().to_string();
        assert!(error.contains("unknown field `listn`"), "{error}");
    }
}
