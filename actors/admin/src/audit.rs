//! The audit log: one JSON object a line for each command, with caller, reason and outcome.
//!
//! The file is opened for each line, so that others can rotate it by a rename, too. Lines are not synced to
//! disk, since events and logs have the same information. The append blocks only the endpoint's own arbiter.
//!
//! Refused callers cannot keep operators from sending commands: the refusals of a caller are limited, they
//! may fill only a part of a file, and the space of the next commands is reserved on the disk.

mod record;
mod refusals;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use orchestrator_edge::{is_full, open_regular, report_full, with_suffix};
use orchestrator_observe::now_ms;
use orchestrator_supervise::Vitals;
use orchestrator_text::{escape_json, sanitize_to};
use parking_lot::Mutex;
use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};
use serde_json::Value;

pub(crate) use self::record::Record;
use self::refusals::Refusals;
use crate::timestamp::rfc3339;

/// Outcome of an executed command.
pub(crate) const DONE: &str = "ok";
/// Log target of the lines about executed commands.
pub const AUDIT_TARGET: &str = "orchestrator_admin::audit::done";

/// Longest line, in bytes.
const LINE_MAX: u64 = 16 * 1024;
/// Longest arguments that are recorded in full, in bytes of JSON.
const ARGS_MAX: usize = 8 * 1024;
/// Length from which a command begins a new file, in bytes.
const FILE_MAX: u64 = 8 << 20;
/// Length up to which refusals are written, in bytes. They begin no new file, so that they cannot displace
/// older ones.
const REFUSALS_MAX: u64 = FILE_MAX / 4 * 3;
/// Former files that are kept: `audit.jsonl.1` is the latest one of `audit.jsonl`.
const FORMER_FILES: u32 = 4;
/// Disk space behind the end of the file that refusals leave to commands, in bytes.
const RESERVE: u64 = 256 << 10;

/// The audit log.
#[derive(Debug)]
pub(crate) struct Audit {
    path: Option<PathBuf>,
    /// State of the endpoint, which reports a full disk.
    vitals: OnceLock<Arc<Vitals>>,
    /// Locked while a file is opened, because two sockets are served.
    refusals: Mutex<Refusals>,
}

/// Reserved space for one line.
#[derive(Debug)]
pub(crate) struct ReservedLine {
    file: Option<File>,
}

impl Audit {
    /// Creates a log that writes to the file at `path`, if any, and to the program's log.
    pub(crate) fn new(path: Option<&Path>) -> Self {
        Self { path: path.map(Path::to_owned), vitals: OnceLock::new(), refusals: Mutex::default() }
    }

    pub(crate) fn has_file(&self) -> bool {
        self.path.is_some()
    }

    /// Creates the file and reserves disk space for the first commands. A full disk is reported at `vitals`,
    /// now and later.
    pub(crate) fn prepare(&self, vitals: &Arc<Vitals>) {
        let _ = self.vitals.set(vitals.clone());
        if let Some(path) = &self.path
            && let Err(error) = self.open_for_command(path)
        {
            tracing::warn!("cannot write the audit log {}: {error}: commands are refused", path.display());
        }
    }

    /// Opens the file with room for a command, or reports that the disk is full.
    fn open_for_command(&self, path: &Path) -> io::Result<File> {
        let opened = open_for_command(path);
        match (&opened, self.vitals.get()) {
            (Err(error), Some(vitals)) if is_full(error) => {
                let text =
                    format!("no space left for the audit log {}: commands are refused", path.display());
                report_full(vitals, path, text);
            }
            (Ok(_), Some(vitals)) => vitals.clear_blocker(),
            _ => {}
        }
        opened
    }

    /// Reserves space for the line of a permitted command, before it is executed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn reserve(&self) -> Result<ReservedLine, String> {
        let Some(path) = &self.path else {
            return Ok(ReservedLine { file: None });
        };
        let _files = self.refusals.lock();
        let file = self.open_for_command(path).map_err(|error| {
            format!("cannot write the audit log {}: {error}: the command was not executed", path.display())
        })?;
        Ok(ReservedLine { file: Some(file) })
    }

    /// Records the refusal of a caller, or counts it. Returns the number of lines written to the file.
    pub(crate) fn refuse(&self, record: Record) -> u64 {
        let now_ms = now_ms();
        let mut refusals = self.refusals.lock();
        let counts = refusals.end_periods(now_ms);
        let mut lines = counts.iter().filter(|count| self.write_refusal(count).unwrap_or(false)).count();
        let written =
            if refusals.admit(&record.who, now_ms) { self.write_refusal(&record).ok() } else { None };
        lines += usize::from(written == Some(true));
        if written.is_none() {
            refusals.omit(record);
        }
        lines as u64
    }

    /// Records the numbers of the refusals that are only counted, at the end of the endpoint.
    pub(crate) fn record_counts(&self) {
        for count in self.refusals.lock().end_periods(u64::MAX) {
            // There may be no room for it.
            let _ = self.write_refusal(&count);
        }
    }

    fn write_refusal(&self, record: &Record) -> io::Result<bool> {
        let file = self.path.as_deref().map(open_for_refusal).transpose()?;
        ReservedLine { file }.write(record)
    }
}

