//! AMQP 0-9-1, as a broker that lets clients in and answers what they declare, until it attacks.

use std::io;

use crate::{
    generator::{INVALID_UTF8, Protocol},
    wire::Wire,
};

/// A broker.
pub(crate) struct Amqp;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;
const FRAME_MAX: u32 = 131_072;

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    [&[kind][..], &channel.to_be_bytes(), &(payload.len() as u32).to_be_bytes(), payload, &[0xce]].concat()
}

fn method(channel: u16, class: u16, method: u16, arguments: &[u8]) -> Vec<u8> {
    frame(METHOD, channel, &[&class.to_be_bytes(), &method.to_be_bytes(), arguments].concat())
}

/// A text of at most 255 bytes.
fn short(text: &[u8]) -> Vec<u8> {
    let mut len = text.len().min(255);
    // Valid text is cut at a character.
    if std::str::from_utf8(text).is_ok() {
        while len > 0 && std::str::from_utf8(&text[..len]).is_err() {
            len -= 1;
        }
    }
    [&[len as u8], &text[..len]].concat()
}

fn long(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text].concat()
}

/// connection.start, with one server property.
fn start(name: &[u8], value: &[u8]) -> Vec<u8> {
    let table = [short(name), b"S".to_vec(), long(value)].concat();
    method(0, 10, 10, &[&[0, 9][..], &long(&table), &long(b"PLAIN AMQPLAIN"), &long(b"en_US")].concat())
}

fn close(channel: u16, class: u16, text: &[u8]) -> Vec<u8> {
    let number = if class == 10 { 50 } else { 40 };
    method(channel, class, number, &[&541_u16.to_be_bytes()[..], &short(text), &[0; 4]].concat())
}

/// connection.tune, with this largest frame.
fn tune(frame_max: u32) -> Vec<u8> {
    method(0, 10, 30, &[&2047_u16.to_be_bytes()[..], &frame_max.to_be_bytes(), &[0, 10]].concat())
}

/// A message for a consumer, up to its body, whose size is announced.
fn deliver(at: &Consumer, key: &[u8], size: u64) -> Vec<u8> {
    let arguments = [short(&at.tag), 1_u64.to_be_bytes().to_vec(), vec![0], short(key), short(key)].concat();
    let header = [&60_u16.to_be_bytes()[..], &[0, 0], &size.to_be_bytes(), &[0, 0]].concat();
    [method(at.channel, 60, 60, &arguments), frame(HEADER, at.channel, &header)].concat()
}

fn message(at: &Consumer, key: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = deliver(at, key, body.len() as u64);
    bytes.extend(body.chunks(at.frame_max as usize - 8).flat_map(|part| frame(BODY, at.channel, part)));
    bytes
}

/// Where a client consumes. It is kept as what the generator calls a request.
struct Consumer {
    channel: u16,
    /// Largest frame that was agreed upon, bytes.
    frame_max: u32,
    tag: Vec<u8>,
}

impl Consumer {
    fn of(request: &[u8]) -> Self {
        match request {
            [high, low, a, b, c, d, tag @ ..] => Self {
                channel: u16::from_be_bytes([*high, *low]),
                frame_max: u32::from_be_bytes([*a, *b, *c, *d]),
                tag: tag.to_vec(),
            },
            _ => Self { channel: 1, frame_max: FRAME_MAX, tag: b"none".to_vec() },
        }
    }

    fn into_request(self) -> Vec<u8> {
        [&self.channel.to_be_bytes()[..], &self.frame_max.to_be_bytes(), &self.tag].concat()
    }
}

/// The next frame: kind, channel, payload.
fn read_frame(wire: &mut Wire) -> io::Result<(u8, u16, Vec<u8>)> {
    let head = wire.read_exact(7)?;
    let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    let mut payload = wire.read_exact(length + 1)?;
    payload.pop();
    Ok((head[0], u16::from_be_bytes([head[1], head[2]]), payload))
}

/// The text of at most 255 bytes at `at`, and where it ends.
fn short_at(payload: &[u8], at: usize) -> (Vec<u8>, usize) {
    let end = at + 1 + usize::from(payload.get(at).copied().unwrap_or(0));
    (payload.get(at + 1..end).unwrap_or_default().to_vec(), end)
}

/// The answer to a method, if it has one.
fn answer(channel: u16, payload: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize| payload.get(at..at + 2).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]));
    let (class, number) = (word(0), word(2));
    let arguments = match (class, number) {
        (10, 40) => vec![0],
        (20, 10) => vec![0; 4],
        (40, 10 | 20 | 30) | (50, 20) | (60, 10) | (85, 10) => Vec::new(),
        (50, 10) => {
            let (name, _) = short_at(payload, 6);
            let name = if name.is_empty() { b"amq.gen-1".to_vec() } else { name };
            [short(&name), vec![0; 8]].concat()
        }
        (60, 20) => {
            let (_, at) = short_at(payload, 6);
            short(&tag_of(short_at(payload, at).0))
        }
        _ => return None,
    };
    Some(method(channel, class, number + 1, &arguments))
}

