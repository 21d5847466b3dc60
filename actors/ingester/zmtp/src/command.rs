//! Commands READY, ERROR, PING, PONG; and subscriptions, which are messages in 3.0.

use bytes::{BufMut, Bytes, BytesMut};
use orchestrator_text::sanitize;

use crate::{FrameHeader, ZmtpError};

/// Longest identity (RFC 28), bytes.
pub(crate) const IDENTITY_BYTES_MAX: usize = 255;

/// Longest context of a PING (RFC 37), bytes.
const PING_CONTEXT_MAX: usize = 16;

/// Local socket types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketType {
    /// Peer of workers, which are DEALERs.
    Router,
    /// Peer of a PUSH.
    Pull,
    /// Peer of a PUB.
    Sub,
    /// Peer of a PULL.
    Push,
    /// Peer of a SUB.
    Pub,
}

impl SocketType {
    /// Name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Router => "ROUTER",
            Self::Pull => "PULL",
            Self::Sub => "SUB",
            Self::Push => "PUSH",
            Self::Pub => "PUB",
        }
    }

    /// Compatible peer types (RFC 28 to 30), the usual one first.
    fn peers(self) -> &'static [&'static str] {
        match self {
            Self::Router => &["DEALER", "REQ", "ROUTER"],
            Self::Pull => &["PUSH"],
            Self::Sub => &["PUB", "XPUB"],
            Self::Push => &["PULL"],
            Self::Pub => &["SUB", "XSUB"],
        }
    }
}

/// READY of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ready {
    /// Socket type.
    pub socket_type: String,
    /// Identity; empty for none.
    pub identity: Bytes,
}

impl Ready {
    /// Frame of the local READY. An empty identity is left out.
    pub fn encode(socket_type: SocketType, identity: &[u8]) -> Bytes {
        let mut body = BytesMut::new();
        body.put_slice(b"\x05READY");
        put_property(&mut body, "Socket-Type", socket_type.name().as_bytes());
        if !identity.is_empty() {
            put_property(&mut body, "Identity", identity);
        }
        command_frame(&body)
    }

    /// Checks that the peer's socket type is compatible.
    ///
    /// # Errors
    /// It is not.
    pub fn check_fits(&self, ours: SocketType) -> Result<(), ZmtpError> {
        if ours.peers().contains(&self.socket_type.as_str()) {
            return Ok(());
        }
        Err(ZmtpError::SocketType {
            ours: ours.name(),
            theirs: sanitize(&self.socket_type),
            expected: ours.peers()[0],
        })
    }

    fn decode(mut properties: Bytes) -> Result<Self, ZmtpError> {
        let mut ready = Self::default();
        while !properties.is_empty() {
            let name = take_short(&mut properties)?;
            if properties.len() < 4 {
                return Err(ZmtpError::Malformed("a property of READY has no length"));
            }
            let length =
                properties.split_to(4).iter().fold(0_usize, |sum, &byte| sum << 8 | usize::from(byte));
            if properties.len() < length {
                return Err(ZmtpError::Malformed("a property of READY is cut off"));
            }
            let value = properties.split_to(length);
            // Names are case-insensitive; unknown ones are for applications.
            if name.eq_ignore_ascii_case(b"Socket-Type") {
                ready.socket_type = String::from_utf8_lossy(&value).into_owned();
            } else if name.eq_ignore_ascii_case(b"Identity") {
                if value.len() > IDENTITY_BYTES_MAX {
                    return Err(ZmtpError::Malformed("an identity is longer than 255 bytes"));
                }
                ready.identity = value;
            }
        }
        if ready.socket_type.is_empty() {
            return Err(ZmtpError::Malformed("READY has no socket type"));
        }
        Ok(ready)
    }
}

/// Command of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// The peer is ready for messages.
    Ready(Ready),
    /// The peer refuses the connection, for this reason.
    Error(String),
    /// The peer expects a PONG with these bytes ([`Command::pong`]).
    Ping(Bytes),
    /// Answer to a PING.
    Pong(Bytes),
    /// Unknown command, to be ignored, e.g. SUBSCRIBE of a peer that does not keep to 3.0.
    Other(Bytes),
}

impl Command {
    /// Decodes the body of a command frame.
    ///
    /// # Errors
    /// The body is truncated or has invalid lengths.
    pub fn decode(mut body: Bytes) -> Result<Self, ZmtpError> {
        let name = take_short(&mut body)?;
        Ok(match &name[..] {
            b"READY" => Self::Ready(Ready::decode(body)?),
            b"ERROR" => {
                let reason = take_short(&mut body)?;
                Self::Error(sanitize(&reason))
            }
            b"PING" => {
                // The first two bytes are the peer's time-out, which an immediate answer does not
                // need.
                if body.len() < 2 || body.len() > 2 + PING_CONTEXT_MAX {
                    return Err(ZmtpError::Malformed("a PING has an impossible length"));
                }
                Self::Ping(body.split_off(2))
            }
            b"PONG" => Self::Pong(body),
            _ => Self::Other(name),
        })
    }

