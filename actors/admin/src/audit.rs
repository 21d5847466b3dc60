//! The audit log: one JSON object a line for each command, with caller, reason and outcome.
//!
//! The file is opened for each line, so that it can be rotated by a rename. Lines are not synced to disk, since events and logs have the
//! same information. The append blocks only the endpoint's own arbiter.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use orchestrator_supervise::{escape_json, now_ms, sanitize_to};
use rustix::{
    fs::{FallocateFlags, OFlags, fallocate},
    io::Errno,
};
use serde::Serialize;
use serde_json::Value;

use crate::timestamp::rfc3339;

/// Outcome of an executed command.
pub(crate) const DONE: &str = "ok";
/// Log target of the lines about executed commands.
pub const AUDIT_TARGET: &str = "orchestrator_admin::audit::done";

/// Longest line, in bytes.
const LINE_MAX: u64 = 16 * 1024;
/// Longest arguments that are recorded in full, in bytes of JSON.
const ARGS_MAX: usize = 8 * 1024;

/// One line of the audit log.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Record {
    pub(crate) at: String,
    pub(crate) who: String,
    pub(crate) role: &'static str,
    pub(crate) path: String,
    pub(crate) verb: String,
    pub(crate) reason: String,
    /// Arguments of a console verb.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) args: Option<Value>,
    /// `ok`, or the kind and message of the error.
    pub(crate) outcome: String,
    /// State of the child before a command.
    pub(crate) before: Option<String>,
    /// State of the child after a command.
    pub(crate) after: Option<String>,
}

/// The audit log.
#[derive(Debug)]
pub(crate) struct Audit {
    path: Option<PathBuf>,
}

/// Reserved space for one line.
#[derive(Debug)]
pub(crate) struct ReservedLine {
    file: Option<File>,
}

impl Audit {
    /// Creates a log that writes to the file at `path`, if any, and to the program's log.
    pub(crate) fn new(path: Option<&Path>) -> Self {
        Self { path: path.map(Path::to_owned) }
    }

    /// Returns true if the lines are written to a file.
    pub(crate) fn has_file(&self) -> bool {
        self.path.is_some()
    }

    /// Reserves space for a line, before the command is executed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn reserve(&self) -> Result<ReservedLine, String> {
        let Some(path) = &self.path else {
            return Ok(ReservedLine { file: None });
        };
        let file = open(path).map_err(|error| {
            format!("cannot write the audit log {}: {error}: the command was not executed", path.display())
        })?;
        Ok(ReservedLine { file: Some(file) })
    }
}

impl ReservedLine {
    /// Writes the line with one system call, so that lines of several writers do not mix. Returns false if there is no file.
    pub(crate) fn write(self, record: &Record) -> io::Result<bool> {
        let Record { who, role, path, verb, reason, outcome, .. } = record;
        // The log's rate limit applies to refused commands, but not to executed ones.
        if outcome == DONE {
            tracing::info!(target: AUDIT_TARGET, who, role, path, verb, reason, outcome, "audit");
        } else {
            tracing::info!(who, role, path, verb, reason, outcome, "audit");
        }
        let Some(mut file) = self.file else {
            return Ok(false);
        };
        let mut line = escape_json(&serde_json::to_string(record)?).into_owned().into_bytes();
        line.push(b'\n');
        let written = file.write(&line)?;
        if written < line.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(true)
    }
}

/// Returns `args` for the audit log, as a shortened string if they are long.
pub(crate) fn bounded(args: &Value) -> Value {
    let text = args.to_string();
    if escape_json(&text).len() <= ARGS_MAX {
        return args.clone();
    }
    Value::String(sanitize_to(text, ARGS_MAX / 4))
}

/// Returns the current time in the format of the log.
pub(crate) fn now() -> String {
    rfc3339(now_ms())
}

fn open(path: &Path) -> io::Result<File> {
    // Non-blocking, since opening a named pipe without a reader would block.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    // On a full disk this fails now, before the command is executed.
    match fallocate(&file, FallocateFlags::KEEP_SIZE, metadata.len(), LINE_MAX) {
        // Some file systems do not support it.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(file),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use serde_json::json;

    use super::*;

    fn record(reason: &str, args: Option<Value>) -> Record {
        Record {
            at: now(),
            who: "bob".to_owned(),
            role: "operator",
            path: "o/queue".to_owned(),
            verb: "restart".to_owned(),
            reason: reason.to_owned(),
            args,
            outcome: "ok".to_owned(),
            before: None,
            after: Some("running".to_owned()),
        }
    }

    #[test]
    fn lines_are_appended_to_a_private_file_that_can_be_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let audit = Audit::new(Some(&path));
        for reason in ["first", "two\nlines"] {
            audit.reserve().unwrap().write(&record(reason, None)).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        let read: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((read.len(), &read[1]["reason"]), (2, &json!("two\nlines")));
        assert_eq!((&read[0]["before"], &read[0]["after"]), (&Value::Null, &json!("running")));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::rename(&path, dir.path().join("audit.1")).unwrap();
        assert!(audit.reserve().unwrap().write(&record("third", None)).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
    }

    #[test]
    fn an_unwritable_file_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().to_owned(), dir.path().join("gone/audit"), "/dev/full".into()] {
            let error = Audit::new(Some(&path)).reserve().unwrap_err();
            assert!(error.contains("was not executed"), "{error}");
        }
        assert!(!Audit::new(None).reserve().unwrap().write(&record("x", None)).unwrap());
    }

    #[test]
    fn the_longest_line_fits_the_reserved_space() {
        let long = "\u{1}".repeat(orchestrator_subsystem::wire::REASON_LIMIT);
        let worst = record(&long, Some(bounded(&json!({ "x": "\u{1}\"é".repeat(50_000) }))));
        assert!(serde_json::to_vec(&worst).unwrap().len() < LINE_MAX as usize);
        assert_eq!(bounded(&json!({ "n": 1 })), json!({ "n": 1 }));
    }
}
