//! Address of a webhook.

use std::{fmt, path::Path};

use super::Endpoint;
use crate::{
    HostPort, SettingError,
    tls::{self, TlsClient},
};
use hyper::{Uri, header::HeaderValue, http::uri::PathAndQuery};

/// Address of a webhook, and security of its connections.
#[derive(Clone)]
pub struct Target {
    receiver: Endpoint,
    secure: bool,
    authority: HeaderValue,
    path: PathAndQuery,
}

impl Target {
    /// Parses `http[s]://host[:port][/path][?query]`. With https, certificates are verified against
    /// `ca_file` or the public authorities.
    ///
    /// # Errors
    /// Not such an address, or the file cannot be used. The text does not repeat the address, which
    /// may hold a password.
    pub fn new(url: &str, ca_file: Option<&Path>) -> Result<Self, SettingError> {
        let wanted = "write http://HOST:PORT/PATH, or https";
        let uri: Uri = url.parse().map_err(|error| format!("{error}: {wanted}"))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(format!("its scheme is not http: {wanted}").into()),
        };
        let authority = uri.authority().ok_or_else(|| format!("it has no host: {wanted}"))?;
        if authority.as_str().contains('@') {
            return Err("it holds a user: put an Authorization header into headers_file".into());
        }
        let (name, port) = authority.as_str().split_at(authority.host().len());
        let port = match port.strip_prefix(':').map(str::parse) {
            None if secure => 443,
            None => 80,
            Some(Ok(port @ 1..)) => port,
            Some(_) => return Err(format!("its port is none: {wanted}").into()),
        };
        // An IPv6 address in a URL has brackets; a host name does not.
        let host = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(format!("it has no host: {wanted}").into());
        }
        // A URL may lack a path, a request may not.
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let path = path.parse().map_err(|error| format!("{error}: {wanted}"))?;
        let authority = HeaderValue::from_str(authority.as_str()).map_err(|error| error.to_string())?;
        let receiver = if secure {
            let client = TlsClient::new(tls::connector(ca_file)?, &host);
            let client = client.ok_or("its host is no name that a certificate can have")?;
            Endpoint::Tls(HostPort { host, port }, client)
        } else {
            Endpoint::Tcp(HostPort { host, port })
        };
        Ok(Self { receiver: receiver.with_proxy()?, secure, authority, path })
    }

    /// Address to connect to.
    pub fn receiver(&self) -> &Endpoint {
        &self.receiver
    }

    /// Value of the header `Host`.
    pub fn authority(&self) -> HeaderValue {
        self.authority.clone()
    }

    /// Returns path and query.
    pub fn path(&self) -> &PathAndQuery {
        &self.path
    }
}

/// Shows the address without its path and query, which may hold a secret.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        let authority = self.authority.to_str().unwrap_or_default();
        let path = if self.path == "/" { "" } else { "***" };
        write!(f, "{scheme}://{authority}/{path}")
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_their_path() {
        for (url, endpoint, path, shown) in [
            ("http://a", ("a", 80), "/", "http://a/"),
            ("http://a:8080/b/c;d?e=f", ("a", 8080), "/b/c;d?e=f", "http://a:8080/***"),
            ("https://a.example.org/x", ("a.example.org", 443), "/x", "https://a.example.org/***"),
            ("https://[::1]:444", ("::1", 444), "/", "https://[::1]:444/"),
            ("http://[::1]:81/", ("::1", 81), "/", "http://[::1]:81/"),
            ("http://a?token=b", ("a", 80), "/?token=b", "http://a/***"),
        ] {
            let target = Target::new(url, None).expect(url);
            let (Endpoint::Tcp(at) | Endpoint::Tls(at, _)) = target.receiver() else { panic!("{url}") };
            assert_eq!(((&*at.host, at.port), target.path().as_str()), (endpoint, path), "{url}");
            assert_eq!(target.to_string(), shown);
        }
    }

    #[test]
    fn errors_of_an_address_say_what_to_write_and_show_no_secret() {
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
            let text = Target::new(url, None).expect_err(url).to_string();
            assert!(
                text.contains("write http://HOST:PORT/PATH") && !text.contains("secret"),
                "{url}: {text}"
            );
        }
        let error = Target::new("https://a/", Some(Path::new("/nowhere/ca"))).unwrap_err();
        assert!(matches!(&error, SettingError::Authorities { path, .. } if path == Path::new("/nowhere/ca")));
        let text = Target::new("http://me:secret@a/", None).unwrap_err().to_string();
        assert!(text.contains("headers_file") && !text.contains("secret"), "{text}");
    }
}
