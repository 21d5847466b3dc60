//! Violations of ZMTP by a peer.

/// Reason why a connection cannot continue. Each ends only its own connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZmtpError {
    /// The first bytes are not ZMTP, or ZMTP 1.0 without a signature.
    #[error("the peer's first bytes are not a ZMTP signature: connect a ZeroMQ socket of libzmq 4 or later")]
    NoSignature,
    /// A version before 3.0.
    #[error("the peer speaks ZMTP {0}.x: use libzmq 4 or later there")]
    OldVersion(u8),
    /// A mechanism other than NULL.
    #[error("the peer requires the security mechanism `{0}`: disable it there, only NULL is supported")]
    Mechanism(String),
    /// An incompatible socket type.
    #[error("a {theirs} socket cannot talk to our {ours}: connect a {expected} there")]
    SocketType {
        /// Local socket type.
        ours: &'static str,
        /// Socket type of the peer.
        theirs: String,
        /// Compatible type.
        expected: &'static str,
    },
    /// The peer refused the connection.
    #[error("the peer refused the connection: {0}")]
    Refused(String),
    /// A message arrived before the handshake was complete.
    #[error("the peer sent a message before its READY command: it violates ZMTP")]
    TooEarly,
    /// A frame is malformed.
    #[error("{0}: the peer violates ZMTP 3")]
    Malformed(&'static str),
    /// A frame's announced length exceeds the limit. Nothing was reserved for it.
    #[error("the peer announces a frame of {bytes} bytes; {limit} are allowed: send shorter messages")]
    FrameTooLong {
        /// Announced length, bytes.
        bytes: u64,
        /// Limit, bytes.
        limit: u64,
    },
    /// A message exceeds the limit.
    #[error("the peer sends a message of {bytes} bytes or more; {limit} are allowed: send shorter messages")]
    MessageTooLong {
        /// Length of its parts so far, bytes.
        bytes: u64,
        /// Limit, bytes.
        limit: u64,
    },
    /// A message has too many parts.
    #[error("the peer sends a message of more than {0} parts: send shorter messages")]
    TooManyParts(usize),
    /// The system has no memory for a frame within the limits.
    #[error("no memory for a frame of {0} bytes: give the process more")]
    NoMemory(usize),
}
