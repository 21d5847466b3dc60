//! HTTP/1.1, as a client of the admin endpoint or of the server that Sardana posts to.

use std::io;

use crate::{
    generator::{INVALID_UTF8, Protocol},
    wire::Wire,
};

/// An HTTP client.
pub(crate) struct HttpClient {
    /// A request line's method and path that is answered, for example `GET /livez`.
    pub(crate) small: &'static str,
    /// Its body; empty: none.
    pub(crate) body: &'static str,
    /// A path that takes bodies of JSON.
    pub(crate) posts: &'static str,
}

impl HttpClient {
    fn head(&self, rest: &str) -> Vec<u8> {
        let Self { posts, .. } = self;
        format!("POST {posts} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{rest}\r\n")
            .into_bytes()
    }

    fn post(&self, body: &[u8]) -> Vec<u8> {
        [self.head(&format!("Content-Length: {}\r\n", body.len())), body.to_vec()].concat()
    }
}

impl Protocol for HttpClient {
    fn answers_requests(&self) -> bool {
        false
    }

    /// There is no handshake: one request is sent and answered.
    fn greet(&self, wire: &mut Wire) -> io::Result<Vec<u8>> {
        wire.write(&self.small(b""))?;
        wire.read()
    }

    fn announcement(&self, request: &[u8]) -> Vec<u8> {
        match request.is_empty() {
            true => self.head("Content-Length: 2147483648\r\n"),
            false => [self.head("Transfer-Encoding: chunked\r\n"), b"80000000\r\n".to_vec()].concat(),
        }
    }

    fn endless(&self, request: &[u8]) -> (Vec<u8>, Vec<u8>) {
        match request.is_empty() {
            true => (b"GET / HTTP/1.1\r\nHost: localhost\r\n".to_vec(), b"X-More: and more\r\n".to_vec()),
            false => (self.head("Transfer-Encoding: chunked\r\n"), b"8\r\n\"more\" ,\r\n".to_vec()),
        }
    }

    fn error(&self, _request: &[u8], text: &[u8]) -> Vec<u8> {
        let text = serde_json::Value::from(String::from_utf8_lossy(text));
        self.post(format!(r#"{{"reason":{text},"timestamp":1}}"#).as_bytes())
    }

    fn wrong_types(&self, _request: &[u8]) -> Vec<Vec<u8>> {
        let lines: [&[u8]; 12] = [
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET / HTTP/3.0\r\n\r\n",
            b"GET /\r\n\r\n",
            b"BREW /v1/tree HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"PUT /v1/tree HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
            b"GET /v1/tree HTTP/1.1\r\n\r\n",
            b"GET http://elsewhere/ HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
            b"POST /v1/tree HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"EHLO example.org\r\n",
        ];
        let mut messages: Vec<_> = lines.map(<[u8]>::to_vec).to_vec();
        messages.extend([&b"[]"[..], b"7", b"null", b"", &b"[".repeat(10_000)].map(|body| self.post(body)));
        messages
    }

    fn invalid_utf8(&self, _request: &[u8]) -> Vec<Vec<u8>> {
        vec![
            [b"GET /", INVALID_UTF8, b" HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat(),
            [b"GET /v1/actors/", &b"%ff%fe%80"[..], b" HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat(),
            [b"GET / HTTP/1.1\r\nHost: ", INVALID_UTF8, b"\r\n\r\n"].concat(),
            [b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: ", INVALID_UTF8, b"\r\n\r\n"].concat(),
            [b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ", INVALID_UTF8, b"\r\n\r\n"]
                .concat(),
            self.post(&[b"{\"reason\":\"", INVALID_UTF8, b"\"}"].concat()),
            [INVALID_UTF8, b" / HTTP/1.1\r\n\r\n"].concat(),
        ]
    }

    fn small(&self, _request: &[u8]) -> Vec<u8> {
        let Self { small, body, .. } = self;
        let length = body.len();
        format!("{small} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
    }
}
