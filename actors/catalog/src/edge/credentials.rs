//! Credentials for a catalog's server (CONTRACT CF08 to CF12), read from the files of the original's tools, and again when they change.
//!
//! Nothing here is ever shown: secrets have no text for logs, and errors name files, never what is in them.

mod file;
mod parse;
mod secret;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use jiff::Timestamp;

use self::file::{Reading, Stamp};
pub(super) use self::parse::cookie_pair;
pub use self::{parse::Grant, secret::Secret};

/// How often files are looked at, at the most, unless a server does not believe what they say.
const LOOK: Duration = Duration::from_secs(1);

/// Where credentials come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Source {
    /// Nowhere: we are nobody.
    #[default]
    Anonymous,
    /// A bearer token as it is.
    Token(Secret),
    /// A file with nothing but a bearer token.
    TokenFile(PathBuf),
    /// A `credential.json` of the original's tools, with `globus-credential.json` and `config.json` beside it, where they are.
    Files {
        /// The first of them.
        credential: PathBuf,
        /// Is it an error if it is not there?
        required: bool,
    },
}

impl Source {
    /// The file `credential`, which must be there.
    pub fn file(credential: impl Into<PathBuf>) -> Self {
        Self::Files { credential: credential.into(), required: true }
    }

    /// Where the original's tools keep it, `~/.deriva/credential.json`, if it is there.
    pub fn home() -> Self {
        std::env::home_dir().map_or(Self::Anonymous, |home| Self::Files {
            credential: home.join(".deriva/credential.json"),
            required: false,
        })
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

    /// For people: where to look when a server does not believe us.
    pub fn advice(&self) -> String {
        match self {
            Self::Anonymous => "give credential_file or token_file, since nobody is let in".to_owned(),
            Self::Token(_) => "correct the token".to_owned(),
            Self::TokenFile(path) => format!("put a valid token into {}", path.display()),
            Self::Files { credential, .. } => {
                format!("log in again with deriva-auth, or correct {}", credential.display())
            }
        }
    }
}

/// What a source says of one host, as of lately.
#[derive(Debug)]
pub struct Credentials {
    source: Source,
    host: String,
    looked: Option<Instant>,
    seen: Vec<Option<Stamp>>,
    known: Option<Known>,
}

/// What was read.
#[derive(Debug, Clone)]
struct Known {
    grant: Grant,
    /// Of a Globus token: when it ends, and the file it is from.
    ends: Option<(Timestamp, PathBuf)>,
}

impl Credentials {
    /// What `source` says of `host`. Nothing is read yet.
    pub fn new(source: Source, host: &str) -> Self {
        Self { source, host: host.to_owned(), looked: None, seen: Vec::new(), known: None }
    }

    /// What to show the server. Files that have changed are read again, if they were not looked at within the last second.
    ///
    /// # Errors
    /// There is none, or it has expired; the text names the file and says what to do. It may get better.
    pub fn grant(&mut self, now: Instant) -> Result<Grant, String> {
        if let Source::Token(token) = &self.source {
            return Ok(Grant::Bearer(token.clone()));
        }
        if self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK) {
            // After an error every time, since nothing is asked of the server then.
            self.looked = None;
            self.look()?;
            self.looked = Some(now);
        }
        let Some(known) = &self.known else { return Err(self.source.advice()) };
        match &known.ends {
            Some((ends, file)) if *ends <= Timestamp::now() => {
                let file = file.display();
                Err(format!("{file}: the token has expired: run deriva-globus-auth-utils login"))
            }
            _ => Ok(known.grant.clone()),
        }
    }

    /// Has the files looked at again at once: the server does not believe what they said.
    pub fn doubt(&mut self) {
        self.looked = None;
        self.seen.clear();
    }

    /// Where they come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    fn look(&mut self) -> Result<(), String> {
        let readings: Vec<Reading> =
            self.source.files().iter().map(|path| file::read(path)).collect::<Result<_, _>>()?;
        let stamps: Vec<Option<Stamp>> = readings.iter().map(Reading::stamp).collect();
        if self.known.is_some() && stamps == self.seen {
            return Ok(());
        }
        // A file that is just being written says nothing; what it said before holds for another second.
        if readings.iter().any(Reading::is_busy) {
            let busy = "another program holds the lock of the credentials' file: it is tried again";
            return if self.known.is_some() { Ok(()) } else { Err(busy.to_owned()) };
        }
        let texts: Vec<Option<&str>> = readings.iter().map(Reading::text).collect();
        match self.understand(&texts) {
            Ok(known) => {
                (self.known, self.seen) = (Some(known), stamps);
                Ok(())
            }
            Err(reason) if self.known.is_some() && texts[0].is_some() => {
                // Half a file, by somebody who does not lock it.
                tracing::warn!(
                    reason = orchestrator_supervise::sanitize(reason),
                    "credentials are kept as they were"
                );
                Ok(())
            }
            Err(reason) => {
                self.known = None;
                Err(reason)
            }
        }
    }

    fn understand(&self, texts: &[Option<&str>]) -> Result<Known, String> {
        let plain = |grant| Known { grant, ends: None };
        match (&self.source, texts) {
            (Source::TokenFile(path), [text]) => {
                let text = text.ok_or_else(|| missing(path))?.trim();
                if text.is_empty() {
                    return Err(format!("{}: it is empty: write the token into it", path.display()));
                }
                Ok(plain(Grant::Bearer(Secret::new(text))))
            }
            (Source::Files { credential, required }, [text, globus, config]) => {
                if text.is_none() && *required {
                    return Err(missing(credential));
                }
                let entry = text.map(|text| parse::entry(text, &self.host)).transpose();
                let entry = entry.map_err(|reason| format!("{}: {reason}", credential.display()))?.flatten();
                if matches!(entry, Some(Grant::Bearer(_))) {
                    return Ok(plain(entry.unwrap_or_default()));
                }
                let scope = config.and_then(|config| parse::scope(config, &self.host));
                let token = scope.zip(*globus).and_then(|(scope, globus)| parse::globus(globus, &scope));
                Ok(match (token, entry) {
                    (Some((_, ends)), Some(entry)) if ends <= Timestamp::now() => plain(entry),
                    (Some((token, ends)), _) => {
                        let file = credential.with_file_name("globus-credential.json");
                        Known { grant: Grant::Bearer(token), ends: Some((ends, file)) }
                    }
                    (None, entry) => plain(entry.unwrap_or_default()),
                })
            }
            _ => Ok(plain(Grant::Anonymous)),
        }
    }
}

fn missing(path: &std::path::Path) -> String {
    format!("{}: it is not there: write it, or log in with deriva-auth", path.display())
}
