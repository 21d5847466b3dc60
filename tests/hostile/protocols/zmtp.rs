//! ZMTP 3.0 with the NULL mechanism, on either side.

use std::io;

use crate::{
    generator::{INVALID_UTF8, Protocol},
    wire::Wire,
};

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// A ZMTP peer.
pub(crate) struct Zmtp {
    /// Its socket's type, for example `PUSH`.
    pub(crate) kind: &'static str,
    /// The parts of a small message that its other side takes.
    pub(crate) small: &'static [&'static [u8]],
    /// Messages of one part that its other side refuses.
    pub(crate) wrong: &'static [&'static [u8]],
}

fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    match u8::try_from(body.len()) {
        Ok(len) => [&[flags, len][..], body].concat(),
        Err(_) => [&[flags | LONG][..], &(body.len() as u64).to_be_bytes(), body].concat(),
    }
}

fn message(parts: &[&[u8]]) -> Vec<u8> {
    let last = parts.len().saturating_sub(1);
    parts.iter().enumerate().flat_map(|(at, part)| frame(if at < last { MORE } else { 0 }, part)).collect()
}

fn command(name: &[u8], body: &[u8]) -> Vec<u8> {
    frame(COMMAND, &[&[name.len() as u8], name, body].concat())
}

fn property(name: &[u8], value: &[u8]) -> Vec<u8> {
    [&[name.len() as u8], name, &(value.len() as u32).to_be_bytes(), value].concat()
}

fn greeting() -> [u8; 64] {
    let mut greeting = [0; 64];
    (greeting[0], greeting[9], greeting[10]) = (0xff, 0x7f, 3);
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

impl Zmtp {
    fn ready(&self) -> Vec<u8> {
        // As many names as connections.
        let identity = format!("hostile{}", fastrand::u32(..));
        let properties =
            [property(b"Socket-Type", self.kind.as_bytes()), property(b"Identity", identity.as_bytes())];
        command(b"READY", &properties.concat())
    }
}

impl Protocol for Zmtp {
    fn answers_requests(&self) -> bool {
        false
    }

    fn greet(&self, wire: &mut Wire) -> io::Result<Vec<u8>> {
        wire.write(&greeting())?;
        wire.write(&self.ready())?;
        wire.read_exact(64)?;
        let head = wire.read_exact(2)?;
        wire.read_exact(usize::from(head[1]))
    }

    fn announcement(&self, request: &[u8]) -> Vec<u8> {
        let flags = if request.is_empty() { LONG | COMMAND } else { LONG };
        let head = [&[flags][..], &(1_u64 << 31).to_be_bytes()].concat();
        if request.is_empty() { [&greeting()[..], &head].concat() } else { head }
    }

    fn endless(&self, request: &[u8]) -> (Vec<u8>, Vec<u8>) {
        // A message of ever more parts; before the handshake, properties or commands.
        if request.is_empty() {
            (greeting().to_vec(), command(b"PING", &[0, 0]))
        } else {
            (Vec::new(), frame(MORE, b"part"))
        }
    }

    fn error(&self, request: &[u8], text: &[u8]) -> Vec<u8> {
        let refused = command(b"ERROR", &[&[255][..], text].concat());
        let json = serde_json_text(text);
        let head = format!(r#"{{"htype":{json},"msg_number":0,"filename":{json}}}"#);
        if request.is_empty() {
            [&greeting()[..], &refused].concat()
        } else {
            [message(&[head.as_bytes()]), refused].concat()
        }
    }

    fn wrong_types(&self, request: &[u8]) -> Vec<Vec<u8>> {
        let mut messages = vec![
            command(b"SUBSCRIBE", b"all"),
            command(b"PING", &[0, 10]),
            command(b"HELLO", &[0; 200]),
            command(b"", b""),
            frame(COMMAND, b""),
            frame(0x80, b"a reserved flag"),
            message(&[b""]),
            message(&[b"", b"", b""]),
            message(&[b"{}"]),
            message(&[b"[1,2", b"3]"]),
            message(&[br#"{"htype":"image","frame":"x","shape":[-1],"type":7,"msg_number":1}"#, b""]),
            message(&vec![&b"part"[..]; 1_000]),
            greeting().to_vec(),
        ];
        messages.extend(self.wrong.iter().map(|part| message(&[part])));
        if request.is_empty() {
            messages = messages.into_iter().map(|message| [&greeting()[..], &message].concat()).collect();
            // ZMTP 2.0, and an authentication that is not offered.
            messages.push(vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1, 8, 0, 0]);
            let mut curve = greeting();
            curve[12..17].copy_from_slice(b"CURVE");
            messages.push(curve.to_vec());
            messages.push([&greeting()[..], &command(b"READY", &property(b"Socket-Type", b"REP"))].concat());
        }
        messages
    }

    fn invalid_utf8(&self, request: &[u8]) -> Vec<Vec<u8>> {
        let quoted =
            [b"{\"htype\":\"", INVALID_UTF8, b"\",\"msg_number\":0,\"filename\":\"", INVALID_UTF8, b"\"}"]
                .concat();
        if !request.is_empty() {
            return vec![
                message(&[INVALID_UTF8]),
                message(&[&quoted]),
                command(b"ERROR", &[&[INVALID_UTF8.len() as u8], INVALID_UTF8].concat()),
                command(INVALID_UTF8, INVALID_UTF8),
            ];
        }
        let named = [property(b"Socket-Type", self.kind.as_bytes()), property(b"Identity", INVALID_UTF8)];
        let odd = [property(INVALID_UTF8, INVALID_UTF8), property(b"Socket-Type", INVALID_UTF8)];
        let texts = [
            command(b"READY", &named.concat()),
            command(b"READY", &odd.concat()),
            command(INVALID_UTF8, b""),
        ];
        texts.map(|text| [&greeting()[..], &text].concat()).to_vec()
    }

    fn small(&self, request: &[u8]) -> Vec<u8> {
        if request.is_empty() { [&greeting()[..], &self.ready()].concat() } else { message(self.small) }
    }
}

/// `text` as a string of JSON.
fn serde_json_text(text: &[u8]) -> String {
    serde_json::Value::from(String::from_utf8_lossy(text)).to_string()
}
