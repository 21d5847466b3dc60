//! Where a webhook is.

use std::{fmt, path::Path};

use hyper::{Uri, header::HeaderValue, http::uri::PathAndQuery};
use orchestrator_edge::tls::{self, ServerName, TlsConnector};

/// The address of a webhook, and how its connections are secured.
#[derive(Clone)]
pub struct Target {
    tls: Option<(TlsConnector, ServerName<'static>)>,
    host: String,
    port: u16,
    authority: HeaderValue,
    path: PathAndQuery,
}

impl Target {
    /// Reads `http://host[:port][/path][?query]`, or the same with `https`: then certificates are checked against the authorities in the
    /// file `ca_file`, or those of the public web.
    ///
    /// # Errors
    /// It is none; the text does not repeat it, as it may hold a password. Or the file cannot be used.
    pub fn new(url: &str, ca_file: Option<&Path>) -> Result<Self, String> {
        let wanted = "write http://HOST:PORT/PATH, or https";
        let uri: Uri = url.parse().map_err(|error| format!("{error}: {wanted}"))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(format!("its scheme is not http: {wanted}")),
        };
        let authority = uri.authority().ok_or_else(|| format!("it has no host: {wanted}"))?;
        if authority.as_str().contains('@') {
            return Err("it holds a user: put an Authorization header into headers_file".to_owned());
        }
        let (name, port) = authority.as_str().split_at(authority.host().len());
        let port = match port.strip_prefix(':').map(str::parse) {
            None if secure => 443,
            None => 80,
            Some(Ok(port @ 1..)) => port,
            Some(_) => return Err(format!("its port is none: {wanted}")),
        };
        // Brackets are how an IPv6 address is written in a url, not part of it.
        let host = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(format!("it has no host: {wanted}"));
        }
        // A url need not have a path, a request must.
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let path = path.parse().map_err(|error| format!("{error}: {wanted}"))?;
        let authority = HeaderValue::from_str(authority.as_str()).map_err(|error| error.to_string())?;
        let tls = secure.then(|| secured(&host, ca_file)).transpose()?;
        Ok(Self { tls, host, port, authority, path })
    }

    /// What is connected to.
    pub(super) fn endpoint(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// What secures its connections, and whom the certificate must name.
    pub(super) fn tls(&self) -> Option<(&TlsConnector, ServerName<'static>)> {
        self.tls.as_ref().map(|(connector, name)| (connector, name.clone()))
    }

    /// The header `Host`.
    pub(super) fn authority(&self) -> HeaderValue {
        self.authority.clone()
    }

    /// What is asked for there.
    pub(super) fn path(&self) -> &PathAndQuery {
        &self.path
    }
}

/// For people to read: without the query, which may hold a secret.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let authority = self.authority.to_str().unwrap_or(&self.host);
        write!(f, "{scheme}://{authority}{}", self.path.path())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

fn secured(host: &str, ca_file: Option<&Path>) -> Result<(TlsConnector, ServerName<'static>), String> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| "its host is no name that a certificate can have".to_owned())?;
    Ok((tls::connector(ca_file)?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_their_query() {
        for (url, endpoint, path, shown) in [
            ("http://a", ("a", 80), "/", "http://a/"),
            ("http://a:8080/b/c;d?e=f", ("a", 8080), "/b/c;d?e=f", "http://a:8080/b/c;d"),
            ("https://a.example.org/x", ("a.example.org", 443), "/x", "https://a.example.org/x"),
            ("https://[::1]:444", ("::1", 444), "/", "https://[::1]:444/"),
            ("http://[::1]:81/", ("::1", 81), "/", "http://[::1]:81/"),
            ("http://a?token=b", ("a", 80), "/?token=b", "http://a/"),
        ] {
            let target = Target::new(url, None).expect(url);
            assert_eq!((target.endpoint(), target.path().as_str()), (endpoint, path), "{url}");
            assert_eq!(target.to_string(), shown);
        }
    }

    #[test]
    fn what_is_none_says_what_to_write_and_not_what_was_written() {
        for url in [
            "",
            "a/b",
            "/only/a/path",
            "ftp://secret",
            "http://",
            "http://secret:0/",
            "http://secret:",
            "http://secret:99999/",
            "http://secret host/",
        ] {
            let text = Target::new(url, None).expect_err(url);
            assert!(
                text.contains("write http://HOST:PORT/PATH") && !text.contains("secret"),
                "{url}: {text}"
            );
        }
        let text = Target::new("http://me:secret@a/", None).unwrap_err();
        assert!(
            Target::new("https://a/", Some(Path::new("/nowhere/ca"))).unwrap_err().contains("/nowhere/ca")
        );
        assert!(text.contains("headers_file") && !text.contains("secret"), "{text}");
    }
}