fn tag_of(tag: Vec<u8>) -> Vec<u8> {
    if tag.is_empty() { b"tag".to_vec() } else { tag }
}

impl Protocol for Amqp {
    fn answers_requests(&self) -> bool {
        false
    }

    /// Until a consumer is there, or as far as a random number of answers.
    fn greet(&self, wire: &mut Wire) -> io::Result<Vec<u8>> {
        wire.read_exact(8)?;
        wire.write(&start(b"product", b"RabbitMQ"))?;
        read_frame(wire)?;
        wire.write(&tune(FRAME_MAX))?;
        let mut frame_max = FRAME_MAX;
        let mut left = if fastrand::bool() { usize::MAX } else { fastrand::usize(1..12) };
        let mut last = 0;
        while left > 0 {
            let (kind, channel, payload) = read_frame(wire)?;
            // connection.tune-ok says what is agreed upon.
            if let [0, 10, 0, 31, _, _, a, b, c, d, ..] = payload[..] {
                frame_max = u32::from_be_bytes([a, b, c, d]);
            }
            if kind == METHOD
                && let Some(answer) = answer(channel, &payload)
            {
                wire.write(&answer)?;
                (left, last) = (left - 1, channel);
                if payload.starts_with(&[0, 60, 0, 20]) {
                    let (_, at) = short_at(&payload, 6);
                    return Ok(
                        Consumer { channel, frame_max, tag: tag_of(short_at(&payload, at).0) }.into_request()
                    );
                }
            }
        }
        Ok(Consumer { channel: last, frame_max, tag: b"none".to_vec() }.into_request())
    }

    fn announcement(&self, request: &[u8]) -> Vec<u8> {
        let at = Consumer::of(request);
        let head = |kind: u8| [&[kind][..], &at.channel.to_be_bytes(), &(1_u32 << 31).to_be_bytes()].concat();
        match request.is_empty() || fastrand::bool() {
            true => head(METHOD),
            false => [deliver(&at, b"key", 1 << 31), head(BODY)].concat(),
        }
    }

    fn endless(&self, request: &[u8]) -> (Vec<u8>, Vec<u8>) {
        if request.is_empty() {
            return (start(b"product", b"RabbitMQ"), frame(HEARTBEAT, 0, b""));
        }
        // One message, whose body is announced with all the bytes that there can be.
        let at = Consumer::of(request);
        (deliver(&at, b"key", i64::MAX as u64), frame(BODY, at.channel, &[b'x'; 4_000]))
    }

    fn error(&self, request: &[u8], text: &[u8]) -> Vec<u8> {
        let at = Consumer::of(request);
        match request.is_empty() {
            // A text that a broker says of itself; reasons have 255 bytes at the most.
            true => start(b"product", text),
            false => {
                [message(&at, text, text), close(at.channel.max(1), 20, text), close(0, 10, text)].concat()
            }
        }
    }

    fn wrong_types(&self, request: &[u8]) -> Vec<Vec<u8>> {
        let at = Consumer::of(request);
        vec![
            // Frames of any size, whose buffers would be made at once.
            [start(b"product", b"RabbitMQ"), tune(u32::MAX)].concat(),
            [start(b"product", b"RabbitMQ"), tune(0)].concat(),
            method(0, 10, 60, &short(b"blocked")),
            method(at.channel, 50, 11, &[short(b"no such queue"), vec![0; 8]].concat()),
            method(at.channel, 60, 80, &[0xff; 9]),
            method(at.channel, 60, 30, &[short(&at.tag), vec![0]].concat()),
            method(at.channel, 60, 50, &[vec![0, 1], short(b"no"), short(b"e"), short(b"k")].concat()),
            method(at.channel, 20, 20, &[0]),
            method(999, 20, 11, &[0; 4]),
            method(at.channel, 99, 99, b"what"),
            method(0, 60, 60, b""),
            frame(HEADER, at.channel, &[0; 14]),
            frame(BODY, at.channel, b"of nothing"),
            frame(7, 0, b"?"),
            message(&at, b"key", b"\xc1 no message of ours"),
            vec![METHOD, 0, 0, 0, 0, 0, 1, 0, 0],
            b"AMQP\0\x01\0\0".to_vec(),
        ]
    }

    fn invalid_utf8(&self, request: &[u8]) -> Vec<Vec<u8>> {
        let at = Consumer::of(request);
        vec![
            message(&at, INVALID_UTF8, INVALID_UTF8),
            method(0, 10, 60, &short(INVALID_UTF8)),
            close(at.channel.max(1), 20, INVALID_UTF8),
            close(0, 10, INVALID_UTF8),
            start(INVALID_UTF8, INVALID_UTF8),
        ]
    }

    fn small(&self, request: &[u8]) -> Vec<u8> {
        if request.is_empty() {
            frame(HEARTBEAT, 0, b"")
        } else {
            message(&Consumer::of(request), b"key", b"\xc1")
        }
    }
}
