//! ZMTP 3.0 with NULL security (ZeroMQ RFC 23), as bytes: no socket and no clock in here.
//!
//! We announce minor version 0. A peer that knows 3.1 (RFC 37, libzmq 4.3) then keeps to 3.0 with us: subscriptions are messages and not
//! commands. PING and PONG are 3.1's, but libzmq sends PING to any peer where heartbeats are switched on, so it is answered.

mod buffers;
mod command;
mod error;
mod frame;
mod greeting;
#[cfg(test)]
mod properties;

pub use command::{Command, IDENTITY_BYTES_MAX, Ready, SocketType, subscription};
pub use error::ZmtpError;
pub use frame::{COMMAND_BYTES_MAX, Decoder, FrameHeader, FrameLimits, Incoming, encode_message};
pub use greeting::{GREETING_BYTES, Greeting};
