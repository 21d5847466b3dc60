//! Keeps web pages out: a browser on this machine reaches loopback too, and any page could make it post a command.
//! A page of another site shows by its `Origin`, a name that was re-bound to 127.0.0.1 by its `Host`.

use std::net::IpAddr;

use actix_web::{
    Error, ResponseError,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::header::{HOST, HeaderMap, HeaderName, ORIGIN},
    middleware::Next,
};

use crate::{api_error::ApiError, wire::ErrorKind};

/// The middleware.
pub(crate) async fn check(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    if let Some(problem) = problem(request.headers()) {
        let answer = ApiError::new(ErrorKind::Forbidden, problem).error_response();
        return Ok(request.into_response(answer));
    }
    Ok(next.call(request).await?.map_into_boxed_body())
}

fn problem(headers: &HeaderMap) -> Option<String> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST);
    if let Some(host) = host.filter(|host| !is_local(host)) {
        return Some(format!("host `{host}` is not served: use localhost or the IP address"));
    }
    let foreign = |origin: &&str| origin.split_once("://").map(|(_, authority)| authority) != host;
    text(ORIGIN).filter(foreign).map(|origin| format!("requests from pages of `{origin}` are not served"))
}

/// An IP address cannot be re-bound by DNS, `localhost` resolves without it; over a unix socket there may be no host.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.is_empty() || name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::HeaderValue;

    fn judged(host: &str, origin: Option<&'static str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
        }
        problem(&headers).is_none()
    }

    #[test]
    fn local_names_and_own_pages_are_served() {
        for host in ["localhost", "localhost:7117", "127.0.0.1:7117", "[::1]:7117", "[::1]", ""] {
            assert!(judged(host, None), "{host}");
        }
        assert!(judged("127.0.0.1:7117", Some("http://127.0.0.1:7117")));
    }

    #[test]
    fn foreign_names_and_pages_are_not() {
        assert!(!judged("evil.example:7117", None));
        assert!(!judged("127.0.0.1.evil.example", None));
        for origin in ["http://evil.example", "null", "http://127.0.0.1:8080"] {
            assert!(!judged("127.0.0.1:7117", Some(origin)), "{origin}");
        }
    }
}
