//! HTTP/1.1 with JSON, as a server: ERMrest.

use std::io;

use crate::{
    generator::{INVALID_UTF8, Protocol},
    wire::Wire,
};

/// An HTTP server.
pub(crate) struct HttpServer;

const JSON: &str = "content-type: application/json";

fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn rows(body: &[u8]) -> Vec<u8> {
    answer("200 OK", &format!("{JSON}\r\netag: \"1\""), body)
}

impl Protocol for HttpServer {
    fn answers_requests(&self) -> bool {
        true
    }

    /// There is no handshake: the first request is answered with no rows.
    fn greet(&self, wire: &mut Wire) -> io::Result<Vec<u8>> {
        wire.read()?;
        wire.write(&rows(b"[]"))?;
        wire.read()
    }

    fn announcement(&self, _request: &[u8]) -> Vec<u8> {
        let length = if fastrand::bool() {
            "content-length: 2147483648\r\n\r\n["
        } else {
            "transfer-encoding: chunked\r\n\r\n80000000\r\n["
        };
        format!("HTTP/1.1 200 OK\r\n{JSON}\r\n{length}").into_bytes()
    }

    fn endless(&self, _request: &[u8]) -> (Vec<u8>, Vec<u8>) {
        match fastrand::usize(..2) {
            0 => (b"HTTP/1.1 200 OK\r\n".to_vec(), b"x-more: and more\r\n".to_vec()),
            _ => {
                let head =
                    format!("HTTP/1.1 200 OK\r\n{JSON}\r\ntransfer-encoding: chunked\r\n\r\n1\r\n[\r\n");
                (head.into_bytes(), b"9\r\n{\"id\":1},\r\n".to_vec())
            }
        }
    }

    fn error(&self, _request: &[u8], text: &[u8]) -> Vec<u8> {
        let status =
            fastrand::choice(["500 Internal Server Error", "400 Bad Request", "409 Conflict", "503 Busy"]);
        answer(status.unwrap_or("500 Error"), "content-type: text/plain", text)
    }

    fn wrong_types(&self, _request: &[u8]) -> Vec<Vec<u8>> {
        vec![
            rows(b"{}"),
            rows(b"7"),
            rows(b"[1,\"a\",null]"),
            rows(br#"[{"id":{"a":[1]},"state":7,"RID":null,"RMT":[]}]"#),
            rows(&b"[".repeat(100_000)),
            answer("200 OK", "content-type: text/html", b"<html>log in</html>"),
            answer("204 No Content", JSON, b""),
            answer("304 Not Modified", JSON, b""),
            answer("301 Moved", "location: /", b""),
            answer("401 Unauthorized", "www-authenticate: Basic", b""),
            answer("200 OK", "content-encoding: gzip", b"\x1f\x8b\x08\0\0"),
            answer("999 What", JSON, b"[]"),
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n".to_vec(),
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n[]".to_vec(),
            b"HTTP/2.0 200 OK\r\n\r\n".to_vec(),
            b"220 mail.example.org ESMTP\r\n".to_vec(),
        ]
    }

    fn invalid_utf8(&self, _request: &[u8]) -> Vec<Vec<u8>> {
        vec![
            rows(&[b"[{\"id\":1,\"RID\":\"", INVALID_UTF8, b"\",\"state\":\"actionable\"}]"].concat()),
            rows(&[b"[{\"", INVALID_UTF8, b"\":1}]"].concat()),
            answer("500 Internal Server Error", "content-type: text/plain", INVALID_UTF8),
            [b"HTTP/1.1 500 ", INVALID_UTF8, b"\r\ncontent-length: 0\r\n\r\n"].concat(),
            [b"HTTP/1.1 200 OK\r\netag: ", INVALID_UTF8, b"\r\ncontent-length: 2\r\n\r\n[]"].concat(),
        ]
    }

    fn small(&self, _request: &[u8]) -> Vec<u8> {
        rows(b"[]")
    }
}
