//! Address of a source that is dialled.

use std::fmt;

use orchestrator_edge::HostPort;

use crate::source::SourceError;

/// Host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) HostPort);

impl Address {
    /// Parses `tcp://host:port`; IPv6 addresses are in brackets.
    ///
    /// # Errors
    /// The address is invalid; the text says what to write.
    pub(crate) fn parse(url: &str) -> Result<Self, SourceError> {
        let at = url.strip_prefix("tcp://").and_then(|at| HostPort::parse(at.trim_end_matches('/'), None));
        at.map(Self).ok_or_else(|| {
            SourceError(format!("upstream_url = {url}: cannot be dialled: write tcp://host:port"))
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tcp://{}", self.0)
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
        assert_eq!(Address::parse("tcp://detector:9999/").unwrap().0.host, "detector");
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
