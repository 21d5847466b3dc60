//! Credentials in files that change, are locked, or are wrong (CONTRACT CF08 to CF12).

use std::{
    fs::{self, File},
    time::{Duration, Instant},
};

use orchestrator_catalog::edge::credentials::{Credentials, Grant, Secret, Source};
use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use tempfile::TempDir;

const HOST: &str = "H.example.org";
const SECOND: Duration = Duration::from_secs(1);

fn bearer(text: &str) -> Result<Grant, String> {
    Ok(Grant::Bearer(Secret::new(text)))
}

fn cookie(text: &str) -> Result<Grant, String> {
    Ok(Grant::Cookie(Secret::new(text)))
}

/// A folder like `~/.deriva`.
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

    /// A Globus token that ends `seconds` from now.
    fn globus(&self, seconds: i64) {
        let ends = jiff::Timestamp::now().as_second() + seconds;
        let token = json!({"access_token": "globus", "scope": "S", "expires_at_seconds": ends});
        self.write("globus-credential.json", &json!({"h.example.org:(S)": token}));
        self.write("config.json", &json!({"oauth2_scopes": {"h.example.org": {"deriva-all": "S"}}}));
    }
}

#[test]
fn a_file_that_changes_is_read_again_after_a_second_or_at_once_if_it_is_not_believed() {
    let folder = Folder::new();
    let entry = |cookie: &str| json!({"h.example.org": {"cookie": cookie}});
    folder.write("credential.json", &entry("webauthn=1"));
    let mut credentials = Credentials::new(folder.source(), HOST);
    let begun = Instant::now();
    assert_eq!(credentials.grant(begun), cookie("webauthn=1"));
    folder.write("credential.json", &entry("webauthn=two"));
    assert_eq!(credentials.grant(begun + SECOND / 2), cookie("webauthn=1"), "not looked at yet");
    assert_eq!(credentials.grant(begun + SECOND), cookie("webauthn=two"));
    folder.write("credential.json", &entry("webauthn=three"));
    credentials.doubt();
    assert_eq!(credentials.grant(begun + SECOND), cookie("webauthn=three"));
    // As tools that are careful write: another file in the same place.
    folder.write("new", &entry("webauthn=fours"));
    fs::rename(folder.0.path().join("new"), folder.0.path().join("credential.json")).unwrap();
    assert_eq!(credentials.grant(begun + SECOND * 2), cookie("webauthn=fours"));
}

#[test]
fn who_holds_the_lock_is_writing_and_is_not_waited_for() {
    let folder = Folder::new();
    folder.write("credential.json", &json!({"cookie": "webauthn=1"}));
    let file = File::open(folder.0.path().join("credential.json")).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let mut credentials = Credentials::new(folder.source(), HOST);
    let begun = Instant::now();
    let busy = credentials.grant(begun).unwrap_err();
    assert!(busy.contains("holds the lock"), "{busy}");
    flock(&file, FlockOperation::Unlock).unwrap();
    assert_eq!(credentials.grant(begun), cookie("webauthn=1"));
    flock(&file, FlockOperation::LockExclusive).unwrap();
    folder.write("credential.json", &json!({"cookie": "webauthn=22"}));
    assert_eq!(credentials.grant(begun + SECOND), cookie("webauthn=1"), "what was known holds meanwhile");
    // Other readers are no hindrance.
    flock(&file, FlockOperation::LockShared).unwrap();
    assert_eq!(credentials.grant(begun + SECOND * 2), cookie("webauthn=22"));
}

#[test]
fn half_a_file_changes_nothing_and_none_takes_everything() {
    let folder = Folder::new();
    folder.write("credential.json", &json!({"cookie": "webauthn=1"}));
    let mut credentials = Credentials::new(folder.source(), HOST);
    let begun = Instant::now();
    assert_eq!(credentials.grant(begun), cookie("webauthn=1"));
    let path = folder.0.path().join("credential.json");
    fs::write(&path, r#"{"cookie": "webaut"#).unwrap();
    assert_eq!(credentials.grant(begun + SECOND), cookie("webauthn=1"));
    fs::remove_file(&path).unwrap();
    let gone = credentials.grant(begun + SECOND * 2).unwrap_err();
    assert!(gone.starts_with(&path.display().to_string()) && gone.contains("deriva-auth"), "{gone}");
    folder.write("credential.json", &json!({"cookie": "webauthn=2"}));
    assert_eq!(
        credentials.grant(begun + SECOND * 2),
        cookie("webauthn=2"),
        "an error is not kept for a second"
    );
}

#[test]
fn a_globus_token_goes_before_a_cookie_until_it_ends_and_after_a_token_of_ones_own() {
    let folder = Folder::new();
    let grant = || Credentials::new(folder.source(), HOST).grant(Instant::now());
    let cookies = json!({"h.example.org": {"cookie": "webauthn=1"}});
    folder.write("credential.json", &cookies);
    folder.globus(60);
    assert_eq!(grant(), bearer("globus"));
    folder.globus(-60);
    assert_eq!(grant(), cookie("webauthn=1"));
    folder.write("credential.json", &json!({"h.example.org": {"bearer-token": "own"}}));
    folder.globus(60);
    assert_eq!(grant(), bearer("own"));
    folder.write("credential.json", &json!({}));
    folder.globus(-60);
    let expired = grant().unwrap_err();
    assert!(
        expired.contains("globus-credential.json: the token has expired: run deriva-globus-auth-utils login")
    );
}

#[test]
fn a_globus_token_that_ends_while_it_is_known_is_not_shown_any_more() {
    let folder = Folder::new();
    folder.write("credential.json", &json!({}));
    folder.globus(1);
    let mut credentials = Credentials::new(folder.source(), HOST);
    let begun = Instant::now();
    assert_eq!(credentials.grant(begun), bearer("globus"));
    orchestrator_harness::eventually("it has expired", || credentials.grant(begun).is_err());
}

#[test]
fn a_token_file_has_a_token_and_nothing_else() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let source = Source::TokenFile(file.path().to_owned());
    let mut credentials = Credentials::new(source.clone(), HOST);
    let empty = credentials.grant(Instant::now()).unwrap_err();
    assert!(empty.contains("it is empty: write the token into it"), "{empty}");
    fs::write(file.path(), " s3cret \n").unwrap();
    assert_eq!(credentials.grant(Instant::now()), bearer("s3cret"));
    assert!(!format!("{credentials:?} {source:?}").contains("s3cret"));
    let literal = Source::Token(Secret::new("s3cret"));
    assert!(!format!("{literal:?} {}", literal.advice()).contains("s3cret"));
}

#[test]
fn a_default_that_is_not_there_makes_us_nobody() {
    let folder = Folder::new();
    let credential = folder.0.path().join("credential.json");
    let mut credentials = Credentials::new(Source::Files { credential, required: false }, HOST);
    let begun = Instant::now();
    assert_eq!(credentials.grant(begun), Ok(Grant::Anonymous));
    folder.write("credential.json", &json!({"other.org": {"cookie": "a=b"}}));
    assert_eq!(credentials.grant(begun + SECOND), Ok(Grant::Anonymous), "nothing for this host");
    folder.write("credential.json", &json!({"H.example.org": {"cookie": "a=b"}}));
    assert_eq!(credentials.grant(begun + SECOND * 2), cookie("a=b"));
    assert!(matches!(Source::home(), Source::Files { required: false, .. }));
}
