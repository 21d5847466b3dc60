//! Check of a server's request for a password, before the driver sees it.

use crate::limited_stream::{FrameLimit, LimitError};

/// Length of a message's type and length, and with the code of an authentication request.
const HEADER: usize = 5;
const REQUEST: usize = 9;
/// Type of an authentication request.
const AUTHENTICATION: u8 = b'R';
/// Codes of such requests.
const OK: i32 = 0;
const CLEARTEXT_PASSWORD: i32 = 3;
const MD5_PASSWORD: i32 = 5;

/// Guard of an unprotected connection to a remote peer. It fails if the peer asks for the password in clear
/// text.
#[derive(Debug)]
pub(super) struct AuthenticationGuard {
    host: String,
    /// Beginning of the current message.
    message: Vec<u8>,
    /// Number of bytes left in the message.
    rest: usize,
    /// The peer has accepted the user.
    is_over: bool,
}

impl AuthenticationGuard {
    pub(super) fn new(host: &str) -> Self {
        Self { host: host.to_owned(), message: Vec::new(), rest: 0, is_over: false }
    }

    /// Checks the next byte of a message's beginning.
    fn follow(&mut self, byte: u8) -> Result<(), LimitError> {
        self.message.push(byte);
        let length = match *self.message.get(1..HEADER).unwrap_or_default() {
            [a, b, c, d] => i32::from_be_bytes([a, b, c, d]),
            _ => return Ok(()),
        };
        let Some(body) = usize::try_from(length).ok().and_then(|length| length.checked_sub(HEADER - 1))
        else {
            return Err(format!("the server announces a message of {length} bytes: 4 is the least").into());
        };
        if self.message[0] == AUTHENTICATION && body >= REQUEST - HEADER {
            if self.message.len() < REQUEST {
                return Ok(());
            }
            self.check()?;
        }
        self.rest = body + HEADER - self.message.len();
        self.message.clear();
        Ok(())
    }

    /// Checks an authentication request.
    fn check(&mut self) -> Result<(), LimitError> {
        let code = self.message[HEADER..REQUEST].try_into().map_or(OK, i32::from_be_bytes);
        match code {
            OK => self.is_over = true,
            CLEARTEXT_PASSWORD => {
                return Err("the server asks for the password in clear text over a connection without TLS: it is not \
                            sent; use TLS (sslmode=require), or scram-sha-256 in its pg_hba.conf, or write \
                            sslmode=disable if the network is trusted"
                    .into());
            }
            MD5_PASSWORD => tracing::warn!(
                host = self.host,
                "the PostgreSQL server asks for the password's MD5 hash over a connection without TLS, which \
                 eavesdroppers can crack; use TLS (sslmode=require), or scram-sha-256 in its pg_hba.conf"
            ),
            _ => {}
        }
        Ok(())
    }
}

impl FrameLimit for AuthenticationGuard {
    fn received(&mut self, bytes: &mut [u8]) -> Result<usize, LimitError> {
        let mut rest = &*bytes;
        while let Some((byte, behind)) = rest.split_first().filter(|_| !self.is_over) {
            if self.rest > 0 {
                let skipped = self.rest.min(rest.len());
                self.rest -= skipped;
                rest = &rest[skipped..];
            } else {
                self.follow(*byte)?;
                rest = behind;
            }
        }
        Ok(bytes.len())
    }
}
