//! Invalid and malicious requests. Each gets an error response, and the endpoint keeps running.

use tokio::net::TcpStream;

use crate::site;

#[test]
fn unknown_routes_are_404_with_the_known_routes() {
    site::run(|site| async move {
        for path in
            ["/ui", "/v1", "/v1/tre", "/v2/tree", "/v1/actors", "/v1/actors/stop", "/../etc/passwd", "/%00"]
        {
            let reply = site.get(path).await;
            let (status, message) = reply.error();
            assert_eq!(status, 404, "{path}");
            assert!(message.contains("/v1/tree") && message.contains("/metrics"), "{path}: {message}");
            assert_eq!(reply.header("cache-control"), Some("no-store"));
        }
    });
}

#[test]
fn wrong_methods_are_405() {
    site::run(|site| async move {
        let cases = [
            ("POST", "/v1/tree", "GET, HEAD"),
            ("DELETE", "/v1/tree/demo", "GET, HEAD"),
            ("GET", "/v1/actors/demo/source/stop", "POST"),
            ("PUT", "/v1/consoles/demo/store/echo", "POST"),
            ("POST", "/livez", "GET, HEAD"),
            ("OPTIONS", "/metrics", "GET, HEAD"),
        ];
        for (method, path, allowed) in cases {
            let reply = site.send(&format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
            assert_eq!(reply.error().0, 405, "{method} {path}");
            assert_eq!(reply.header("allow"), Some(allowed), "{method} {path}");
        }
        assert_eq!(site.tree.child("demo/source").unwrap().state().name(), "running");
    });
}

#[test]
fn a_body_that_is_too_large_is_413() {
    site::run(|site| async move {
        let body = format!(r#"{{"reason": "{}"}}"#, "x".repeat(70_000));
        for path in ["/v1/actors/demo/source/stop", "/v1/consoles/demo/store/echo"] {
            let (status, message) = site.post(path, &body).await.error();
            assert_eq!(status, 413, "{message}");
        }
        let announced = "POST /v1/actors/demo/source/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n";
        let sent = format!("{announced}{}", "x".repeat(66_000));
        assert_eq!(site.send(&sent).await.error().0, 413);
        assert_eq!(site.tree.child("demo/source").unwrap().state().name(), "running");
    });
}

#[test]
fn an_incomplete_body_is_408() {
    site::run(|site| async move {
        let request =
            "POST /v1/actors/demo/source/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{";
        assert_eq!(site.send(request).await.error().0, 408);
        assert_eq!(site.tree.child("demo/source").unwrap().state().name(), "running");
    });
}

#[test]
fn pages_of_other_sites_and_rebound_names_are_403() {
    site::run(|site| async move {
        let own = site.tcp;
        for headers in [
            "Host: localhost\r\nOrigin: http://evil.example".to_owned(),
            "Host: evil.example:7117".to_owned(),
            format!("Host: {own}\r\nOrigin: null"),
            "Host: evil.example\r\nOrigin: http://evil.example".to_owned(),
        ] {
            let request = format!(
                "POST /v1/actors/demo/source/stop HTTP/1.1\r\n{headers}\r\nContent-Length: 0\r\n\r\n"
            );
            let reply = site.send(&request).await;
            assert_eq!(reply.error().0, 403, "{headers}");
            assert_eq!(reply.header("cache-control"), Some("no-store"));
        }
        assert_eq!(site.tree.child("demo/source").unwrap().state().name(), "running");
    });
}

/// Browsers send `Sec-Fetch-Site` also where they send no `Origin`.
#[test]
fn requests_by_pages_of_other_sites_are_403_without_an_origin() {
    site::run(|site| async move {
        let send = async |method: &str, path: &str, from: &str| {
            let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: {from}\r\n");
            site.send(&format!("{head}Content-Length: 0\r\n\r\n")).await
        };
        for from in ["cross-site", "same-site", "CROSS-SITE", "same-origin, cross-site", "?"] {
            for path in ["/v1/actors/demo/source/stop", "/v1/consoles/demo/store/echo"] {
                assert_eq!(send("POST", path, from).await.error().0, 403, "{from}: {path}");
            }
        }
        assert_eq!(site.tree.child("demo/source").unwrap().state().name(), "running");
        for from in ["cross-site", "same-site"] {
            // An image of a foreign page could hold a place of the event streams.
            for path in ["/v1/events", "/v1/tree"] {
                assert_eq!(
                    send("GET", path, &format!("{from}\r\nSec-Fetch-Dest: image")).await.error().0,
                    403
                );
                assert_eq!(send("GET", path, from).await.error().0, 403);
            }
            let link = format!("{from}\r\nSec-Fetch-Dest: document");
            assert_eq!(send("GET", "/v1/tree", &link).await.status, 200, "a link to it may be followed");
            assert_eq!(send("POST", "/v1/actors/demo/source/stop", &link).await.error().0, 403);
            assert_eq!(send("GET", "/livez", from).await.status, 200);
        }
        for from in ["same-origin", "none"] {
            assert_eq!(send("POST", "/v1/consoles/demo/store/echo", from).await.status, 200, "{from}");
        }
    });
}

/// A connection serves one request: the others are neither executed nor answered.
#[test]
fn only_the_first_of_several_requests_is_executed() {
    site::run(|site| async move {
        let echo = site::post("/v1/consoles/demo/store/echo", r#"{"n": 1}"#);
        let stop = site::post("/v1/actors/demo/source/stop", "");
        let requests = format!("{echo}{}", stop.repeat(100));
        for reply in [site.send(&requests).await, site.send_unix(&requests).await] {
            assert_eq!((reply.status, reply.json()["echo"]["n"].as_i64()), (200, Some(1)), "{reply:?}");
            assert_eq!(reply.header("connection"), Some("close"));
        }
        assert_eq!(site.tree.child("demo/source").unwrap().state().name(), "running");
    });
}

#[test]
fn a_chunked_body_is_read_to_its_last_chunk() {
    site::run(|site| async move {
        let head = "POST /v1/consoles/demo/store/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunks = "5;name=value\r\n{\"n\":\r\n2\r\n1}\r\n0\r\nTrailer: x\r\n\r\n";
        let reply =
            site.send(&format!("{head}{chunks}GET /v1/tree HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        assert_eq!((reply.status, reply.json()["echo"]["n"].as_i64()), (200, Some(1)), "{reply:?}");
        assert_eq!(site.send(&format!("{head}5\r\n{{\"n\":\r\n;\r\n")).await.error().0, 400);
    });
}

/// A check of the port brings nothing, and is no fault.
#[test]
fn only_connections_with_an_invalid_request_are_counted() {
    site::run(|site| async move {
        for _ in 0..5 {
            drop(TcpStream::connect(site.tcp).await.unwrap());
        }
        for sent in 1..=2 {
            assert_eq!(site.send("nonsense\r\n\r\n").await.status, 400);
            let counted = async || Some(site.metric("refused_malformed")).filter(|count| *count >= sent);
            assert_eq!(site::wait_for("the count", counted).await, sent);
        }
    });
}
