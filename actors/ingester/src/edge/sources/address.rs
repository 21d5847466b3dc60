//! Where a source is dialled.

use std::{fmt, str::FromStr};

use crate::source::SourceError;

/// A host, looked up anew at each try, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    /// Reads `tcp://host:port`; IPv6 addresses stand in brackets.
    ///
    /// # Errors
    /// It is none; the text says what to write.
    pub fn parse(url: &str) -> Result<Self, SourceError> {
        let parts = || {
            let (host, port) = url.strip_prefix("tcp://")?.trim_end_matches('/').rsplit_once(':')?;
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let host = bare.or((!host.contains(':')).then_some(host))?;
            let is_host = !host.is_empty() && host != "*" && !host.contains(['/', '@', '[', ']', ' ']);
            let port = u16::from_str(port).ok().filter(|port| *port > 0)?;
            is_host.then(|| Self { host: host.to_owned(), port })
        };
        parts().ok_or_else(|| {
            SourceError(format!("upstream_url = {url}: cannot be dialled: write tcp://host:port"))
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "tcp://[{}]:{}", self.host, self.port);
        }
        write!(f, "tcp://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for url in ["tcp://detector:9999", "tcp://10.0.0.7:1", "tcp://[::1]:65535"] {
            assert_eq!(Address::parse(url).unwrap().to_string(), url);
        }
        assert_eq!(Address::parse("tcp://detector:9999/").unwrap().host, "detector");
        for url in [
            "",
            "detector:9999",
            "tcp://detector",
            "tcp://*:9999",
            "tcp://:9999",
            "tcp://a:0",
            "tcp://::1:9",
            "tcp://a:70000",
        ] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains("write tcp://host:port"), "{error}");
        }
    }
}
