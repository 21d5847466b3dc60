//! Credentials in files that change, are locked, or are wrong (CONTRACT CF08 to CF12).

use std::{
    fs::{self, File},
    time::{Duration, Instant},
};

use orchestrator_subsystem::Secret;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use tempfile::TempDir;

use crate::edge::credentials::{Credential, Credentials, Source};

const HOST: &str = "H.example.org";
const SECOND: Duration = Duration::from_secs(1);

fn bearer(text: &str) -> Result<Credential, String> {
    Ok(Credential::Bearer(Secret::new(text)))
}

fn cookie(text: &str) -> Result<Credential, String> {
    Ok(Credential::Cookie(Secret::new(text)))
}

/// A directory like `~/.deriva`.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, content: &serde_json::Value) {
        fs::write(self.0.path().join(name), content.to_string()).unwrap();
    }

    fn source(&self) -> Source {
        Source::file(self.0.path().join("credential.json"))
    }

    /// Writes a Globus token that expires `seconds` from now.
    fn globus(&self, seconds: i64) {
        let ends = jiff::Timestamp::now().as_second() + seconds;
        let token = json!({"access_token": "globus", "scope": "S", "expires_at_seconds": ends});
        self.write("globus-credential.json", &json!({"h.example.org:(S)": token}));
        self.write("config.json", &json!({"oauth2_scopes": {"h.example.org": {"deriva-all": "S"}}}));
    }
}

#[test]
fn a_changed_file_is_read_after_a_second_or_at_once_when_refused() {
    let folder = Folder::new();
    let entry = |cookie: &str| json!({"h.example.org": {"cookie": cookie}});
    folder.write("credential.json", &entry("webauthn=1"));
    let mut credentials = Credentials::new(folder.source(), HOST);
    let begun = Instant::now();
    assert_eq!(credentials.current(begun), cookie("webauthn=1"));
    folder.write("credential.json", &entry("webauthn=two"));
    assert_eq!(credentials.current(begun + SECOND / 2), cookie("webauthn=1"), "not looked at yet");
    assert_eq!(credentials.current(begun + SECOND), cookie("webauthn=two"));
    folder.write("credential.json", &entry("webauthn=three"));
    credentials.invalidate();
    assert_eq!(credentials.current(begun + SECOND), cookie("webauthn=three"));
    // Careful tools replace the file.
    folder.write("new", &entry("webauthn=fours"));
    fs::rename(folder.0.path().join("new"), folder.0.path().join("credential.json")).unwrap();
    assert_eq!(credentials.current(begun + SECOND * 2), cookie("webauthn=fours"));
}

#[test]
fn a_locked_file_keeps_its_last_content() {
    let folder = Folder::new();
    folder.write("credential.json", &json!({"cookie": "webauthn=1"}));
    let file = File::open(folder.0.path().join("credential.json")).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let mut credentials = Credentials::new(folder.source(), HOST);
    let begun = Instant::now();
    let busy = credentials.current(begun).unwrap_err();
    assert!(busy.contains("holds the lock"), "{busy}");
    flock(&file, FlockOperation::Unlock).unwrap();
    assert_eq!(credentials.current(begun), cookie("webauthn=1"));
    flock(&file, FlockOperation::LockExclusive).unwrap();
    folder.write("credential.json", &json!({"cookie": "webauthn=22"}));
    assert_eq!(credentials.current(begun + SECOND), cookie("webauthn=1"), "what was known holds meanwhile");
    // Shared locks of other readers do not matter.
    flock(&file, FlockOperation::LockShared).unwrap();
    assert_eq!(credentials.current(begun + SECOND * 2), cookie("webauthn=22"));
}

#[test]
fn a_partial_file_is_ignored_and_a_missing_one_is_an_error() {
    let folder = Folder::new();
    folder.write("credential.json", &json!({"cookie": "webauthn=1"}));
    let mut credentials = Credentials::new(folder.source(), HOST);
    let begun = Instant::now();
    assert_eq!(credentials.current(begun), cookie("webauthn=1"));
    let path = folder.0.path().join("credential.json");
    fs::write(&path, r#"{"cookie": "webaut"#).unwrap();
    assert_eq!(credentials.current(begun + SECOND), cookie("webauthn=1"));
    fs::remove_file(&path).unwrap();
    let gone = credentials.current(begun + SECOND * 2).unwrap_err();
    assert!(gone.starts_with(&path.display().to_string()) && gone.contains("deriva-auth"), "{gone}");
    folder.write("credential.json", &json!({"cookie": "webauthn=2"}));
    assert_eq!(
        credentials.current(begun + SECOND * 2),
        cookie("webauthn=2"),
        "an error is not kept for a second"
    );
}

#[test]
fn a_globus_token_ranks_between_a_bearer_token_and_a_cookie() {
    let folder = Folder::new();
    let credential = || Credentials::new(folder.source(), HOST).current(Instant::now());
    let cookies = json!({"h.example.org": {"cookie": "webauthn=1"}});
    folder.write("credential.json", &cookies);
    folder.globus(60);
    assert_eq!(credential(), bearer("globus"));
    folder.globus(-60);
    assert_eq!(credential(), cookie("webauthn=1"));
    folder.write("credential.json", &json!({"h.example.org": {"bearer-token": "own"}}));
    folder.globus(60);
    assert_eq!(credential(), bearer("own"));
    folder.write("credential.json", &json!({}));
    folder.globus(-60);
    let expired = credential().unwrap_err();
    assert!(
        expired.contains("globus-credential.json: the token has expired: run deriva-globus-auth-utils login")
    );
}

#[test]
fn an_expired_globus_token_is_not_sent() {
    let folder = Folder::new();
    folder.write("credential.json", &json!({}));
    let begun = Instant::now();
    // A token of one second may have expired by the time it is read.
    let mut credentials = (1..)
        .find_map(|seconds| {
            folder.globus(seconds);
            let mut credentials = Credentials::new(folder.source(), HOST);
            (credentials.current(begun) == bearer("globus")).then_some(credentials)
        })
        .unwrap();
    orchestrator_harness::eventually("it has expired", || credentials.current(begun).is_err());
}

#[test]
fn a_token_file_contains_only_a_token() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let source = Source::TokenFile(file.path().to_owned());
    let mut credentials = Credentials::new(source.clone(), HOST);
    let empty = credentials.current(Instant::now()).unwrap_err();
    assert!(empty.contains("it is empty: write the token into it"), "{empty}");
    fs::write(file.path(), " s3cret \n").unwrap();
    assert_eq!(credentials.current(Instant::now()), bearer("s3cret"));
    assert!(!format!("{credentials:?} {source:?}").contains("s3cret"));
    let literal = Source::Token(Secret::new("s3cret"));
    assert!(!format!("{literal:?} {}", literal.advice()).contains("s3cret"));
}

#[test]
fn a_missing_default_file_means_anonymous_requests() {
    let folder = Folder::new();
    let credential = folder.0.path().join("credential.json");
    let mut credentials = Credentials::new(Source::Files { credential, required: false }, HOST);
    let begun = Instant::now();
    assert_eq!(credentials.current(begun), Ok(Credential::Anonymous));
    folder.write("credential.json", &json!({"other.org": {"cookie": "a=b"}}));
    assert_eq!(credentials.current(begun + SECOND), Ok(Credential::Anonymous), "nothing for this host");
    folder.write("credential.json", &json!({"H.example.org": {"cookie": "a=b"}}));
    assert_eq!(credentials.current(begun + SECOND * 2), cookie("a=b"));
    assert!(matches!(Source::home(), Source::Files { required: false, .. }));
}