    /// Frame of the PONG that answers a PING.
    pub fn pong(context: &[u8]) -> Bytes {
        command_frame(&[b"\x04PONG", context].concat())
    }

    /// Frame of an ERROR command. The reason is cut after 255 bytes.
    pub fn error(reason: &str) -> Bytes {
        let reason = &reason[..reason.floor_char_boundary(255)];
        let mut body = BytesMut::new();
        body.put_slice(b"\x05ERROR");
        put_short(&mut body, reason.as_bytes());
        command_frame(&body)
    }
}

/// Frame that subscribes a SUB to all messages with `prefix`; in 3.0 a message.
pub fn subscription(prefix: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_slice(&FrameHeader::message(prefix.len() + 1, false));
    frame.put_u8(1);
    frame.put_slice(prefix);
    frame.freeze()
}

fn command_frame(body: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_slice(&FrameHeader::command(body.len()));
    frame.put_slice(body);
    frame.freeze()
}

/// A name or reason: one byte of length, then the text.
fn put_short(body: &mut BytesMut, text: &[u8]) {
    body.put_u8(u8::try_from(text.len()).unwrap_or(u8::MAX));
    body.put_slice(&text[..text.len().min(255)]);
}

fn put_property(body: &mut BytesMut, name: &str, value: &[u8]) {
    put_short(body, name.as_bytes());
    body.put_u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
    body.put_slice(value);
}

fn take_short(body: &mut Bytes) -> Result<Bytes, ZmtpError> {
    match body.first().map(|&length| usize::from(length)) {
        Some(length) if body.len() > length => Ok(body.split_to(length + 1).slice(1..)),
        _ => Err(ZmtpError::Malformed("a command is cut off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(body: &'static [u8]) -> Result<Command, ZmtpError> {
        Command::decode(Bytes::from_static(body))
    }

    #[test]
    fn a_ready_of_libzmq_is_read() {
        let ready =
            decode(b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\x02w1").expect("a READY");
        assert_eq!(
            ready,
            Command::Ready(Ready { socket_type: "DEALER".into(), identity: Bytes::from_static(b"w1") })
        );
    }

    #[test]
    fn the_local_ready_equals_libzmqs() {
        assert_eq!(
            &Ready::encode(SocketType::Router, b"")[..],
            b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06ROUTER"
        );
        assert_eq!(
            &Ready::encode(SocketType::Sub, b"me")[..],
            b"\x04\x28\x05READY\x0bSocket-Type\0\0\0\x03SUB\x08Identity\0\0\0\x02me"
        );
    }

    #[test]
    fn impossible_commands_are_refused() {
        for body in [
            &b""[..],
            b"\x05READ",
            b"\x05READY\x0bSocket-Type",
            b"\x05READY\x0bSocket-Type\xff\xff\xff\xffDEALER",
            b"\x05READY\x08Identity\0\0\0\0",
            b"\x05ERROR",
            b"\x04PING\x01",
            b"\x04PING\x00\x0012345678901234567",
        ] {
            assert!(decode(body).is_err(), "{}", body.escape_ascii());
        }
        let mut long = BytesMut::from(&b"\x05READY"[..]);
        put_property(&mut long, "Identity", &[b'a'; 256]);
        assert!(Command::decode(long.freeze()).is_err());
    }

    #[test]
    fn a_ping_is_answered_with_its_context() {
        assert_eq!(decode(b"\x04PING\x00\x0ahello"), Ok(Command::Ping(Bytes::from_static(b"hello"))));
        assert_eq!(&Command::pong(b"hello")[..], b"\x04\x0a\x04PONGhello");
    }

    #[test]
    fn incompatible_socket_types_are_named() {
        let ready = Ready { socket_type: "PUB".into(), identity: Bytes::new() };
        let error = ready.check_fits(SocketType::Router).expect_err("a PUB for a ROUTER");
        assert_eq!(error.to_string(), "a PUB socket cannot talk to our ROUTER: connect a DEALER there");
        assert_eq!(ready.check_fits(SocketType::Sub), Ok(()));
    }

    #[test]
    fn subscriptions_are_messages() {
        assert_eq!(&subscription(b"")[..], b"\x00\x01\x01");
        assert_eq!(&subscription(b"ab")[..], b"\x00\x03\x01ab");
    }

    #[test]
    fn errors_carry_their_reason() {
        assert_eq!(&Command::error("no")[..], b"\x04\x09\x05ERROR\x02no");
        assert_eq!(decode(b"\x05ERROR\x02no"), Ok(Command::Error("no".into())));
    }
}
