//! ZMTP 3.0 with NULL security (ZeroMQ RFC 23), without sockets or clocks.
//!
//! The announced minor version is 0, so that peers of 3.1 (RFC 37, libzmq 4.3) keep to 3.0, where
//! subscriptions are messages. PING and PONG belong to 3.1, but libzmq with heartbeats sends PING
//! to any peer, so it is answered.

mod buffers;
mod command;
mod error;
mod frame;
mod greeting;
#[cfg(test)]
mod properties;

use bytes::Bytes;
use smallvec::SmallVec;

/// Parts of a message. Two, as in most images, need no allocation, which avoids contention between
/// threads in the allocator.
pub type Parts = SmallVec<[Bytes; 2]>;

pub use command::{Command, Ready, SocketType, subscription};
pub use error::ZmtpError;
pub use frame::{Decoder, FrameHeader, FrameLimits, Incoming, encode_message};
pub use greeting::{GREETING_BYTES, Greeting};
