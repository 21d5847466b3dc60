//! Greeting: the first 64 bytes of either side (RFC 23).

use orchestrator_text::sanitize;

use crate::ZmtpError;

/// Length of a greeting, bytes.
pub const GREETING_BYTES: usize = 64;

const VERSION_AT: usize = 10;
const MINOR_AT: usize = 11;
const MECHANISM_AT: usize = 12;
const MECHANISM_END: usize = 32;

/// Greeting of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    /// Minor version; of no meaning with a major version above 3, which falls back to 3.0.
    pub minor: u8,
}

impl Greeting {
    /// Local greeting: version 3.0, NULL. With NULL the roles are symmetric, so `as-server` is 0.
    pub const OURS: [u8; GREETING_BYTES] = {
        let mut bytes = [0; GREETING_BYTES];
        bytes[0] = 0xFF;
        bytes[9] = 0x7F;
        bytes[VERSION_AT] = 3;
        bytes[MECHANISM_AT] = b'N';
        bytes[MECHANISM_AT + 1] = b'U';
        bytes[MECHANISM_AT + 2] = b'L';
        bytes[MECHANISM_AT + 3] = b'L';
        bytes
    };

    /// Decodes the bytes received so far; None if more are needed. Old peers send fewer than 64
    /// bytes and then wait, so each byte is checked as soon as it arrives.
    ///
    /// # Errors
    /// The bytes are not ZMTP, or have a version before 3, or another mechanism than NULL.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, ZmtpError> {
        // Bytes 1 to 8 are padding; libzmq puts a length there for peers of ZMTP 1.
        if bytes.first().is_some_and(|&byte| byte != 0xFF) || bytes.get(9).is_some_and(|byte| byte & 1 == 0) {
            return Err(ZmtpError::NoSignature);
        }
        // Revision 1 means 2.0; 0 is a 1.x with signatures.
        if let Some(revision @ 0..=2) = bytes.get(VERSION_AT) {
            return Err(ZmtpError::OldVersion((revision + 1).min(2)));
        }
        let Some(mechanism) = bytes.get(MECHANISM_AT..MECHANISM_END) else { return Ok(None) };
        let name = mechanism.split(|&byte| byte == 0).next().unwrap_or_default();
        if name != b"NULL" {
            return Err(ZmtpError::Mechanism(sanitize(name)));
        }
        Ok((bytes.len() >= GREETING_BYTES).then(|| Self { minor: bytes[MINOR_AT] }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Greeting of libzmq 4.3.4, whose padding holds the length of its identity plus 1.
    fn libzmq() -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..16].copy_from_slice(b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL");
        bytes
    }

    #[test]
    fn the_local_greeting_follows_the_rfc() {
        let mut expected = [0; GREETING_BYTES];
        expected[..16].copy_from_slice(b"\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL");
        assert_eq!(Greeting::OURS, expected);
        assert_eq!(Greeting::decode(&Greeting::OURS), Ok(Some(Greeting { minor: 0 })));
    }

    #[test]
    fn a_libzmq_greeting_is_accepted_once_complete() {
        let bytes = libzmq();
        for end in 0..GREETING_BYTES {
            assert_eq!(Greeting::decode(&bytes[..end]), Ok(None), "{end} bytes");
        }
        assert_eq!(Greeting::decode(&bytes), Ok(Some(Greeting { minor: 1 })));
    }

    #[test]
    fn a_later_major_version_falls_back_to_ours() {
        let mut bytes = libzmq();
        bytes[VERSION_AT] = 4;
        assert_eq!(Greeting::decode(&bytes), Ok(Some(Greeting { minor: 1 })));
    }

    #[test]
    fn an_invalid_greeting_is_refused_at_its_first_wrong_byte() {
        assert_eq!(Greeting::decode(b"G"), Err(ZmtpError::NoSignature));
        assert_eq!(Greeting::decode(b"\x01\0"), Err(ZmtpError::NoSignature));
        assert_eq!(Greeting::decode(b"\xff\0\0\0\0\0\0\0\x01\x7e"), Err(ZmtpError::NoSignature));
        assert_eq!(Greeting::decode(b"\xff\0\0\0\0\0\0\0\x01\x7f\x01"), Err(ZmtpError::OldVersion(2)));
        assert_eq!(Greeting::decode(b"\xff\0\0\0\0\0\0\0\x01\x7f\x02"), Err(ZmtpError::OldVersion(2)));
        assert_eq!(Greeting::decode(b"\xff\0\0\0\0\0\0\0\x01\x7f\x00"), Err(ZmtpError::OldVersion(1)));
        let mut curve = libzmq();
        curve[MECHANISM_AT..MECHANISM_AT + 5].copy_from_slice(b"CURVE");
        let error = Greeting::decode(&curve[..MECHANISM_END]).expect_err("CURVE is not spoken");
        assert!(error.to_string().contains("`CURVE`"), "{error}");
    }
}
