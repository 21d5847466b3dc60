//! Address of a catalog, and limits of its connections.

use std::{fmt, path::Path, time::Duration};

use hyper::{Uri, header::HeaderValue};
use orchestrator_edge::{
    HostPort, SettingError,
    http::{Endpoint, Limits},
    tls::{self, TlsClient},
};

use crate::{request_retries::Retries, service::BODY_BYTES_MAX};

/// Address of a catalog, and security of its connections.
#[derive(Clone)]
pub(crate) struct CatalogEndpoint {
    pub(super) server: Endpoint,
    host: String,
    /// Prefix of each path: `/ermrest/catalog/1`.
    prefix: String,
    /// Header `Host`.
    pub(super) authority: HeaderValue,
    url: String,
    pub(super) timeouts: Timeouts,
    pub(super) retries: Retries,
    body_limit: usize,
}

/// Limits of the duration of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// Name resolution, TCP connect and TLS handshake.
    pub connect: Duration,
    /// Whole request with its response. ERMrest gives up after 15 s by itself.
    pub read: Duration,
    /// Life of a connection without requests.
    pub idle: Duration,
    /// Retries of an aborted transaction.
    pub aborted: Duration,
    /// Cap of `Retry-After` with 429.
    pub too_many_requests_max: Duration,
    /// Cap of `Retry-After` with 503, so that the return of the server is noticed.
    pub unavailable_max: Duration,
}

impl Default for Timeouts {
    /// The original's time-outs where it has them (CONTRACT CF03).
    fn default() -> Self {
        let secs = Duration::from_secs;
        Self {
            connect: secs(6),
            read: secs(63),
            idle: secs(30),
            aborted: secs(60),
            too_many_requests_max: secs(60),
            unavailable_max: secs(1),
        }
    }
}

impl CatalogEndpoint {
    /// Parses `http[s]://HOST[:PORT]/ermrest/catalog/ID`. With https, certificates are verified
    /// against `ca_file` or the public authorities. Without `ca_file`, hosts in `unverified_hosts`
    /// are not verified.
    ///
    /// # Errors
    /// Not such an address, or the file cannot be used. The text says what to write, and repeats no
    /// password.
    pub(crate) fn new(
        base: &str,
        ca_file: Option<&Path>,
        unverified_hosts: &[String],
    ) -> Result<Self, SettingError> {
        let wanted = "write https://HOST/ermrest/catalog/ID";
        let (scheme, rest) = base.split_once("://").ok_or_else(|| format!("it is no address: {wanted}"))?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(format!("it holds a user: put credentials into a file, and {wanted}").into());
        }
        let secure = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(format!("{base}: {wanted}").into()),
        };
        let port = if secure { 443 } else { 80 };
        let at = HostPort::parse(authority, Some(port))
            .ok_or_else(|| format!("{base}: no host and port: {wanted}"))?;
        let prefix = path.trim_end_matches('/');
        if prefix.is_empty() || prefix.contains(['?', '#']) || target(prefix, "").is_none() {
            return Err(format!("{base}: its path is no catalog's: {wanted}").into());
        }
        let value = HeaderValue::from_str(authority).map_err(|_| format!("{base}: {wanted}"))?;
        let host = at.host.clone();
        let server = if secure {
            let tls_client = tls_client(&host, ca_file, unverified_hosts)?;
            Endpoint::Tls(at, tls_client)
        } else {
            Endpoint::Tcp(at)
        };
        Ok(Self {
            server: server.with_proxy()?,
            host,
            prefix: prefix.to_owned(),
            authority: value,
            url: format!("{scheme}://{authority}{prefix}"),
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            body_limit: BODY_BYTES_MAX,
        })
    }

    /// Replaces the time-outs.
    #[must_use]
    pub(crate) fn timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }

    #[must_use]
    pub(crate) fn retries(self, retries: Retries) -> Self {
        Self { retries, ..self }
    }

    /// Replaces the limit of a response body, in bytes.
    #[cfg(test)]
    pub(crate) fn body_limit(self, body_limit: usize) -> Self {
        Self { body_limit, ..self }
    }

    /// Without credentials, for error texts.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// As configured; credentials are looked up by it.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn limits(&self) -> Limits {
        Limits { body: self.body_limit, time: self.timeouts.read }
    }

    /// Byte for byte as in `path`; None if it cannot be sent.
    pub(super) fn target(&self, path: &str) -> Option<Uri> {
        target(&self.prefix, path)
    }
}

