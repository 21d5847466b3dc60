//! Encoding of requests (CONTRACT CP01 to CP05).

use std::sync::LazyLock;

use bytes::Bytes;
use hyper::{
    Method,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};
use orchestrator_catalog_rules::path::encode;
use orchestrator_edge::http::{Body, Request};
use orchestrator_subsystem::Secret;
use uuid::Uuid;

use super::{classify::quoted, endpoint::CatalogEndpoint};
use crate::service::{Get, Put, RequestError};

/// Part of every ETag, so it must be the same for a read and the write that depends on it
/// (CONTRACT CP03).
const ACCEPT: HeaderValue = HeaderValue::from_static("*/*");
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("orchestrator/", env!("CARGO_PKG_VERSION")));
const CONTEXT: HeaderName = HeaderName::from_static("deriva-client-context");

/// Client context for the server's log, the same for all requests of this process. It needs no
/// escapes.
static CLIENT: LazyLock<Option<HeaderValue>> = LazyLock::new(|| {
    let context = format!(r#"{{"cid":"orchestrator","wid":"{}"}}"#, Uuid::new_v4().simple());
    HeaderValue::from_str(&context).ok()
});

/// Describes a request by method and path, without the body.
pub(super) fn describe(method: &str, path: &str) -> String {
    format!("{method} {}", quoted(path))
}

/// Builds a read without credentials.
///
/// # Errors
/// [`RequestError::Rejected`]: path or ETag has bytes that cannot be sent.
pub(super) fn read(endpoint: &CatalogEndpoint, get: &Get) -> Result<Request, RequestError> {
    let condition = (header::IF_NONE_MATCH, get.if_none_match.as_deref());
    request(endpoint, Method::GET, &get.path, condition, Body::default())
}

/// Builds a write without credentials.
///
/// # Errors
/// As of [`read`].
pub(super) fn write(endpoint: &CatalogEndpoint, put: &Put) -> Result<Request, RequestError> {
    let condition = (header::IF_MATCH, put.if_match.as_deref());
    let mut request = request(endpoint, Method::PUT, &put.path, condition, Body::new(put.body.clone()))?;
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(request)
}

fn request(
    endpoint: &CatalogEndpoint,
    method: Method,
    path: &str,
    (condition, etag): (HeaderName, Option<&str>),
    body: Body,
) -> Result<Request, RequestError> {
    let what = describe(method.as_str(), path);
    let refused = |part: &str| {
        let advice = "percent-encode its names and values";
        RequestError::Rejected(format!("{what}: {part} cannot be sent as it is: {advice}"))
    };
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = endpoint.target(path).ok_or_else(|| refused("the path"))?;
    if let Some(etag) = etag {
        let etag = HeaderValue::from_bytes(etag.as_bytes()).map_err(|_| refused("the ETag"))?;
        request.headers_mut().insert(condition, etag);
    }
    add_common_headers(request.headers_mut(), endpoint);
    Ok(request)
}

/// Builds the login request (CONTRACT CP06).
pub(super) fn login(endpoint: &CatalogEndpoint, user: &str, password: &Secret) -> Request {
    let form = format!("username={}&password={}", encode(user), encode(password.expose()));
    let mut request = Request::new(Body::new(Bytes::from(form)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = hyper::Uri::from_static("/authn/session");
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(header::CONTENT_TYPE, form);
    add_common_headers(request.headers_mut(), endpoint);
    request
}

/// Adds the headers that all requests have.
fn add_common_headers(headers: &mut HeaderMap, endpoint: &CatalogEndpoint) {
    headers.insert(header::HOST, endpoint.authority.clone());
    headers.insert(header::USER_AGENT, USER_AGENT);
    headers.insert(header::ACCEPT, ACCEPT);
    if let Some(client) = &*CLIENT {
        headers.insert(CONTEXT, client.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_encodes_every_byte() {
        assert_eq!(encode("a-Z0._~ +&=%é"), "a-Z0._~%20%2B%26%3D%25%C3%A9");
    }

    #[test]
    fn invalid_requests_are_refused_before_they_are_sent() {
        let endpoint = CatalogEndpoint::new("http://h/ermrest/catalog/1", None, &[]).expect("an address");
        let get = |path: &str, etag: Option<&str>| {
            let get = Get { path: path.to_owned(), if_none_match: etag.map(str::to_owned) };
            read(&endpoint, &get).map(drop)
        };
        assert_eq!(get("/entity/Foo", Some("\"a;*/*;2026-11-20 12:42\"")), Ok(()));
        for (path, etag, what) in
            [("/entity/F oo", None, "the path"), ("/entity/Foo", Some("a\r\nb"), "the ETag")]
        {
            let Err(RequestError::Rejected(text)) = get(path, etag) else { panic!("{path} is sent") };
            assert!(text.starts_with(&format!("GET {path}: {what} cannot be sent")), "{text}");
        }
    }
}
