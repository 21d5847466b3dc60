//! Which server, and how it is spoken to.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use orchestrator_edge::{
    HostPort,
    tls::{self, TlsClient},
};

use super::{error::FaktoryError, handshake::Password};

/// Where Faktory listens if a url does not say.
const PORT: u16 = 7419;

/// A server: address, password, and how its connection is secured.
#[derive(Clone)]
pub struct Server {
    pub(super) at: HostPort,
    password: Option<Password>,
    password_file: Option<PathBuf>,
    pub(super) tls: Option<TlsClient>,
    pub(super) patience: Patience,
}

/// How long a server may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// To be found and reached, TLS included.
    pub connect: Duration,
    /// For the handshake. A server hangs up after two seconds by itself.
    pub handshake: Duration,
    /// To take a command and answer it. A server stops working on a command after five seconds by itself.
    pub reply: Duration,
    /// Without a command; then it is asked for an `INFO`, so that one that hangs is noticed while nothing is pushed, too.
    pub idle: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let secs = Duration::from_secs;
        Self { connect: secs(5), handshake: secs(2), reply: secs(15), idle: secs(5) }
    }
}

impl Server {
    /// Reads `url` as `tcp://host[:port]`, or `tcp+tls://host[:port]` for TLS with the authorities in the file `ca_file`, or those of
    /// the public web.
    ///
    /// # Errors
    /// [`FaktoryError::Config`]; the text does not repeat a url that may hold a password.
    pub fn new(url: &str, ca_file: Option<&Path>, password: Option<Password>) -> Result<Self, FaktoryError> {
        let config = FaktoryError::Config;
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        if rest.contains('@') {
            let hint = "it holds a password: put that into a file, and name the file in password_file";
            return Err(config(format!("faktory.url = ..: {hint}")));
        }
        let at = HostPort::parse(rest.trim_end_matches('/'), Some(PORT));
        let at = at.filter(|_| matches!(scheme, "tcp" | "tcp+tls"));
        let at = at.ok_or_else(|| {
            config(format!("faktory.url = {url}: write tcp://HOST:{PORT}, or tcp+tls://HOST:{PORT}"))
        })?;
        let tls = match scheme {
            "tcp+tls" => {
                let connector =
                    tls::connector(ca_file).map_err(|reason| config(format!("faktory.{reason}")))?;
                let no_name = || config(format!("faktory.url = {url}: no name that a certificate can have"));
                Some(TlsClient::new(connector, &at.host).ok_or_else(no_name)?)
            }
            _ => None,
        };
        Ok(Self { at, password, password_file: None, tls, patience: Patience::default() })
    }

    /// With the password in `file`, which is read for each connection: it may come, or change, while the process runs.
    #[must_use]
    pub fn password_file(self, file: impl Into<PathBuf>) -> Self {
        Self { password_file: Some(file.into()), ..self }
    }

    pub(super) fn password(&self) -> Result<Option<Password>, String> {
        let Some(file) = &self.password_file else { return Ok(self.password.clone()) };
        let failed = |reason| format!("password_file = {}: {reason}", file.display());
        let text =
            std::fs::read_to_string(file).map_err(|error| failed(format!("cannot be read: {error}")))?;
        match Password::new(&text) {
            Some(password) => Ok(Some(password)),
            None => Err(failed("it is empty: write the password into it".to_owned())),
        }
    }

    /// With other time-outs.
    #[must_use]
    pub fn patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// For people to read: no password.
    pub fn endpoint(&self) -> String {
        let scheme = if self.tls.is_some() { "tcp+tls" } else { "tcp" };
        format!("{scheme}://{}", self.at)
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
    fn urls_are_read_and_shown() {
        for (url, shown) in [
            ("tcp://faktory:7419", "tcp://faktory:7419"),
            ("tcp://faktory", "tcp://faktory:7419"),
            ("tcp://10.0.0.7:1/", "tcp://10.0.0.7:1"),
            ("tcp://[::1]:65535", "tcp://[::1]:65535"),
            ("tcp://[::1]", "tcp://[::1]:7419"),
            ("tcp+tls://faktory.example.org", "tcp+tls://faktory.example.org:7419"),
        ] {
            assert_eq!(Server::new(url, None, None).unwrap().endpoint(), shown);
        }
    }

    #[test]
    fn a_url_that_cannot_be_used_says_what_to_write() {
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
            assert!(error.to_string().contains("write tcp://HOST:7419") && !error.is_retryable(), "{error}");
        }
        let error = Server::new("tcp://:secret@faktory:7419", None, None).unwrap_err().to_string();
        assert!(error.contains("password_file") && !error.contains("secret"), "{error}");
        let server = Server::new("tcp://f", None, Password::new("secret")).unwrap();
        assert!(!format!("{server:?}").contains("secret"));
    }

    #[test]
    fn a_password_file_is_read_each_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let server = Server::new("tcp://f", None, None).unwrap().password_file(file.path());
        assert!(server.password().unwrap_err().contains("it is empty"));
        for secret in ["first", "second"] {
            std::fs::write(file.path(), format!("{secret}\n")).unwrap();
            assert_eq!(server.password(), Ok(Password::new(secret)));
            assert!(!format!("{server:?}").contains(secret));
        }
        let error = server.password_file("/none").password().unwrap_err();
        assert!(error.starts_with("password_file = /none: cannot be read"), "{error}");
    }

    #[test]
    fn authorities_that_cannot_be_read_are_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Server::new("tcp+tls://f", Some(file.path()), None).unwrap_err().to_string();
        assert!(error.contains("ca_file = /") && error.contains("has no certificate"), "{error}");
        let error = Server::new("tcp+tls://f", Some(Path::new("/none")), None).unwrap_err().to_string();
        assert!(error.starts_with("faktory.ca_file = /none: cannot be read"), "{error}");
    }
}
