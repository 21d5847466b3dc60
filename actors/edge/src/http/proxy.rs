//! Proxies that the environment names in `http_proxy`, `https_proxy` and `no_proxy`, as curl and Python's
//! requests read them.

#[cfg(feature = "tls")]
mod tunnel;

use std::sync::OnceLock;

use hyper::{
    Uri,
    header::{HOST, HeaderValue, PROXY_AUTHORIZATION},
    http::uri::PathAndQuery,
};
use hyper_util::client::proxy::matcher::Matcher;
use tokio::net::TcpStream;

use super::Request;
use crate::{HostPort, PeerError, PeerErrorKind, Sent, dial};

/// Proxy on the way to a server.
#[derive(Debug, Clone)]
pub struct Proxy {
    at: HostPort,
    authorization: Option<HeaderValue>,
}

impl Proxy {
    /// Proxy that the environment names for `server`.
    ///
    /// # Errors
    /// Its address is none that is supported. The text does not repeat it, since it may hold a password.
    pub(super) fn of_environment(secure: bool, server: &HostPort) -> Result<Option<Self>, String> {
        static MATCHER: OnceLock<Matcher> = OnceLock::new();
        Self::of(MATCHER.get_or_init(Matcher::from_env), secure, server)
    }

    fn of(matcher: &Matcher, secure: bool, server: &HostPort) -> Result<Option<Self>, String> {
        let scheme = if secure { "https" } else { "http" };
        let Some(found) =
            format!("{scheme}://{server}/").parse().ok().and_then(|server: Uri| matcher.intercept(&server))
        else {
            return Ok(None);
        };
        let wrong = || {
            format!(
                "{scheme}_proxy of the environment is no http://HOST:PORT: correct it, or add {} to no_proxy",
                server.host
            )
        };
        let authority = found.uri().authority().filter(|_| found.uri().scheme_str() == Some("http"));
        // The matcher has taken the user apart.
        let at = authority.and_then(|at| HostPort::parse(at.as_str().rsplit('@').next()?, Some(80)));
        let at = at.ok_or_else(wrong)?;
        Ok(Some(Self { at, authorization: found.basic_auth().cloned() }))
    }

    pub(super) async fn connect(&self) -> Result<TcpStream, PeerError> {
        let connected = dial(&self.at.host, self.at.port).await;
        connected.map_err(|error| PeerError {
            advice: error.advice.clone(),
            ..self.failed(error.kind, &error.text)
        })
    }

    /// Makes `request` one for the proxy (RFC 9112 §3.2.2).
    pub(super) fn address(&self, request: &mut Request) {
        let authority = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        if let Some(uri) =
            authority.and_then(|authority| format!("http://{authority}{path}").parse::<Uri>().ok())
        {
            *request.uri_mut() = uri;
        }
        if let Some(value) = &self.authorization {
            request.headers_mut().insert(PROXY_AUTHORIZATION, value.clone());
        }
    }

    fn failed(&self, kind: PeerErrorKind, error: &dyn std::fmt::Display) -> PeerError {
        let text =
            format!("the proxy {} of the environment (http_proxy, https_proxy, no_proxy): {error}", self.at);
        PeerError::new(kind, Sent::No, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_proxies_as_for_requests() {
        let matcher = Matcher::builder()
            .http("http://me:p%40ss@proxy:3128")
            .https("proxy:3129")
            .no("localhost,127.0.0.1,.inside.example,10.0.0.0/8,catalog.example")
            .build();
        let find = |secure, host: &str| {
            let server = HostPort { host: host.to_owned(), port: 81 };
            Proxy::of(&matcher, secure, &server).expect("an address").map(|proxy| proxy.at.to_string())
        };
        let (http, https) = (Some("proxy:3128".to_owned()), Some("proxy:3129".to_owned()));
        assert_eq!((find(false, "h"), find(true, "h")), (http.clone(), https));
        assert_eq!(find(false, "11.0.0.1"), http);
        for direct in
            ["localhost", "127.0.0.1", "a.inside.example", "10.1.2.3", "catalog.example", "a.catalog.example"]
        {
            assert_eq!(find(false, direct), None, "{direct}");
        }
        let server = HostPort { host: "h".to_owned(), port: 81 };
        let proxy = Proxy::of(&matcher, false, &server).expect("an address").expect("a proxy");
        assert_eq!(proxy.authorization.expect("a user"), "Basic bWU6cEBzcw==");
        for unsupported in ["socks5://me:S3CR3T@proxy:1", "https://me:S3CR3T@proxy", "http://proxy:0"] {
            let matcher = Matcher::builder().http(unsupported).build();
            let text = Proxy::of(&matcher, false, &server).expect_err(unsupported);
            assert!(text.starts_with("http_proxy of") && !text.contains("S3CR3T"), "{text}");
        }
    }
}
