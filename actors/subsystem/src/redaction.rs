//! Hides secrets in addresses and texts that are shown: `config print`, `/v1/config`, complaints, and what a parser says. Pure.
//!
//! The schema says which keys are addresses or secrets (`config::schema::Mark`); this module only looks at texts.

mod address;
mod prose;

pub use self::prose::{holds_secret, mentions_secret, scrubbed, scrubbed_addresses, shown};

/// Stands in place of what is hidden.
pub const HIDDEN: &str = "***";

/// Names that begin like these are those of secrets, in lower case, without what parts their words.
const SECRET_WORDS: [&str; 9] =
    ["passw", "passphrase", "pwd", "secret", "credential", "apikey", "privatekey", "accesskey", "token"];

/// Tells whether `name`, of a key or a parameter, is that of a secret. Names of files are not.
pub fn names_secret(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    !plain.ends_with("file")
        && (matches!(plain.as_str(), "pass" | "pw") || SECRET_WORDS.iter().any(|word| plain.contains(word)))
}

/// Decodes `%41`; what is no UTF-8 then is replaced.
fn decoded(text: &str) -> String {
    let (bytes, mut out) = (text.as_bytes(), Vec::with_capacity(text.len()));
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            out.push(byte);
            at += 3;
        } else {
            out.push(*byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_and_those_of_files_are_not() {
        for name in
            ["password", "sslpassword", "PGPASSWORD", "pass", "api_key", "Secret-Token", "tlsKeyFilePassword"]
        {
            assert!(names_secret(name), "{name}");
        }
        for name in ["password_file", "passfile", "key", "database", "hold_secs", "", "tlsCertificateKeyFile"]
        {
            assert!(!names_secret(name), "{name}");
        }
    }

    #[test]
    fn percent_signs_are_decoded_and_odd_ones_kept() {
        assert_eq!(decoded("p%61ss%2Fx%"), "pass/x%");
        assert_eq!(decoded("%zz%4"), "%zz%4");
        assert_eq!(decoded("%ff\u{e4}"), "\u{fffd}\u{e4}");
    }
}