impl ReservedLine {
    /// Writes the line with one system call, so that lines of several writers do not mix. Returns false if
    /// there is no file.
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

/// Long arguments become a shortened string.
pub(crate) fn bounded(args: &Value) -> Value {
    let text = args.to_string();
    if escape_json(&text).len() <= ARGS_MAX {
        return args.clone();
    }
    Value::String(sanitize_to(text, ARGS_MAX / 4))
}

/// In the format of the log.
pub(crate) fn now() -> String {
    rfc3339(now_ms())
}

/// Opens the file, or a new one if it is long, and reserves space for a line, before the command is executed.
fn open_for_command(path: &Path) -> io::Result<File> {
    let (mut file, mut length) = open(path)?;
    if length >= FILE_MAX {
        match begin_file(path) {
            Ok(new) => (file, length) = (new, 0),
            // A long file is better than no command.
            Err(error) => tracing::warn!(%error, "the audit log is not rotated"),
        }
    }
    // On a full disk, the space that was reserved earlier is left.
    allocate(&file, length, LINE_MAX + RESERVE).or_else(|_| allocate(&file, length, LINE_MAX))?;
    Ok(file)
}

/// Opens the file if it has room for a refusal besides the reserve.
fn open_for_refusal(path: &Path) -> io::Result<File> {
    let (file, length) = open(path)?;
    if length >= REFUSALS_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    allocate(&file, length, LINE_MAX + RESERVE)?;
    Ok(file)
}

/// Opens the file and returns its length.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let options = &mut OpenOptions::new();
    let (file, metadata) = open_regular(options.append(true).create(true).mode(0o600), path)?;
    Ok((file, metadata.len()))
}

/// Reserves `space` bytes behind the end of a file. A full disk is reported now.
fn allocate(file: &File, length: u64, space: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, length, space) {
        // Some file systems do not support it.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Files of the log at `path`, each with the end of its name, the newest first.
pub(crate) fn files(path: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    let suffixes =
        std::iter::once(String::new()).chain((1..=FORMER_FILES).map(|number| format!(".{number}")));
    suffixes.map(|suffix| {
        let file = with_suffix(path, &suffix);
        (suffix, file)
    })
}

/// Begins a new file, with its reserve, and renames the former ones.
fn begin_file(path: &Path) -> io::Result<File> {
    let other = |suffix: &str| with_suffix(path, &format!(".{suffix}"));
    let fresh = other("new");
    // The file of an earlier attempt.
    let _ = fs::remove_file(&fresh);
    let (file, _) = open(&fresh)?;
    if let Err(error) = allocate(&file, 0, LINE_MAX + RESERVE) {
        fs::remove_file(&fresh)?;
        return Err(error);
    }
    for number in (1..FORMER_FILES).rev() {
        match fs::rename(other(&number.to_string()), other(&(number + 1).to_string())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, other("1"))?;
    fs::rename(&fresh, path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use serde_json::json;

    use super::*;

    pub(super) fn record(reason: &str, args: Option<Value>) -> Record {
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
    fn a_long_file_is_rotated_by_commands_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let audit = Audit::new(Some(&path));
        let refused =
            Record { who: "eve".to_owned(), outcome: "forbidden: x".to_owned(), ..record("", None) };
        let length = |name: &str| fs::metadata(dir.path().join(name)).map(|metadata| metadata.len()).ok();
        let lengthen = |to| OpenOptions::new().write(true).open(&path).unwrap().set_len(to).unwrap();
        assert_eq!(audit.refuse(refused.clone()), 1);
        lengthen(REFUSALS_MAX);
        assert_eq!(audit.refuse(refused.clone()), 0, "the rest is for commands");
        audit.reserve().unwrap().write(&record("first", None)).unwrap();
        for number in 1..=FORMER_FILES + 2 {
            lengthen(FILE_MAX + u64::from(number));
            assert_eq!(audit.refuse(refused.clone()), 0);
            audit.reserve().unwrap().write(&record("next", None)).unwrap();
            assert!(length("audit.jsonl").unwrap() < 1_000);
            assert_eq!(length("audit.jsonl.1"), Some(FILE_MAX + u64::from(number)));
        }
        assert_eq!(length("audit.jsonl.4"), Some(FILE_MAX + 3));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5);
        audit.record_counts();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(": 7, this is the last"), "{text}");
    }

    #[test]
    fn a_long_file_that_cannot_be_rotated_is_continued() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        File::create(&path).unwrap().set_len(FILE_MAX).unwrap();
        fs::create_dir(dir.path().join("audit.jsonl.new")).unwrap();
        Audit::new(Some(&path)).reserve().unwrap().write(&record("x", None)).unwrap();
        assert!(fs::metadata(&path).unwrap().len() > FILE_MAX);
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
