//! The tokens in force. The file is read again when it changed or when somebody asks for it; a file that became bad
//! leaves those in force that were, and says so in the log: an operator's slip must not lock out the operators.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release},
    },
};

use parking_lot::Mutex;
use subtle::{Choice, ConstantTimeEq};

use crate::{
    AdminError,
    role::{Caller, Role},
    token_file::{self, Entry, Mark},
};

/// Asks the endpoint to read again what it keeps from files: the tokens. Clones share the wish.
#[derive(Debug, Clone, Default)]
pub struct Reload(Arc<AtomicBool>);

impl Reload {
    /// From the next request on, what the files say now holds.
    pub fn request(&self) {
        self.0.store(true, Release);
    }

    fn take(&self) -> bool {
        self.0.swap(false, AcqRel)
    }
}

/// The tokens of one file.
#[derive(Debug)]
pub(crate) struct Tokens {
    path: PathBuf,
    reload: Reload,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    /// Of the file when it was last read, well or badly; none while it is gone.
    mark: Option<Mark>,
    entries: Vec<Entry>,
}

impl Tokens {
    /// Reads the file for the first time.
    pub(crate) fn open(path: &Path, reload: Reload) -> Result<Self, AdminError> {
        let (mark, entries) = token_file::read(path)?;
        let held = Mutex::new(Held { mark: Some(mark), entries });
        Ok(Self { path: path.to_owned(), reload, held })
    }

    /// Whose token this is.
    pub(crate) fn caller(&self, token: &[u8]) -> Option<Caller> {
        let mut held = self.held.lock();
        self.refresh(&mut held);
        find(&held.entries, token).map(|(role, name)| Caller { who: name.to_owned(), role })
    }

    /// A small local file, looked at with one system call a request: the endpoint's arbiter can bear that.
    fn refresh(&self, held: &mut Held) {
        let mark = fs::metadata(&self.path).ok().as_ref().map(token_file::mark);
        if !self.reload.take() && mark == held.mark {
            return;
        }
        match token_file::read(&self.path) {
            Ok((mark, entries)) => {
                tracing::info!(path = ?self.path, tokens = entries.len(), "tokens read again");
                *held = Held { mark: Some(mark), entries };
            }
            Err(error) => {
                tracing::error!(%error, "the tokens that were in force stay so");
                held.mark = mark;
            }
        }
    }
}

/// Looks at every entry in full, whichever fits: neither place nor content shows in the time it takes. Digests make all
/// tokens equally long.
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
        // A new file each time, as an editor saves: the inode tells, however coarse the clock of the file system is.
        let fresh = path.with_extension("new");
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        fs::rename(fresh, path).unwrap();
    }

    #[test]
    fn a_changed_file_counts_and_a_bad_one_does_not() {
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
        assert!(who(eve).is_some() && who(bob).is_some(), "an operator's slip locks nobody out");
        fs::remove_file(&path).unwrap();
        assert!(who(bob).is_some());
        write(&path, BOB);
        assert_eq!(who(eve), None, "taken away");
        write(&path, "");
        assert_eq!(who(bob), None);
    }

    #[test]
    fn nothing_but_the_whole_token_fits() {
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
