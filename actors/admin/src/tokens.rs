//! The accepted tokens. The file is read again when it has changed or on SIGHUP. If it is missing or has
//! become invalid, no token is accepted and the error is logged: an operator who removes the file expects
//! that. The admin socket needs no token.

use std::{
    fs,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use subtle::{Choice, ConstantTimeEq};

use crate::{
    AdminError,
    reload::Reload,
    role::{Caller, Role},
    token_file::{self, Entry, FileVersion},
};

/// The tokens of one file.
#[derive(Debug)]
pub(crate) struct Tokens {
    path: PathBuf,
    reload: Reload,
    loaded: Mutex<LoadedTokens>,
}

/// Content of the file.
#[derive(Debug)]
struct LoadedTokens {
    /// Version of the file when it was last read, valid or not. `None` while the file is missing.
    version: Option<FileVersion>,
    entries: Vec<Entry>,
}

impl Tokens {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// The file is missing or invalid.
    pub(crate) fn open(path: &Path, reload: Reload) -> Result<Self, AdminError> {
        let (version, entries) = token_file::read(path)?;
        let loaded = Mutex::new(LoadedTokens { version: Some(version), entries });
        Ok(Self { path: path.to_owned(), reload, loaded })
    }

    pub(crate) fn caller(&self, token: &[u8]) -> Option<Caller> {
        let mut loaded = self.loaded.lock();
        self.refresh(&mut loaded);
        find(&loaded.entries, token).map(|(role, name)| Caller { who: name.to_owned(), role })
    }

    /// Reads the file again if it has changed. The check costs one system call for each request.
    fn refresh(&self, loaded: &mut LoadedTokens) {
        let version = fs::metadata(&self.path).ok().as_ref().map(token_file::version);
        if !self.reload.take() && version == loaded.version {
            return;
        }
        match token_file::read(&self.path) {
            Ok((version, entries)) => {
                tracing::info!(path = ?self.path, tokens = entries.len(), "tokens file reloaded");
                *loaded = LoadedTokens { version: Some(version), entries };
            }
            Err(error) => {
                tracing::error!(%error, "cannot reload the tokens file: no token is accepted until it is correct; use the admin socket");
                *loaded = LoadedTokens { version, entries: Vec::new() };
            }
        }
    }
}

/// Finds the entry of `token` in constant time: every entry is compared in full, and digests have equal
/// lengths.
fn find<'a>(entries: &'a [Entry], token: &[u8]) -> Option<(Role, &'a str)> {
    let digest = token_file::digest(token);
    let mut found = None;
    for entry in entries {
        let same: Choice = entry.digest.ct_eq(&digest);
        if bool::from(same) {
            found = Some((entry.role, entry.name.as_str()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};

    use super::*;

    const EVE: &str = "viewer eve eve-eve-eve-eve-eve\n";
    const BOB: &str = "operator bob bob-bob-bob-bob-bob\n";

    fn write(path: &Path, text: &str) {
        // A new file each time, as editors do: its inode differs even if the modification time is equal.
        let fresh = path.with_extension("new");
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        fs::rename(fresh, path).unwrap();
    }

    #[test]
    fn a_changed_file_is_reloaded_and_an_invalid_or_missing_one_revokes_all_tokens() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        write(&path, EVE);
        let tokens = Tokens::open(&path, Reload::default()).unwrap();
        let who = |token: &str| tokens.caller(token.as_bytes()).map(|caller| (caller.who, caller.role));
        let (eve, bob) = ("eve-eve-eve-eve-eve", "bob-bob-bob-bob-bob");
        assert_eq!(who(eve), Some(("eve".to_owned(), Role::Viewer)));
        assert_eq!(who(bob), None);
        write(&path, &format!("{EVE}{BOB}"));
        assert_eq!(who(bob), Some(("bob".to_owned(), Role::Operator)));
        write(&path, "nonsense");
        assert_eq!((who(eve), who(bob)), (None, None), "an invalid file");
        write(&path, &format!("{EVE}{BOB}"));
        assert!(who(eve).is_some() && who(bob).is_some(), "it was corrected");
        fs::remove_file(&path).unwrap();
        assert_eq!((who(eve), who(bob)), (None, None), "no file");
        write(&path, BOB);
        assert_eq!(who(eve), None, "the token was removed");
        write(&path, "");
        assert_eq!(who(bob), None);
    }

    #[test]
    fn only_the_whole_token_matches() {
        let entries = [("bob", "bob-bob-bob-bob-bob")].map(|(name, token)| Entry {
            role: Role::Operator,
            name: name.to_owned(),
            digest: token_file::digest(token.as_bytes()),
        });
        assert!(find(&entries, b"bob-bob-bob-bob-bob").is_some());
        for token in ["", "bob-bob-bob-bob-bo", "bob-bob-bob-bob-bobx", "BOB-bob-bob-bob-bob", "bob"] {
            assert_eq!(find(&entries, token.as_bytes()), None, "{token}");
        }
    }
}