/// None if the parsed URI would differ from the given bytes, e.g. with a `#`.
fn target(prefix: &str, path: &str) -> Option<Uri> {
    let whole = format!("{prefix}{path}");
    let uri = Uri::try_from(whole.as_str()).ok()?;
    (uri.scheme().is_none() && uri.authority().is_none() && uri.to_string() == whole && whole.is_ascii())
        .then_some(uri)
}

fn tls_client(
    host: &str,
    ca_file: Option<&Path>,
    unverified_hosts: &[String],
) -> Result<TlsClient, SettingError> {
    let trusted = unverified_hosts.iter().any(|trusted| trusted.eq_ignore_ascii_case(host));
    // Configured authorities override `unverified_hosts`.
    let connector = if trusted && ca_file.is_none() { tls::unverified() } else { tls::connector(ca_file) };
    let client = TlsClient::new(connector?, host);
    client.ok_or_else(|| format!("{host}: no name that a certificate can have").into())
}

impl fmt::Debug for CatalogEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogEndpoint").field("endpoint", &self.url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base: &str) -> Result<CatalogEndpoint, SettingError> {
        CatalogEndpoint::new(base, None, &[])
    }

    #[test]
    fn addresses_are_read_and_shown() {
        for (base, host, port, expected_url) in [
            ("https://h.org/ermrest/catalog/1", "h.org", 443, "https://h.org/ermrest/catalog/1"),
            ("http://H/ermrest/catalog/2@X/", "H", 80, "http://H/ermrest/catalog/2@X"),
            ("http://[::1]:81/e/c/1", "::1", 81, "http://[::1]:81/e/c/1"),
        ] {
            let endpoint = endpoint(base).expect(base);
            assert_eq!((endpoint.host(), endpoint.url()), (host, expected_url));
            let (Endpoint::Tcp(at) | Endpoint::Tls(at, _)) = endpoint.server else { panic!("{base}") };
            assert_eq!(at.port, port);
        }
    }

    #[test]
    fn errors_of_an_address_say_what_to_write() {
        for base in [
            "",
            "h/ermrest/catalog/1",
            "ftp://h/ermrest/catalog/1",
            "https:///ermrest/catalog/1",
            "https://h",
            "https://h:0/ermrest/catalog/1",
            "https://h/ermrest/catalog/1?a=b",
            "https://h/ermrest/catalog/1#a",
            "https://h/ermrest/cat alog/1",
        ] {
            let error = endpoint(base).expect_err(base).to_string();
            assert!(error.contains("write https://HOST/ermrest/catalog/ID"), "{error}");
        }
        let error = endpoint("https://ada:secret@h/ermrest/catalog/1").expect_err("a password").to_string();
        assert!(error.contains("credentials") && !error.contains("secret"), "{error}");
        let error = CatalogEndpoint::new("https://h/c/1", Some(Path::new("/none")), &[])
            .expect_err("no such file")
            .to_string();
        assert!(error.starts_with("ca_file = /none: cannot be read"), "{error}");
    }

    #[test]
    fn a_target_equals_the_path_or_is_refused() {
        let endpoint = endpoint("http://h/ermrest/catalog/1").expect("an address");
        for path in [
            "",
            "/entity/S:T/a=1;b=2&!(c::null::)",
            "/attribute/A:=S:T/$A/x:=a,*@sort(RCT,RID::desc::)@after(2026%2B00%3A00,)?limit=5&accept=json",
            "/a//b/%2b%2B/~_-./'\"?\"{}|^",
        ] {
            let expected_url = endpoint.target(path).map(|uri| uri.to_string());
            let plain = path.find('"').is_none_or(|at| path.find('?').is_some_and(|query| query < at));
            let wanted = plain.then(|| format!("/ermrest/catalog/1{path}"));
            assert_eq!(expected_url, wanted, "a quotation mark stands in a query only");
        }
        for path in ["/a#b", "/a b", "/a\r\nHost: x", "/é", "/a?<b>", "/a\u{7f}"] {
            assert!(endpoint.target(path).is_none(), "{path:?}");
        }
    }
}
