//! Removal of the password of Redis from texts of the process: dranspose logs its settings.

use std::sync::Arc;

/// Text in place of a password.
const REDACTED: &str = "***";

/// User and password in the URL of Redis. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Redaction(Arc<[String]>);

impl Redaction {
    /// Removes user and password of `url`.
    pub(super) fn of(url: &str) -> Self {
        let user = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(user, _)| user);
        let password = user.and_then(|user| user.split_once(':')).map(|(_, password)| password);
        let texts = [user, password].into_iter().flatten().filter(|text| !text.is_empty());
        Self(texts.map(str::to_owned).collect())
    }

    pub(super) fn apply(&self, text: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(text).into_owned();
        for secret in &*self.0 {
            text = text.replace(secret, REDACTED);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_removed_wherever_it_is() {
        let redaction = Redaction::of("redis://me:S3CR3T@host:1/0");
        assert_eq!(redaction.apply(b"at redis://me:S3CR3T@host and S3CR3T"), "at redis://***@host and ***");
        assert_eq!(Redaction::of("redis://:S3CR3T@host").apply(b"'S3CR3T'"), "'***'");
        assert_eq!(Redaction::of("redis://host:1/0").apply(b"host \xff"), "host \u{fffd}");
    }
}
