//! Keys of a terminal in raw mode, read on a thread of their own.
//!
//! The input of crossterm is not used: it watches keys and resizes with one edge-triggered poll, and loses
//! keys that arrive during a resize.

use std::{
    io::{self, Read, stdin},
    thread,
};

use tokio::sync::mpsc::{Receiver, channel};

/// Most keys that wait; further ones wait in the terminal.
const KEYS_MAX: usize = 64;
/// Longest escape sequence, in bytes.
const SEQUENCE_MAX: usize = 32;

/// A pressed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    /// A letter with Ctrl.
    Ctrl(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    /// A key without a meaning here.
    Other,
}

/// Starts to read keys from standard input. The channel is closed when the input ends.
///
/// # Errors
/// The thread cannot be started.
pub(super) fn keys() -> io::Result<Receiver<Key>> {
    let (sender, keys) = channel(KEYS_MAX);
    let read = move || {
        let (mut parser, mut buffer) = (Parser::default(), [0; 1024]);
        // The thread ends with the process, or once nobody receives keys.
        loop {
            let count = match stdin().lock().read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            for key in parser.take(&buffer[..count]) {
                if sender.blocking_send(key).is_err() {
                    return;
                }
            }
        }
    };
    thread::Builder::new().name("keys".to_owned()).spawn(read)?;
    Ok(keys)
}

/// Parser of the bytes that xterm and its successors send (invisible-island.net/xterm/ctlseqs).
#[derive(Debug, Default)]
struct Parser {
    /// Start of an incomplete character or escape sequence.
    rest: Vec<u8>,
}

impl Parser {
    /// Takes the keys that are complete. An Escape at the end of `bytes` is the key, not the start of a
    /// sequence.
    fn take(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.rest.extend(bytes);
        let (mut keys, mut at) = (Vec::new(), 0);
        while let Some((key, length)) = first(&self.rest[at..]) {
            keys.push(key);
            at += length;
        }
        self.rest.drain(..at);
        keys
    }
}

/// First key and its length in bytes, or `None` if it is incomplete.
fn first(bytes: &[u8]) -> Option<(Key, usize)> {
    match bytes {
        [] | [0x1b, b'O'] => None,
        [0x1b] => Some((Key::Escape, 1)),
        [0x1b, b'[', rest @ ..] => sequence(rest).map(|(key, length)| (key, length + 2)),
        [0x1b, b'O', last, ..] => Some((named(&[], *last), 3)),
        // Another key with Alt, or Escape twice.
        [0x1b, 0x1b, ..] => Some((Key::Escape, 1)),
        [0x1b, _, ..] => Some((Key::Other, 2)),
        [b'\r' | b'\n', ..] => Some((Key::Enter, 1)),
        [0x7f | 0x08, ..] => Some((Key::Backspace, 1)),
        [byte @ 0x01..=0x1a, ..] => Some((Key::Ctrl(char::from(byte - 1 + b'a')), 1)),
        [0x00..=0x1f, ..] => Some((Key::Other, 1)),
        _ => character(bytes),
    }
}

fn character(bytes: &[u8]) -> Option<(Key, usize)> {
    let chunk = bytes[..bytes.len().min(4)].utf8_chunks().next()?;
    match chunk.valid().chars().next() {
        Some(c) => Some((Key::Char(c), c.len_utf8())),
        // The character may continue in the next bytes.
        None if bytes.len() < 4 && chunk.invalid().len() == bytes.len() && bytes[0] >= 0xc2 => None,
        None => Some((Key::Other, chunk.invalid().len().max(1))),
    }
}

/// Parses the parameters and the last byte of a control sequence.
fn sequence(bytes: &[u8]) -> Option<(Key, usize)> {
    let end = bytes.iter().position(|byte| !(0x20..0x40).contains(byte));
    match end {
        Some(end) => Some((named(&bytes[..end], bytes[end]), end + 1)),
        None if bytes.len() > SEQUENCE_MAX => Some((Key::Other, bytes.len())),
        None => None,
    }
}

/// Key of a sequence, whatever modifiers it has.
fn named(parameters: &[u8], last: u8) -> Key {
    match (last, parameters.split(|byte| *byte == b';').next().unwrap_or_default()) {
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'C', _) => Key::Right,
        (b'D', _) => Key::Left,
        (b'H', _) | (b'~', b"1" | b"7") => Key::Home,
        (b'F', _) | (b'~', b"4" | b"8") => Key::End,
        (b'~', b"5") => Key::PageUp,
        (b'~', b"6") => Key::PageDown,
        _ => Key::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] =
        "aä\u{1f600}\r\x03\x7f\x1b[A\x1bOB\x1b[1;5C\x1b[D\x1b[H\x1b[4~\x1b[5~\x1b[6~\x1b[200~/".as_bytes();

    fn expected() -> Vec<Key> {
        use Key::*;
        let first =
            [Char('a'), Char('ä'), Char('\u{1f600}'), Enter, Ctrl('c'), Backspace, Up, Down, Right, Left];
        [&first[..], &[Home, End, PageUp, PageDown, Other, Char('/')]].concat()
    }

    #[test]
    fn keys_are_parsed_however_the_bytes_are_split() {
        assert_eq!(Parser::default().take(TEXT), expected());
        // A cut after Escape makes it a key.
        for cut in (0..TEXT.len()).filter(|cut| *cut == 0 || TEXT[cut - 1] != 0x1b) {
            let mut parser = Parser::default();
            let mut keys = parser.take(&TEXT[..cut]);
            keys.extend(parser.take(&TEXT[cut..]));
            assert_eq!(keys, expected(), "cut at {cut}");
        }
    }

    #[test]
    fn escape_is_a_key_at_the_end_and_alt_has_no_meaning() {
        assert_eq!(Parser::default().take(b"\x1b"), [Key::Escape]);
        assert_eq!(Parser::default().take(b"\x1b\x1b"), [Key::Escape; 2]);
        assert_eq!(Parser::default().take(b"\x1bxq"), [Key::Other, Key::Char('q')]);
    }

    #[test]
    fn arbitrary_bytes_are_consumed() {
        for seed in 0..2_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut parser = Parser::default();
            for _ in 0..30 {
                // Many escape sequences that do not end.
                let byte =
                    || if random.bool() { random.u8(..) } else { *random.choice(b"\x1b[O;5").unwrap_or(&0) };
                let bytes: Vec<u8> = std::iter::repeat_with(byte).take(7).collect();
                parser.take(&bytes);
                assert!(parser.rest.len() <= SEQUENCE_MAX + 9, "seed {seed}: {:?}", parser.rest);
            }
        }
    }
}
