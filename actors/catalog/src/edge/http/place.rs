//! Where a catalog is, and how its server is spoken to.

use std::{fmt, path::Path, time::Duration};

use hyper::{Uri, header::HeaderValue};
use orchestrator_edge::{
    HostPort,
    http::{Endpoint, Limits},
    tls::{self, TlsClient},
};

/// Largest answer that is read, unless said otherwise: far more than any server gives within its 15 s.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// A catalog: its address, and how its connections are secured.
#[derive(Clone)]
pub struct Place {
    pub(super) server: Endpoint,
    host: String,
    /// What stands before each path: `/ermrest/catalog/1`.
    prefix: String,
    /// The header `Host`.
    pub(super) authority: HeaderValue,
    endpoint: String,
    pub(super) patience: Patience,
    body_limit: usize,
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For the server to be found and reached, TLS included.
    pub connect: Duration,
    /// For a request to be sent and answered whole. A server gives a request up after 15 s by itself.
    pub read: Duration,
    /// How long a connection without requests is kept.
    pub idle: Duration,
    /// For a request whose transaction is aborted again and again.
    pub aborted: Duration,
    /// The longest a server's Retry-After is heeded that has had too many requests (429).
    pub hold_max: Duration,
    /// The longest it is heeded of a server that is not there for anybody (503): one request at a time finds out when it is back.
    pub away_max: Duration,
}

impl Default for Patience {
    /// The original's time-outs (CONTRACT CF03) where it has some.
    fn default() -> Self {
        let secs = Duration::from_secs;
        Self {
            connect: secs(6),
            read: secs(63),
            idle: secs(30),
            aborted: secs(60),
            hold_max: secs(60),
            away_max: secs(1),
        }
    }
}

impl Place {
    /// Reads `base` as `http[s]://HOST[:PORT]/ermrest/catalog/ID`. With https, certificates are checked against the authorities in the
    /// file `ca_file`, or those of the public web; without such a file they are not checked for a host in `unverified_hosts`.
    ///
    /// # Errors
    /// It is no such address, or the file cannot be used; the text says what to write, and not what was written if that may hold a
    /// password.
    pub fn new(base: &str, ca_file: Option<&Path>, unverified_hosts: &[String]) -> Result<Self, String> {
        let wanted = "write https://HOST/ermrest/catalog/ID";
        let (scheme, rest) = base.split_once("://").ok_or_else(|| format!("it is no address: {wanted}"))?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(format!("it holds a user: put credentials into a file, and {wanted}"));
        }
        let secure = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(format!("{base}: {wanted}")),
        };
        let port = if secure { 443 } else { 80 };
        let at = HostPort::parse(authority, Some(port))
            .ok_or_else(|| format!("{base}: no host and port: {wanted}"))?;
        let prefix = path.trim_end_matches('/');
        if prefix.is_empty() || prefix.contains(['?', '#']) || target(prefix, "").is_none() {
            return Err(format!("{base}: its path is no catalog's: {wanted}"));
        }
        let value = HeaderValue::from_str(authority).map_err(|_| format!("{base}: {wanted}"))?;
        let host = at.host.clone();
        let server = if secure {
            let client = client(&host, ca_file, unverified_hosts)?;
            Endpoint::Tls(at, client)
        } else {
            Endpoint::Tcp(at)
        };
        Ok(Self {
            server,
            host,
            prefix: prefix.to_owned(),
            authority: value,
            endpoint: format!("{scheme}://{authority}{prefix}"),
            patience: Patience::default(),
            body_limit: BODY_LIMIT,
        })
    }

    /// With other time-outs.
    #[must_use]
    pub fn patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// With another limit on answers, bytes.
    #[must_use]
    pub fn body_limit(self, body_limit: usize) -> Self {
        Self { body_limit, ..self }
    }

    /// For people to read: no user, no password.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The host's name, as it was written: what credentials are looked up by.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Limits of one answer.
    pub(super) fn limits(&self) -> Limits {
        Limits { body: self.body_limit, time: self.patience.read }
    }

    /// The target of a request, byte for byte as `path` is written.
    pub(super) fn target(&self, path: &str) -> Option<Uri> {
        target(&self.prefix, path)
    }
}

/// None if what came out would not be the bytes that went in: a `#` ends a path, and some bytes may not stand in one.
fn target(prefix: &str, path: &str) -> Option<Uri> {
    let whole = format!("{prefix}{path}");
    let uri = Uri::try_from(whole.as_str()).ok()?;
    (uri.scheme().is_none() && uri.authority().is_none() && uri.to_string() == whole && whole.is_ascii())
        .then_some(uri)
}

fn client(host: &str, ca_file: Option<&Path>, unverified_hosts: &[String]) -> Result<TlsClient, String> {
    let trusted = unverified_hosts.iter().any(|trusted| trusted.eq_ignore_ascii_case(host));
    // Whoever names authorities wants them asked.
    let connector = if trusted && ca_file.is_none() { tls::unverified() } else { tls::connector(ca_file) };
    TlsClient::new(connector?, host).ok_or_else(|| format!("{host}: no name that a certificate can have"))
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(base: &str) -> Result<Place, String> {
        Place::new(base, None, &[])
    }

    #[test]
    fn addresses_are_read_and_shown() {
        for (base, host, port, shown) in [
            ("https://h.org/ermrest/catalog/1", "h.org", 443, "https://h.org/ermrest/catalog/1"),
            ("http://H/ermrest/catalog/2@X/", "H", 80, "http://H/ermrest/catalog/2@X"),
            ("http://[::1]:81/e/c/1", "::1", 81, "http://[::1]:81/e/c/1"),
        ] {
            let place = place(base).expect(base);
            assert_eq!((place.host(), place.endpoint()), (host, shown));
            let (Endpoint::Tcp(at) | Endpoint::Tls(at, _)) = place.server else { panic!("{base}") };
            assert_eq!(at.port, port);
        }
    }

    #[test]
    fn an_address_that_cannot_be_used_says_what_to_write() {
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
            let error = place(base).expect_err(base);
            assert!(error.contains("write https://HOST/ermrest/catalog/ID"), "{error}");
        }
        let error = place("https://ada:secret@h/ermrest/catalog/1").expect_err("a password");
        assert!(error.contains("credentials") && !error.contains("secret"), "{error}");
        let error = Place::new("https://h/c/1", Some(Path::new("/none")), &[]).expect_err("no such file");
        assert!(error.starts_with("ca_file = /none: cannot be read"), "{error}");
    }

    #[test]
    fn a_target_is_what_was_written_or_none() {
        let place = place("http://h/ermrest/catalog/1").expect("an address");
        for path in [
            "",
            "/entity/S:T/a=1;b=2&!(c::null::)",
            "/attribute/A:=S:T/$A/x:=a,*@sort(RCT,RID::desc::)@after(2026%2B00%3A00,)?limit=5&accept=json",
            "/a//b/%2b%2B/~_-./'\"?\"{}|^",
        ] {
            let shown = place.target(path).map(|uri| uri.to_string());
            let plain = path.find('"').is_none_or(|at| path.find('?').is_some_and(|query| query < at));
            let wanted = plain.then(|| format!("/ermrest/catalog/1{path}"));
            assert_eq!(shown, wanted, "a quotation mark stands in a query only");
        }
        for path in ["/a#b", "/a b", "/a\r\nHost: x", "/é", "/a?<b>", "/a\u{7f}"] {
            assert!(place.target(path).is_none(), "{path:?}");
        }
    }
}
