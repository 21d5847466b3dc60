//! Carries out a behaviour on one connection with the messages of a protocol.

use std::io;

use crate::{behaviour::Behaviour, wire::Wire};

/// Size of an error text, bytes.
pub(crate) const TEXT_BYTES: usize = 3_000_000;

/// Invalid UTF-8: a stray continuation byte, an overlong slash, a surrogate, and bytes outside UTF-8.
pub(crate) const INVALID_UTF8: &[u8] = b"\x80\xc0\xaf\xed\xa0\x80\xf8\xff\xfe";

/// Messages of a protocol. `request` is the last message of the edge, for protocols whose answers refer to
/// it.
///
/// It is empty before the handshake.
pub(crate) trait Protocol: Send + Sync {
    /// Returns true if the peer answers requests. Otherwise messages are sent without a request.
    fn answers_requests(&self) -> bool;

    /// Completes the handshake as a correct peer. Returns the first pending request, if the protocol has
    /// requests.
    fn greet(&self, wire: &mut Wire) -> io::Result<Vec<u8>>;

    /// Header of a message that announces 2^31 bytes, or the most that the framing allows.
    fn announcement(&self, request: &[u8]) -> Vec<u8>;

    /// Start of an endless message, and the piece that is repeated.
    fn endless(&self, request: &[u8]) -> (Vec<u8>, Vec<u8>);

    /// Error message of the protocol with this text, or as much of it as the framing allows.
    fn error(&self, request: &[u8], text: &[u8]) -> Vec<u8>;

    /// Well-formed messages of unexpected kinds.
    fn wrong_types(&self, request: &[u8]) -> Vec<Vec<u8>>;

    /// Messages whose texts are [`INVALID_UTF8`].
    fn invalid_utf8(&self, request: &[u8]) -> Vec<Vec<u8>>;

    /// Small valid message.
    fn small(&self, request: &[u8]) -> Vec<u8>;

    /// Answer to a request of a login, or to any other request, for protocols with
    /// [`Behaviour::MisusesLogin`].
    fn login(&self, request: &[u8]) -> Vec<u8> {
        self.small(request)
    }
}

/// Answer to a SCRAM login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    /// The server's nonce is shorter than the client's.
    ShortNonce,
    /// 2^32 - 1 iterations.
    Iterations,
}

/// Carries out `behaviour` on one connection, after the handshake if `greeted`, otherwise in place of it.
///
/// Returns the error that ended the connection.
pub(crate) fn carry_out(
    protocol: &dyn Protocol,
    behaviour: Behaviour,
    greeted: bool,
    wire: &mut Wire,
) -> io::Result<()> {
    // A login begins before the handshake is over, and a frozen peer never begins one.
    let greeted =
        greeted && !matches!(behaviour, Behaviour::MisusesLogin | Behaviour::FreezesAfterConnecting);
    let request = if greeted { protocol.greet(wire)? } else { Vec::new() };
    match behaviour {
        Behaviour::NeverAnswers | Behaviour::FreezesAfterConnecting => wire.hold(),
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
        Behaviour::MisusesLogin => {
            let mut request = request;
            loop {
                if !request.is_empty() {
                    wire.write(&protocol.login(&request))?;
                }
                request = wire.read()?;
            }
        }
    }
}

/// Answers each request with the next message; without requests sends all messages at once.
///
/// Keeps the connection open afterwards.
fn answer(
    protocol: &dyn Protocol,
    wire: &mut Wire,
    mut request: Vec<u8>,
    messages: impl Fn(&[u8]) -> Vec<Vec<u8>>,
) -> io::Result<()> {
    // Each connection starts with another message, because a message may end the connection.
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

/// Valid UTF-8 with control characters.
fn error_text() -> Vec<u8> {
    let sentence = "the peer is not well \u{1b}[2J\u{202e}\u{85} and says so; ";
    let mut text = sentence.repeat(TEXT_BYTES / sentence.len() + 1);
    text.truncate(text.floor_char_boundary(TEXT_BYTES));
    text.into_bytes()
}
