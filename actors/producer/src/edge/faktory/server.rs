//! Address, credentials and time-outs of a Faktory server.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use orchestrator_edge::{
    HostPort, read_secret_file,
    tls::{self, TlsClient},
};

/// Default port of Faktory.
const PORT: u16 = 7419;

/// A Faktory server and how to connect to it.
#[derive(Clone)]
pub struct Server {
    pub(super) address: HostPort,
    /// Password of the url, unless there is `password_file`.
    password: Option<String>,
    password_file: Option<PathBuf>,
    pub(super) tls: Option<TlsClient>,
    pub(super) timeouts: Timeouts,
}

/// Time-outs of a connection (CONTRACT SE02).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Connecting, including name resolution and TLS.
    pub connect: Duration,
    /// Handshake. A server closes the connection after 2 s.
    pub handshake: Duration,
    /// Sending a command and receiving its reply. A server abandons a command after 5 s.
    pub reply: Duration,
    /// Interval without a command after which an `INFO` checks whether the server still replies.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let secs = Duration::from_secs;
        Self { connect: secs(5), handshake: secs(2), reply: secs(15), idle: secs(5) }
    }
}

impl Server {
    /// Parses `tcp://[[user]:password@]host[:port]`, or `tcp+tls://` for TLS. `ca_file` replaces the public
    /// authorities. The user is ignored and the password taken literally, as pyfaktory does. The password in
    /// `password_file` is read for each connection, so it may appear or change later.
    ///
    /// # Errors
    /// The url or `ca_file` cannot be used. The text begins with the key and never contains a password.
    pub fn new(url: &str, ca_file: Option<&Path>, password_file: Option<&Path>) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let scheme = &*scheme.to_ascii_lowercase();
        let (credentials, server) = rest.rsplit_once('@').unwrap_or(("", rest));
        let url = if url.contains('@') { ".." } else { url };
        let password = credentials.split_once(':').map(|(_, password)| password);
        let address = HostPort::parse(server.trim_end_matches('/'), Some(PORT))
            .filter(|_| matches!(scheme, "tcp" | "tcp+tls"))
            .ok_or_else(|| {
                format!("faktory.url = {url}: write tcp://HOST:{PORT}, or tcp+tls://HOST:{PORT}")
            })?;
        let tls =
            match scheme {
                "tcp+tls" => {
                    let connector = tls::connector(ca_file).map_err(|reason| format!("faktory.{reason}"))?;
                    let client = TlsClient::new(connector, &address.host);
                    Some(client.ok_or_else(|| {
                        format!("faktory.url = {url}: the host is no name of a certificate")
                    })?)
                }
                _ => None,
            };
        let password = password.filter(|password| !password.is_empty()).map(str::to_owned);
        let password_file = password_file.map(Path::to_owned);
        Ok(Self { address, password, password_file, tls, timeouts: Timeouts::default() })
    }

    /// Reads the file of the password, if one is configured.
    pub(super) fn password(&self) -> Result<Option<String>, String> {
        let Some(file) = &self.password_file else { return Ok(self.password.clone()) };
        let failed = |reason| format!("password_file = {}: {reason}", file.display());
        let text = read_secret_file(file).map_err(|error| failed(format!("cannot be read: {error}")))?;
        match text.trim_end_matches(['\r', '\n']) {
            "" => Err(failed("it is empty: write the password into it".to_owned())),
            password => Ok(Some(password.to_owned())),
        }
    }

    /// Replaces the time-outs.
    #[must_use]
    pub fn timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }

    /// The url without a password.
    pub fn endpoint(&self) -> String {
        let scheme = if self.tls.is_some() { "tcp+tls" } else { "tcp" };
        format!("{scheme}://{}", self.address)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("endpoint", &self.endpoint()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_the_default_port() {
        for (url, endpoint) in [
            ("tcp://faktory:7419", "tcp://faktory:7419"),
            ("tcp://faktory", "tcp://faktory:7419"),
            ("tcp://10.0.0.7:1/", "tcp://10.0.0.7:1"),
            ("tcp://[::1]:65535", "tcp://[::1]:65535"),
            ("tcp://[::1]", "tcp://[::1]:7419"),
            ("tcp+tls://faktory.example.org", "tcp+tls://faktory.example.org:7419"),
        ] {
            assert_eq!(Server::new(url, None, None).unwrap().endpoint(), endpoint);
        }
    }

    #[test]
    fn an_invalid_url_is_refused() {
        for url in [
            "",
            "faktory:7419",
            "http://faktory",
            "tcp://",
            "tcp://:7419",
            "tcp://a:0",
            "tcp://a:70000",
            "tcp://a b:1",
            "tcp://[::1",
            "tcp://[::1]7419",
            "tcp://::1:7419",
        ] {
            let error = Server::new(url, None, None).unwrap_err();
            assert!(error.contains("write tcp://HOST:7419"), "{error}");
        }
        for url in ["tcp://:secret@", "http://:secret@faktory", ":secret@faktory", "tcp://:se/cret@a:0"] {
            let error = Server::new(url, None, None).unwrap_err();
            assert!(error.starts_with("faktory.url = ..: write tcp://HOST:7419"), "{error}");
        }
    }

    #[test]
    fn a_url_is_taken_as_pyfaktory_takes_it() {
        for (url, endpoint, password) in [
            ("tcp://:secret@faktory:7419", "tcp://faktory:7419", Some("secret")),
            ("tcp://me:secret@faktory", "tcp://faktory:7419", Some("secret")),
            ("tcp://:se%2Fc:r@et@[::1]:1", "tcp://[::1]:1", Some("se%2Fc:r@et")),
            ("tcp+tls://:secret@faktory/", "tcp+tls://faktory:7419", Some("secret")),
            ("tcp://:@faktory", "tcp://faktory:7419", None),
            ("tcp://me@faktory", "tcp://faktory:7419", None),
            ("tcp://me:se@cret@faktory:7/", "tcp://faktory:7", Some("se@cret")),
            ("TCP://faktory:1", "tcp://faktory:1", None),
            ("TCP+TLS://:secret@faktory", "tcp+tls://faktory:7419", Some("secret")),
            ("tcp+tls://10.0.0.7:7420", "tcp+tls://10.0.0.7:7420", None),
            ("tcp://[fe80::1]", "tcp://[fe80::1]:7419", None),
            ("tcp://faktory:007", "tcp://faktory:7", None),
        ] {
            let server = Server::new(url, None, None).unwrap();
            assert_eq!((&*server.endpoint(), server.password()), (endpoint, Ok(password.map(str::to_owned))));
            assert!(!format!("{server:?}").contains("se"), "{server:?}");
        }
    }

    #[test]
    fn a_password_file_is_read_for_each_connection() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let server = Server::new("tcp://f", None, Some(file.path())).unwrap();
        assert!(server.password().unwrap_err().contains("it is empty"));
        for secret in ["first", "second"] {
            std::fs::write(file.path(), format!("{secret}\n")).unwrap();
            assert_eq!(server.password(), Ok(Some(secret.to_owned())));
        }
        let server = Server::new("tcp://f", None, Some(Path::new("/none"))).unwrap();
        let error = server.password().unwrap_err();
        assert!(error.starts_with("password_file = /none: cannot be read"), "{error}");
    }

    #[test]
    fn an_unusable_ca_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Server::new("tcp+tls://f", Some(file.path()), None).unwrap_err();
        assert!(error.contains("ca_file = /") && error.contains("has no certificate"), "{error}");
        let error = Server::new("tcp+tls://f", Some(Path::new("/none")), None).unwrap_err();
        assert!(error.starts_with("faktory.ca_file = /none: cannot be read"), "{error}");
    }
}
