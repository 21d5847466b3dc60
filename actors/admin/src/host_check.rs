//! Keeps web pages out: a browser on this machine reaches loopback too, and any page could make it post a command.
//! A page of another site shows by its `Origin`, a name that was re-bound to 127.0.0.1 by its `Host`.

use std::net::IpAddr;

use actix_web::http::header::{HOST, HeaderMap, HeaderName, ORIGIN};

/// What is wrong with where a request says it goes to and comes from; `served` are names that are ours besides the
/// local ones.
pub(crate) fn problem(headers: &HeaderMap, served: &[String]) -> Option<String> {
    if headers.get_all(HOST).count() > 1 {
        return Some("there is more than one `Host`: send one".to_owned());
    }
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST);
    if let Some(host) = host.filter(|host| !is_ours(host, served)) {
        return Some(format!(
            "host `{host}` is not served: use localhost or the IP address, or add it to admin.allowed_hosts"
        ));
    }
    let foreign = |origin: &&str| origin.split_once("://").map(|(_, authority)| authority) != host;
    text(ORIGIN).filter(foreign).map(|origin| format!("requests from pages of `{origin}` are not served"))
}

/// An IP address cannot be re-bound by DNS, `localhost` resolves without it; over a unix socket there may be no host.
fn is_ours(host: &str, served: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let named = |other: &str| name.eq_ignore_ascii_case(other);
    name.is_empty()
        || named("localhost")
        || name.parse::<IpAddr>().is_ok()
        || served.iter().any(|one| named(one))
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
        problem(&headers, &["queue.example".to_owned()]).is_none()
    }

    #[test]
    fn local_names_and_own_pages_are_served() {
        for host in ["localhost", "localhost:7117", "127.0.0.1:7117", "[::1]:7117", "[::1]", ""] {
            assert!(judged(host, None), "{host}");
        }
        assert!(judged("127.0.0.1:7117", Some("http://127.0.0.1:7117")));
        assert!(judged("Queue.example:7117", Some("https://Queue.example:7117")), "as configured");
    }

    #[test]
    fn foreign_names_and_pages_are_not() {
        assert!(!judged("evil.example:7117", None));
        assert!(!judged("127.0.0.1.evil.example", None));
        assert!(!judged("queue.example.evil.example", None) && !judged("notqueue.example", None));
        let mut two = HeaderMap::new();
        two.append(HOST, HeaderValue::from_static("localhost"));
        two.append(HOST, HeaderValue::from_static("evil.example"));
        assert!(problem(&two, &[]).is_some());
        for origin in ["http://evil.example", "null", "http://127.0.0.1:8080"] {
            assert!(!judged("127.0.0.1:7117", Some(origin)), "{origin}");
        }
    }
}
