//! What a peer may do wrong.

/// Why a connection cannot go on. Each of them ends it; none is the fault of another connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZmtpError {
    /// The first bytes are not ZMTP's, or ZMTP 1.0's, which begins without a signature.
    #[error("the peer's first bytes are no ZMTP signature: is it a ZeroMQ socket, of libzmq 4 or later?")]
    NoSignature,
    /// A version before 3.0.
    #[error("the peer speaks ZMTP {0}.x: use libzmq 4 or later there")]
    OldVersion(u8),
    /// Another mechanism than NULL.
    #[error("the peer wants the security mechanism `{0}`: switch it off there, only NULL is spoken here")]
    Mechanism(String),
    /// A socket type that does not talk to ours.
    #[error("a {theirs} socket cannot talk to our {ours}: connect a {expected} there")]
    SocketType {
        /// Our socket's type.
        ours: &'static str,
        /// The peer's.
        theirs: String,
        /// What fits.
        expected: &'static str,
    },
    /// The peer refused us.
    #[error("the peer refused the connection: {0}")]
    Refused(String),
    /// A message came before the handshake was over.
    #[error("the peer sent a message before its READY command: it does not keep to ZMTP")]
    TooEarly,
    /// A frame is not well formed.
    #[error("{0}: the peer does not keep to ZMTP 3")]
    Malformed(&'static str),
    /// A frame's length, told by its header, is over the limit. Nothing was reserved for it.
    #[error(
        "the peer announces a frame of {bytes} bytes; {limit} are allowed: raise the limit if that is meant"
    )]
    FrameTooLong {
        /// What it announces, bytes.
        bytes: u64,
        /// What is allowed, bytes.
        limit: u64,
    },
    /// A message's parts together are over the limit.
    #[error(
        "the peer sends a message of {bytes} bytes or more; {limit} are allowed: raise the limit if that is meant"
    )]
    MessageTooLong {
        /// What its parts come to so far, bytes.
        bytes: u64,
        /// What is allowed, bytes.
        limit: u64,
    },
    /// A message has too many parts.
    #[error("the peer sends a message of more than {0} parts: raise the limit if that is meant")]
    TooManyParts(usize),
    /// The system has no memory for a frame within the limits.
    #[error("no memory for a frame of {0} bytes: lower the limits or give the process more")]
    NoMemory(usize),
}
