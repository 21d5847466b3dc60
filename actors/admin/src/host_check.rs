//! Protection against requests that web pages of other sites make a local browser send. `Origin` reveals such
//! a page, `Host` a DNS name that was rebound to 127.0.0.1, and `Sec-Fetch-Site` a request without an
//! `Origin`, such as that of an image, which could hold the places of event streams. Links of other sites to
//! an answer may be followed: `Sec-Fetch-Dest` tells them.

use std::net::IpAddr;

use hyper::{
    HeaderMap, Method,
    header::{HOST, HeaderName, HeaderValue, ORIGIN},
};

/// Relation of the page to this server, according to the browser.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Use of the answer, according to the browser: `document` for a tab that shows it.
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// Beginning of the routes with data.
const DATA: &str = "/v1/";

/// Reason to refuse a request for `path` by its headers. `served` are the accepted names besides the local
/// ones.
pub(crate) fn problem(method: &Method, path: &str, headers: &HeaderMap, served: &[String]) -> Option<String> {
    if headers.get_all(HOST).iter().count() > 1 {
        return Some("the request has more than one `Host`: send one".to_owned());
    }
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST);
    if let Some(host) = host.filter(|host| !is_served(host, served)) {
        return Some(format!(
            "host `{host}` is not accepted: use localhost or the IP address, or add it to admin.allowed_hosts"
        ));
    }
    let is_other_site = |origin: &&str| origin.split_once("://").map(|(_, authority)| authority) != host;
    if let Some(origin) = text(ORIGIN).filter(is_other_site) {
        return Some(format!("requests from web pages of `{origin}` are not accepted"));
    }
    // `none` is a request of the user, such as a bookmark.
    let is_own = |value: &HeaderValue| value == "same-origin" || value == "none";
    let is_link = method.is_safe() && headers.get_all(SEC_FETCH_DEST).iter().eq(["document"]);
    let is_limited = !method.is_safe() || path.starts_with(DATA);
    let from_other = is_limited && !is_link && !headers.get_all(SEC_FETCH_SITE).iter().all(is_own);
    from_other.then(|| "requests from web pages of other sites are not accepted".to_owned())
}

/// True for `localhost` and IP addresses, which DNS cannot rebind, for the names in `served`, and for an
/// empty host, which clients of the unix socket may send.
fn is_served(host: &str, served: &[String]) -> bool {
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

    fn is_accepted(host: &str, origin: Option<&'static str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
        }
        problem(&Method::GET, "/v1/tree", &headers, &["queue.example".to_owned()]).is_none()
    }

    #[test]
    fn local_names_and_own_pages_are_accepted() {
        for host in ["localhost", "localhost:7117", "127.0.0.1:7117", "[::1]:7117", "[::1]", ""] {
            assert!(is_accepted(host, None), "{host}");
        }
        assert!(is_accepted("127.0.0.1:7117", Some("http://127.0.0.1:7117")));
        assert!(
            is_accepted("Queue.example:7117", Some("https://Queue.example:7117")),
            "a configured name is accepted"
        );
    }

    #[test]
    fn other_names_and_pages_are_refused() {
        assert!(!is_accepted("evil.example:7117", None));
        assert!(!is_accepted("127.0.0.1.evil.example", None));
        assert!(!is_accepted("queue.example.evil.example", None) && !is_accepted("notqueue.example", None));
        let mut two = HeaderMap::new();
        two.append(HOST, HeaderValue::from_static("localhost"));
        two.append(HOST, HeaderValue::from_static("evil.example"));
        assert!(problem(&Method::GET, "/v1/tree", &two, &[]).is_some());
        for origin in ["http://evil.example", "null", "http://127.0.0.1:8080"] {
            assert!(!is_accepted("127.0.0.1:7117", Some(origin)), "{origin}");
        }
    }
}
