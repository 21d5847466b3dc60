//! Removal of secrets from addresses, command lines and texts of peers before they are shown. No I/O.

mod address;
mod command;
mod text;

pub use self::command::redact_command;
pub use self::text::{may_hold_secret, may_quote_secret, redact, redact_address, redact_addresses};

use percent_encoding::percent_decode_str;

/// Replacement for a secret.
pub const REDACTED: &str = "***";

/// Parts of names of secrets, in lower case, without separators.
const SECRET_WORDS: [&str; 13] = [
    "passw",
    "passphrase",
    "pwd",
    "secret",
    "credential",
    "apikey",
    "privatekey",
    "accesskey",
    "authkey",
    "token",
    "authorization",
    "bearer",
    "cookie",
];

/// Recognises keys and parameters of secrets. A name that ends in `file` holds a path, not a secret.
pub fn is_secret_name(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    !plain.ends_with("file")
        && (matches!(plain.as_str(), "pass" | "pw") || SECRET_WORDS.iter().any(|word| plain.contains(word)))
}

/// Decodes percent-encoding. Invalid UTF-8 is replaced.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_recognised_and_names_of_files_are_not() {
        for name in [
            "password",
            "sslpassword",
            "PGPASSWORD",
            "pass",
            "api_key",
            "Secret-Token",
            "tlsKeyFilePassword",
            "Authorization",
            "--cookie",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["password_file", "passfile", "key", "database", "hold_secs", "", "tlsCertificateKeyFile"]
        {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn percent_encoding_is_decoded_and_invalid_escapes_are_kept() {
        assert_eq!(decoded("p%61ss%2Fx%"), "pass/x%");
        assert_eq!(decoded("%zz%4"), "%zz%4");
        assert_eq!(decoded("%ff\u{e4}"), "\u{fffd}\u{e4}");
    }
}
