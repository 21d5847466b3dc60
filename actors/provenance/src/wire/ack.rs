//! Responses: how many items of a call are stored.

use super::cursor::{Cursor, big_endian};

/// The ext type of positive numbers that no 64 bits hold; senders may use it for smaller ones.
const POSITIVE: i8 = 1;

/// A response that is no count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the response is no count of items: send one msgpack integer from 0 on")]
pub struct NotAnAck;

/// The body of a response.
#[must_use]
pub fn encode_ack(n: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(9);
    // A `Vec` takes every byte.
    _ = rmp::encode::write_uint(&mut out, n);
    out
}

/// Reads the body of a response.
///
/// # Errors
/// [`NotAnAck`]
pub fn decode_ack(body: &[u8]) -> Result<u64, NotAnAck> {
    let mut cursor = Cursor::new(body);
    let n = cursor.or_back(Cursor::unsigned).or_else(|| {
        let (POSITIVE, bytes) = cursor.ext()? else { return None };
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        (bytes.len() - zeros <= 8).then(|| big_endian(bytes))
    });
    n.filter(|_| cursor.left() == 0).ok_or(NotAnAck)
}
