//! PostgreSQL's protocol 3.0, as a server.

use std::io;

use crate::{
    generator::{INVALID_UTF8, Protocol},
    wire::Wire,
};

/// PostgreSQL.
pub(crate) struct Postgres;

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![tag];
    message.extend((body.len() as u32 + 4).to_be_bytes());
    message.extend(body);
    message
}

fn text(tag: u8, texts: &[&[u8]]) -> Vec<u8> {
    message(tag, &texts.iter().flat_map(|text| [*text, b"\0"].concat()).collect::<Vec<_>>())
}

/// An error or a notice: fields with their codes, and the end.
fn fields(tag: u8, said: &[u8]) -> Vec<u8> {
    text(tag, &[b"SERROR", b"VERROR", b"CXX000", &[b"M", said].concat(), &[b"D", said].concat(), b""])
}

/// The description of a row with one column of type text.
fn row_of(name: &[u8]) -> Vec<u8> {
    let tail = [0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0];
    message(b'T', &[&[0, 1], name, &[0], &tail].concat())
}

fn data(value: &[u8]) -> Vec<u8> {
    message(b'D', &[&[0, 1][..], &(value.len() as u32).to_be_bytes(), value].concat())
}

fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

impl Protocol for Postgres {
    fn answers_requests(&self) -> bool {
        true
    }

    fn greet(&self, wire: &mut Wire) -> io::Result<Vec<u8>> {
        // A request for TLS has eight bytes.
        if wire.read()?.len() == 8 {
            wire.write(b"N")?;
            wire.read()?;
        }
        let mut greeting = message(b'R', &[0; 4]);
        for (name, value) in
            [("server_version", "17.0"), ("client_encoding", "UTF8"), ("integer_datetimes", "on")]
        {
            greeting.extend(text(b'S', &[name.as_bytes(), value.as_bytes()]));
        }
        greeting.extend(message(b'K', &[0, 0, 0, 1, 0, 0, 0, 2]));
        greeting.extend(ready());
        wire.write(&greeting)?;
        wire.read()
    }

    fn announcement(&self, request: &[u8]) -> Vec<u8> {
        // The greatest length that the framing allows.
        let tag = if request.is_empty() {
            *fastrand::choice(b"REN").unwrap_or(&b'R')
        } else {
            *fastrand::choice(b"DENTS").unwrap_or(&b'D')
        };
        [&[tag][..], &i32::MAX.to_be_bytes()].concat()
    }

    fn endless(&self, request: &[u8]) -> (Vec<u8>, Vec<u8>) {
        if request.is_empty() {
            // As many parameters as a server may report.
            return (message(b'R', &[0; 4]), text(b'S', &[b"name", b"value"]));
        }
        if fastrand::bool() { (Vec::new(), fields(b'N', b"notice")) } else { (row_of(b"a"), data(b"row")) }
    }

    fn error(&self, _request: &[u8], text: &[u8]) -> Vec<u8> {
        [fields(b'E', text), ready()].concat()
    }

    fn wrong_types(&self, _request: &[u8]) -> Vec<Vec<u8>> {
        let all = [
            message(b'G', &[0, 0, 0]),
            message(b'W', &[0, 0, 0]),
            message(b'd', b"copied"),
            data(b"a row that nobody asked for"),
            row_of(b"column"),
            message(b'1', b""),
            message(b'2', b""),
            message(b'R', &[0, 0, 0, 99]),
            message(b'R', b"\0\0\0\x0aNO-SUCH-MECHANISM\0\0"),
            message(b'v', &[0, 3, 0, 9, 0, 0, 0, 0]),
            message(b'~', b"?"),
            message(b'C', b"INSERT 0 99999999999999999999999\0"),
            message(b'D', &[0xff, 0xff, 0, 0, 0, 1]),
            message(b'T', &[0x7f, 0xff]),
            vec![b'D', 0, 0, 0, 3],
            vec![b'Z', 0xff, 0xff, 0xff, 0xff],
        ];
        all.map(|message| [message, ready()].concat()).to_vec()
    }

    fn invalid_utf8(&self, _request: &[u8]) -> Vec<Vec<u8>> {
        vec![
            self.error(b"", INVALID_UTF8),
            fields(b'N', INVALID_UTF8),
            text(b'S', &[INVALID_UTF8, INVALID_UTF8]),
            [message(b'1', b""), message(b't', &[0, 0]), row_of(INVALID_UTF8), ready()].concat(),
            message(b'A', &[&[0, 0, 0, 1], INVALID_UTF8, &[0], INVALID_UTF8, &[0]].concat()),
            text(b'C', &[INVALID_UTF8]),
            message(b'R', &[b"\0\0\0\x0a", INVALID_UTF8, b"\0\0"].concat()),
        ]
    }

    fn small(&self, _request: &[u8]) -> Vec<u8> {
        if fastrand::bool() { fields(b'N', b"a notice") } else { text(b'S', &[b"TimeZone", b"UTC"]) }
    }
}
