//! Responses: number of stored items of a message (CONTRACT PP16, PP18).

use super::cursor::{Cursor, big_endian};

/// Ext type of positive numbers beyond 64 bits; senders may use it for smaller ones.
const POSITIVE: i8 = 1;

/// Error of a response that is not a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the response is not a count of items: send one msgpack integer from 0 on")]
pub(crate) struct InvalidAck;

/// Encodes the body of a response.
#[must_use]
pub(crate) fn encode_ack(n: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(9);
    // Writing to a `Vec` cannot fail.
    _ = rmp::encode::write_uint(&mut out, n);
    out
}

/// Decodes the body of a response.
///
/// # Errors
/// [`InvalidAck`]
pub(crate) fn decode_ack(body: &[u8]) -> Result<u64, InvalidAck> {
    let mut cursor = Cursor::new(body);
    let n = cursor.try_read(Cursor::unsigned).or_else(|| {
        let (POSITIVE, bytes) = cursor.ext()? else { return None };
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        (bytes.len() - zeros <= 8).then(|| big_endian(bytes))
    });
    n.filter(|_| cursor.left() == 0).ok_or(InvalidAck)
}
