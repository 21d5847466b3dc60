//! RESP2, as a server.

use std::io;

use crate::{
    generator::{INVALID_UTF8, Protocol},
    wire::Wire,
};

/// Redis.
pub(crate) struct Redis;

/// An answer to XREAD with one entry of one field.
fn entry(id: &str, field: &[u8], value: &[u8]) -> Vec<u8> {
    let mut answer = b"*1\r\n*2\r\n$28\r\ndranspose:controller:updates\r\n*1\r\n*2\r\n".to_vec();
    answer.extend(bulk(id.as_bytes()));
    answer.extend(b"*2\r\n");
    answer.extend(bulk(field));
    answer.extend(bulk(value));
    answer
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Commands that a client sends before its own.
fn is_setup(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_uppercase();
    ["CLIENT", "SELECT", "HELLO", "AUTH", "PING"].iter().any(|word| text.contains(word))
}

impl Protocol for Redis {
    fn answers_requests(&self) -> bool {
        true
    }

    fn greet(&self, wire: &mut Wire) -> io::Result<Vec<u8>> {
        loop {
            let request = wire.read()?;
            if !is_setup(&request) {
                return Ok(request);
            }
            let commands = request.iter().filter(|byte| **byte == b'*').count();
            wire.write(&b"+OK\r\n".repeat(commands))?;
        }
    }

    fn announcement(&self, _request: &[u8]) -> Vec<u8> {
        // An array of as many elements, or a text of as many bytes.
        if fastrand::bool() {
            b"$2147483648\r\n".to_vec()
        } else {
            b"*2147483648\r\n$2147483648\r\n".to_vec()
        }
    }

    fn endless(&self, _request: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (b"*2147483647\r\n".to_vec(), bulk(b"more"))
    }

    fn error(&self, _request: &[u8], text: &[u8]) -> Vec<u8> {
        [b"-ERR ", text, b"\r\n"].concat()
    }

    fn wrong_types(&self, _request: &[u8]) -> Vec<Vec<u8>> {
        let nested = b"*1\r\n".repeat(200);
        vec![
            b":42\r\n".to_vec(),
            b"+QUEUED\r\n".to_vec(),
            b"*0\r\n".to_vec(),
            b"$-1\r\n".to_vec(),
            b"*-1\r\n".to_vec(),
            b"*2\r\n:1\r\n*1\r\n$-1\r\n".to_vec(),
            entry("not-an-id", b"data", b"{}"),
            entry("18446744073709551615-18446744073709551615", b"data", b"[1,2]"),
            entry("1-1", b"other", b"{}"),
            [nested, b":1\r\n".to_vec()].concat(),
        ]
    }

    fn invalid_utf8(&self, _request: &[u8]) -> Vec<Vec<u8>> {
        vec![
            self.error(b"", INVALID_UTF8),
            [b"+", INVALID_UTF8, b"\r\n"].concat(),
            bulk(INVALID_UTF8),
            entry("1-1", INVALID_UTF8, INVALID_UTF8),
            entry("2-1", b"data", INVALID_UTF8),
        ]
    }

    fn small(&self, _request: &[u8]) -> Vec<u8> {
        // What there is always more of: entries with fields that nobody knows, and plain words.
        if fastrand::bool() { entry("1-1", b"x", b"y") } else { b"+OK\r\n".to_vec() }
    }
}
