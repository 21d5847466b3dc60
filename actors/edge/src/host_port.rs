//! `HOST:PORT` of an address (RFC 3986 §3.2.2 and §3.2.3).

use std::fmt;

/// Host and port. The host is resolved at each connection attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// Name or IP address; an IPv6 address has no brackets here.
    pub host: String,
    /// Port, 1 to 65535.
    pub port: u16,
}

impl HostPort {
    /// Parses `HOST[:PORT]`, with IPv6 addresses in brackets; `default` is used if there is no port.
    ///
    /// Returns None if there is no port at all, or the text is invalid, for example because it has a user, a
    /// path or white space.
    pub fn parse(text: &str, default: Option<u16>) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(text) => match text.split_once(']')? {
                (host, "") => (host, None),
                (host, port) => (host, Some(port.strip_prefix(':')?)),
            },
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let is_forbidden = |c: char| c.is_whitespace() || c.is_control() || "*/?#@[]\\".contains(c);
        if host.is_empty() || host.contains(is_forbidden) {
            return None;
        }
        let port = match port {
            // `parse` accepts a sign.
            Some(port) => port.parse().ok().filter(|_| port.bytes().all(|byte| byte.is_ascii_digit())),
            None => default,
        };
        let port = port.filter(|port| *port > 0)?;
        Some(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_parsed_and_formatted() {
        for (text, shown) in [
            ("faktory", "faktory:7"),
            ("faktory:7419", "faktory:7419"),
            ("10.0.0.7:1", "10.0.0.7:1"),
            ("[::1]:65535", "[::1]:65535"),
            ("[fe80::1]", "[fe80::1]:7"),
        ] {
            let read = HostPort::parse(text, Some(7)).map(|read| read.to_string());
            assert_eq!(read.as_deref(), Some(shown), "{text}");
            assert_eq!(HostPort::parse(text, None).is_some(), text == shown, "{text}: the port is required");
        }
    }

    #[test]
    fn invalid_addresses_are_refused() {
        let none =
            ["", ":1", "a:", "a:0", "a:70000", "a:b", "a:+1", "::1", "::1:9", "[::1", "[::1]9", "[]:1"];
        for text in none.into_iter().chain(["*:9", "a b:1", "a/b:1", "me@a:1", "a:1/", "a\\b:1", "a\n:1"]) {
            assert_eq!(HostPort::parse(text, Some(7)), None, "{text}");
        }
    }
}
