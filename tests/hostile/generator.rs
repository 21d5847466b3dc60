//! The generator: carries out a behaviour on one connection, in the words of any protocol.

use std::io;

use crate::{behaviour::Behaviour, wire::Wire};

/// Size of an error text, bytes.
pub(crate) const TEXT_BYTES: usize = 3_000_000;

/// Bytes that are no UTF-8 in any reading: a stray continuation, an overlong slash, a surrogate, and what no text has.
pub(crate) const INVALID_UTF8: &[u8] = b"\x80\xc0\xaf\xed\xa0\x80\xf8\xff\xfe";

/// What a protocol contributes. A `request` is what the edge sent last, for protocols whose answers name their request; it is empty
/// before the handshake.
pub(crate) trait Protocol: Send + Sync {
    /// Tells whether the edge sends requests that are to be answered. If not, messages are sent unasked.
    fn answers_requests(&self) -> bool;

    /// Plays a sane peer until the handshake is over. Returns the request that waits for an answer then, if the protocol has any.
    fn greet(&self, wire: &mut Wire) -> io::Result<Vec<u8>>;

    /// Head of a message that announces 2^31 bytes, or the most that the framing allows.
    fn announcement(&self, request: &[u8]) -> Vec<u8>;

    /// Beginning of a message that never ends, and the piece that is repeated.
    fn endless(&self, request: &[u8]) -> (Vec<u8>, Vec<u8>);

    /// Message with an error of the protocol's own that has this text, or as much of it as the framing allows.
    fn error(&self, request: &[u8], text: &[u8]) -> Vec<u8>;

    /// Well-formed messages of kinds that have no place there.
    fn wrong_types(&self, request: &[u8]) -> Vec<Vec<u8>>;

    /// Messages whose texts are [`INVALID_UTF8`].
    fn invalid_utf8(&self, request: &[u8]) -> Vec<Vec<u8>>;

    /// Small valid message.
    fn small(&self, request: &[u8]) -> Vec<u8>;
}

/// Carries out `behaviour` on one connection, after the handshake if `greeted`, in its place otherwise. The error is that of the
/// connection's end, which is nobody's fault.
pub(crate) fn strike(
    protocol: &dyn Protocol,
    behaviour: Behaviour,
    greeted: bool,
    wire: &mut Wire,
) -> io::Result<()> {
    let request = if greeted { protocol.greet(wire)? } else { Vec::new() };
    match behaviour {
        Behaviour::NeverAnswers => wire.hold(),
        Behaviour::ClosesAfterEachByte => {
            wire.write(&protocol.small(&request)[..1])?;
            wire.read_exact(1).map(|_| ())
        }
        Behaviour::AnnouncesTwoGiB => {
            wire.write(&protocol.announcement(&request))?;
            wire.stream(b"\0a")
        }
        Behaviour::StreamsWithoutEnd => {
            let (head, piece) = protocol.endless(&request);
            wire.write(&head)?;
            wire.stream(&piece)
        }
        Behaviour::SendsErrorText => {
            let text = error_text();
            answer(protocol, wire, request, |request| vec![protocol.error(request, &text)])
        }
        Behaviour::SendsWrongTypes => {
            answer(protocol, wire, request, |request| protocol.wrong_types(request))
        }
        Behaviour::SendsInvalidUtf8 => {
            answer(protocol, wire, request, |request| protocol.invalid_utf8(request))
        }
        Behaviour::Floods => wire.stream(&protocol.small(&request)),
    }
}

/// Answers the request in hand and every later one with the next message; where nobody asks, sends all messages at once. Keeps the
/// connection open afterwards.
fn answer(
    protocol: &dyn Protocol,
    wire: &mut Wire,
    mut request: Vec<u8>,
    messages: impl Fn(&[u8]) -> Vec<Vec<u8>>,
) -> io::Result<()> {
    // Each connection begins with another message, so that no message shields those behind it.
    let mut turn = fastrand::usize(..64);
    if !protocol.answers_requests() {
        let messages = messages(&request);
        for at in 0..messages.len() {
            wire.write(&messages[(turn + at) % messages.len()])?;
        }
        return wire.hold();
    }
    loop {
        let mut messages = messages(&request);
        let at = turn % messages.len();
        wire.write(&messages.swap_remove(at))?;
        turn += 1;
        request = wire.read()?;
    }
}

/// Valid UTF-8 with what a terminal or a log would act on.
fn error_text() -> Vec<u8> {
    let sentence = "the peer is not well \u{1b}[2J\u{202e}\u{85} and says so; ";
    let mut text = sentence.repeat(TEXT_BYTES / sentence.len() + 1);
    text.truncate(text.floor_char_boundary(TEXT_BYTES));
    text.into_bytes()
}
