//! `HOST:PORT`, as it stands in addresses of every scheme (RFC 3986 §3.2.2 and §3.2.3).

use std::fmt;

/// A host, looked up anew at each try, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// A name or an IP address; an IPv6 address without its brackets.
    pub host: String,
    /// 1 to 65535.
    pub port: u16,
}

impl HostPort {
    /// Reads `HOST[:PORT]`, where IPv6 addresses stand in brackets. Without a port it is `default`; None if there is none either, or
    /// the text is no address: it has a user, a path, white space.
    pub fn parse(text: &str, default: Option<u16>) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(text) => match text.split_once(']')? {
                (host, "") => (host, None),
                (host, port) => (host, Some(port.strip_prefix(':')?)),
            },
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let strange = |c: char| c.is_whitespace() || c.is_control() || "*/?#@[]\\".contains(c);
        if host.is_empty() || host.contains(strange) {
            return None;
        }
        let port = match port {
            // What stands for a number in Rust may have a sign.
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
    fn hosts_and_ports_are_read_and_shown() {
        for (text, shown) in [
            ("faktory", "faktory:7"),
            ("faktory:7419", "faktory:7419"),
            ("10.0.0.7:1", "10.0.0.7:1"),
            ("[::1]:65535", "[::1]:65535"),
            ("[fe80::1]", "[fe80::1]:7"),
        ] {
            let read = HostPort::parse(text, Some(7)).map(|read| read.to_string());
            assert_eq!(read.as_deref(), Some(shown), "{text}");
            assert_eq!(HostPort::parse(text, None).is_some(), text == shown, "{text}: its port is wanted");
        }
    }

    #[test]
    fn what_is_none_is_not_read() {
        let none =
            ["", ":1", "a:", "a:0", "a:70000", "a:b", "a:+1", "::1", "::1:9", "[::1", "[::1]9", "[]:1"];
        for text in none.into_iter().chain(["*:9", "a b:1", "a/b:1", "me@a:1", "a:1/", "a\\b:1", "a\n:1"]) {
            assert_eq!(HostPort::parse(text, Some(7)), None, "{text}");
        }
    }
}
