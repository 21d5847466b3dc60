//! The handshake: what the server greets with, and what we answer. Version 2 of the protocol, with or without a password.

use std::fmt;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::resp::excerpt;

/// The version that is spoken here.
const VERSION: u32 = 2;
/// Servers ask for 4,000 to 8,095 rounds of the hash; what is far beyond would only keep us busy.
const ROUNDS_MAX: u32 = 100_000;

/// A password. Neither `Debug` nor any error shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// What a file holds, without the line end that editors leave; none if that is nothing.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim_end_matches(['\r', '\n']);
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(***)")
    }
}

/// Why there is no handshake. The texts say what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("it greets with {0:?}: is this a Faktory server?")]
    Greeting(String),
    #[error("it speaks version {0} of the protocol, and we version {VERSION}: use a Faktory server 1.x")]
    Version(u32),
    #[error("it wants a password: name the file that has it in password_file")]
    PasswordWanted,
    #[error("it wants {0} rounds of the password's hash, more than {ROUNDS_MAX}: is this a Faktory server?")]
    Rounds(u32),
}

#[derive(Deserialize)]
struct Greeting {
    v: u32,
    i: Option<u32>,
    s: Option<String>,
}

/// The line that answers the greeting `text` (what follows the `+`).
pub(super) fn answer(text: &str, password: Option<&Password>) -> Result<String, HandshakeError> {
    let strange = || HandshakeError::Greeting(excerpt(text));
    let json = text.strip_prefix("HI ").ok_or_else(strange)?;
    let Greeting { v, i, s } = serde_json::from_str(json).map_err(|_| strange())?;
    if v != VERSION {
        return Err(HandshakeError::Version(v));
    }
    let Some(salt) = s else { return Ok(format!("HELLO {{\"v\":{VERSION}}}\r\n")) };
    let password = password.ok_or(HandshakeError::PasswordWanted)?;
    let rounds = i.unwrap_or(1).max(1);
    if rounds > ROUNDS_MAX {
        return Err(HandshakeError::Rounds(rounds));
    }
    let hash = hash(password, &salt, rounds);
    Ok(format!("HELLO {{\"v\":{VERSION},\"pwdhash\":\"{hash}\"}}\r\n"))
}

/// SHA-256 of password and salt, and `rounds - 1` times of the result.
fn hash(password: &Password, salt: &str, rounds: u32) -> String {
    let mut digest = Sha256::new().chain_update(&password.0).chain_update(salt).finalize();
    for _ in 1..rounds {
        digest = Sha256::digest(digest);
    }
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_password_is_greeted_plainly() {
        let password = Password::new("unused");
        for password in [None, password.as_ref()] {
            assert_eq!(answer(r#"HI {"v":2}"#, password), Ok("HELLO {\"v\":2}\r\n".to_owned()));
        }
    }

    #[test]
    fn the_password_goes_as_the_hash_that_the_server_computes() {
        // Computed with Python's hashlib.
        let password = Password::new("123\r\n");
        let said = answer(r#"HI {"v":2,"s":"55104dc76695721d","i":1545}"#, password.as_ref()).unwrap();
        let wanted = "cb646442460da58e8ab42cc1fd1e874135a415dbd355a9309b4250b74d095cf9";
        assert_eq!(said, format!("HELLO {{\"v\":2,\"pwdhash\":\"{wanted}\"}}\r\n"));
        let once = answer(r#"HI {"v":2,"s":"salt","i":1}"#, password.as_ref()).unwrap();
        assert!(once.contains("81d40d94fee4fb4eeb1a21bb7adb93c06aad35b929c1a2b024ae33b3a9b79e23"), "{once}");
    }

    #[test]
    fn strange_greetings_are_refused_and_say_what_to_do() {
        let password = Password::new("x");
        for (greeting, said) in [
            ("OK", "is this a Faktory server"),
            ("HI there", "is this a Faktory server"),
            ("HI {\"v\":\"2\"}", "is this a Faktory server"),
            ("HI {\"v\":3}", "version 3"),
            ("HI {\"v\":2,\"i\":4000000000,\"s\":\"a\"}", "4000000000 rounds"),
        ] {
            let error = answer(greeting, password.as_ref()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(answer(r#"HI {"v":2,"i":4000,"s":"a"}"#, None), Err(HandshakeError::PasswordWanted));
        assert_eq!(format!("{:?}", password.unwrap()), "Password(***)");
        assert_eq!(Password::new("\n"), None);
    }
}
