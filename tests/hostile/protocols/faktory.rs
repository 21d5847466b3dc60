//! Faktory's protocol of version 2, as a server.

use std::io;

use crate::{
    generator::{INVALID_UTF8, Protocol},
    wire::Wire,
};

/// Faktory.
pub(crate) struct Faktory;

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// The answer to INFO, with `queues` as the JSON of its queues.
fn info(queues: &str) -> Vec<u8> {
    bulk(
        format!(
            r#"{{"faktory":{{"queues":{queues},"tasks":{{}},"total_failures":0,"total_processed":0,"sets":{{"dead":0,"retries":0,"scheduled":0,"working":0}}}}}}"#
        )
        .as_bytes(),
    )
}

impl Protocol for Faktory {
    fn answers_requests(&self) -> bool {
        true
    }

    fn greet(&self, wire: &mut Wire) -> io::Result<Vec<u8>> {
        wire.write(b"+HI {\"v\":2}\r\n")?;
        wire.read_line()?;
        wire.write(b"+OK\r\n")?;
        // Each connection begins with INFO.
        wire.read_line()?;
        wire.write(&info("{}"))?;
        wire.read()
    }

    fn announcement(&self, _request: &[u8]) -> Vec<u8> {
        if fastrand::bool() {
            b"$2147483648\r\n".to_vec()
        } else {
            b"*2147483648\r\n$2147483648\r\n".to_vec()
        }
    }

    fn endless(&self, _request: &[u8]) -> (Vec<u8>, Vec<u8>) {
        // A line.
        (b"+".to_vec(), b"OK and more ".to_vec())
    }

    fn error(&self, _request: &[u8], text: &[u8]) -> Vec<u8> {
        [b"-ERR ", text, b"\r\n"].concat()
    }

    fn wrong_types(&self, _request: &[u8]) -> Vec<Vec<u8>> {
        let plain: [&[u8]; 6] =
            [b":42\r\n", b"+WHAT\r\n", b"*2\r\n:1\r\n+OK\r\n", b"$-1\r\n", b"*-1\r\n", b"*0\r\n"];
        let mut messages: Vec<_> = plain.map(<[u8]>::to_vec).to_vec();
        messages.extend([
            info("[1,2]"),
            info(r#"{"a":-1}"#),
            info(r#"{"a":1e308}"#),
            bulk(b"[[[[[[{}]]]]]]"),
        ]);
        messages.push(bulk(br#"{"jid":"no such job"}"#));
        messages.push(bulk(&b"[".repeat(100_000)));
        messages
    }

    fn invalid_utf8(&self, _request: &[u8]) -> Vec<Vec<u8>> {
        vec![
            self.error(b"", INVALID_UTF8),
            [b"+", INVALID_UTF8, b"\r\n"].concat(),
            bulk(INVALID_UTF8),
            bulk(&[b"{\"".as_slice(), INVALID_UTF8, b"\":\"", INVALID_UTF8, b"\"}"].concat()),
            [b"+HI {\"v\":2,\"s\":\"".as_slice(), INVALID_UTF8, b"\",\"i\":1}\r\n"].concat(),
        ]
    }

    fn small(&self, _request: &[u8]) -> Vec<u8> {
        if fastrand::bool() { b"+OK\r\n".to_vec() } else { bulk(b"{}") }
    }
}
