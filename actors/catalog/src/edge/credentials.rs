//! Credentials for a catalog's server (CONTRACT CF08 to CF12). Changed files are read again.
//!
//! Secrets are never shown: they have no text for logs, and errors name files without their
//! content.

mod file;
mod parse;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use orchestrator_subsystem::Secret;

use self::file::FileVersion;
pub(super) use self::file::{FileContent, read as read_file};
pub(crate) use self::parse::Credential;
pub(super) use self::parse::cookie_pair;

/// Minimum time between two checks of the files, unless the server refuses the credentials.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Source of credentials.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Source {
    /// None: requests are anonymous.
    #[default]
    Anonymous,
    /// A bearer token.
    Token(Secret),
    /// A file that contains only a bearer token.
    TokenFile(PathBuf),
    /// A `credential.json` of deriva, with `globus-credential.json` and `config.json` beside it if
    /// they exist.
    Files {
        /// Path of `credential.json`.
        credential: PathBuf,
        /// A missing file is an error.
        required: bool,
    },
}

impl Source {
    /// The file must exist.
    pub(crate) fn file(credential: impl Into<PathBuf>) -> Self {
        Self::Files { credential: credential.into(), required: true }
    }

    /// Deriva's `~/.deriva/credential.json`, which may be missing.
    pub(crate) fn home() -> Self {
        std::env::home_dir().map_or(Self::Anonymous, |home| Self::Files {
            credential: home.join(".deriva/credential.json"),
            required: false,
        })
    }

    /// Beside `credential.json`, or in `~/.deriva`.
    pub(crate) fn config_file(&self) -> Option<PathBuf> {
        match self {
            Self::Files { credential, .. } => Some(credential.with_file_name("config.json")),
            _ => std::env::home_dir().map(|home| home.join(".deriva/config.json")),
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::Anonymous | Self::Token(_) => Vec::new(),
            Self::TokenFile(path) => vec![path.clone()],
            Self::Files { credential, .. } => {
                let beside = ["globus-credential.json", "config.json"];
                let beside = beside.map(|name| credential.with_file_name(name));
                std::iter::once(credential.clone()).chain(beside).collect()
            }
        }
    }

    /// Returns what to do when the server refuses the credentials.
    pub(crate) fn advice(&self) -> String {
        match self {
            Self::Anonymous => {
                "set credential_file or token_file: the server refuses anonymous requests".to_owned()
            }
            Self::Token(_) => "correct the token".to_owned(),
            Self::TokenFile(path) => format!("put a valid token into {}", path.display()),
            Self::Files { credential, .. } => {
                format!("log in again with deriva-auth, or correct {}", credential.display())
            }
        }
    }
}

/// Credentials for one host, refreshed from their source.
#[derive(Debug)]
pub(crate) struct Credentials {
    source: Source,
    host: String,
    checked_at: Option<Instant>,
    versions_read: Vec<Option<FileVersion>>,
    loaded: Option<Loaded>,
}

/// Credentials as last read.
#[derive(Debug, Clone)]
struct Loaded {
    credential: Credential,
    /// Expiry of a Globus token, and its file.
    ends: Option<(Timestamp, PathBuf)>,
}

impl Credentials {
    /// Nothing is read yet.
    pub(crate) fn new(source: Source, host: &str) -> Self {
        Self { source, host: host.to_owned(), checked_at: None, versions_read: Vec::new(), loaded: None }
    }

    /// Returns the current credential. Files that were not checked within the last second are
    /// checked for changes.
    ///
    /// # Errors
    /// None is available, or it has expired. The text names the file and says what to do; a later
    /// call may succeed.
    pub(crate) fn current(&mut self, now: Instant) -> Result<Credential, String> {
        if let Source::Token(token) = &self.source {
            return Ok(Credential::Bearer(token.clone()));
        }
        if self
            .checked_at
            .is_none_or(|checked_at| now.saturating_duration_since(checked_at) >= CHECK_INTERVAL)
        {
            // After an error every call checks again, since no request is sent meanwhile.
            self.checked_at = None;
            self.refresh()?;
            self.checked_at = Some(now);
        }
        let Some(loaded) = &self.loaded else { return Err(self.source.advice()) };
        match &loaded.ends {
            Some((ends, file)) if *ends <= Timestamp::now() => {
                let file = file.display();
                Err(format!("{file}: the token has expired: run deriva-globus-auth-utils login"))
            }
            _ => Ok(loaded.credential.clone()),
        }
    }

    /// Reads the files again with the next call: the server refuses what they contained.
    pub(crate) fn invalidate(&mut self) {
        self.checked_at = None;
        self.versions_read.clear();
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    fn refresh(&mut self) -> Result<(), String> {
        let contents: Vec<FileContent> =
            self.source.files().iter().map(|path| file::read(path)).collect::<Result<_, _>>()?;
        let versions: Vec<Option<FileVersion>> = contents.iter().map(FileContent::version).collect();
        if self.loaded.is_some() && versions == self.versions_read {
            return Ok(());
        }
        // A file that is being written keeps its last content until the next check.
        if contents.iter().any(FileContent::is_busy) {
            let busy = "another program holds the lock of the credentials file: it is read again later";
            return if self.loaded.is_some() { Ok(()) } else { Err(busy.to_owned()) };
        }
        let texts: Vec<Option<&str>> = contents.iter().map(FileContent::text).collect();
        match self.parse_files(&texts) {
            Ok(loaded) => {
                (self.loaded, self.versions_read) = (Some(loaded), versions);
                Ok(())
            }
            Err(reason) if self.loaded.is_some() && texts[0].is_some() => {
                // A writer without a lock may leave a partial file.
                tracing::warn!(
                    reason = orchestrator_text::sanitize(reason),
                    "credentials are kept as they were"
                );
                Ok(())
            }
            Err(reason) => {
                self.loaded = None;
                Err(reason)
            }
        }
    }

    fn parse_files(&self, texts: &[Option<&str>]) -> Result<Loaded, String> {
        let plain = |credential| Loaded { credential, ends: None };
        match (&self.source, texts) {
            (Source::TokenFile(path), [text]) => {
                let text = text.ok_or_else(|| missing(path))?.trim();
                if text.is_empty() {
                    return Err(format!("{}: it is empty: write the token into it", path.display()));
                }
                Ok(plain(Credential::Bearer(Secret::new(text))))
            }
            (Source::Files { credential, required }, [text, globus, config]) => {
                if text.is_none() && *required {
                    return Err(missing(credential));
                }
                let entry = text.map(|text| parse::entry(text, &self.host)).transpose();
                let entry = entry.map_err(|reason| format!("{}: {reason}", credential.display()))?.flatten();
                if matches!(entry, Some(Credential::Bearer(_))) {
                    return Ok(plain(entry.unwrap_or_default()));
                }
                let scope = config.and_then(|config| parse::scope(config, &self.host));
                let token = scope.zip(*globus).and_then(|(scope, globus)| parse::globus(globus, &scope));
                Ok(match (token, entry) {
                    (Some((_, ends)), Some(entry)) if ends <= Timestamp::now() => plain(entry),
                    (Some((token, ends)), _) => {
                        let file = credential.with_file_name("globus-credential.json");
                        Loaded { credential: Credential::Bearer(token), ends: Some((ends, file)) }
                    }
                    (None, entry) => plain(entry.unwrap_or_default()),
                })
            }
            _ => Ok(plain(Credential::Anonymous)),
        }
    }
}

fn missing(path: &std::path::Path) -> String {
    format!("{}: it is not there: write it, or log in with deriva-auth", path.display())
}
