//! Report of files that are not read, and of an input directory without fetcher files.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fmt::Display,
    path::Path,
};

use orchestrator_supervise::Vitals;
use orchestrator_text::sanitize;
use rustix::process::geteuid;

const FORM: &str = "expected: NAME.NUMBER.txt, or NAME.NUMBER.txt.part while it grows, one job a line";

#[derive(Debug, Default)]
pub(super) struct UnreadFiles {
    /// Name of the last ignored file, and the reason.
    ignored: Option<String>,
    /// Names in another form.
    misnamed: BTreeSet<OsString>,
    /// Fetcher files that cannot be read, each with the error.
    unreadable: BTreeMap<String, String>,
}

/// Reason why files are not read, for `GET /v1/why`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) kind: &'static str,
    pub(super) text: String,
    pub(super) evidence: Vec<String>,
    pub(super) help: String,
    /// True if healthy days have the reason, too.
    pub(super) routine: bool,
}

impl UnreadFiles {
    /// Maximum number of names of each kind; further ones are not counted.
    const MAX: usize = 1_024;

    /// Records a file that is not read, and the reason.
    pub(super) fn ignore(&mut self, name: &OsStr, reason: impl Display) {
        let name = sanitize(name.as_encoded_bytes());
        self.ignored = Some(format!("ignored {name}: {reason}"));
    }

    /// Records an entry whose name has another form, unless another one is recorded.
    pub(super) fn ignore_other(&mut self, name: &OsStr) {
        if self.ignored.is_none() {
            self.ignore(name, "its name has another form");
        }
    }

    /// Records that a name in another form is in the directory, or is gone.
    pub(super) fn set_misnamed(&mut self, name: &OsStr, is_there: bool) {
        if !is_there {
            self.misnamed.remove(name);
        } else if self.misnamed.len() < Self::MAX {
            self.misnamed.insert(name.to_owned());
        }
    }

    /// Forgets all names in another form, before a listing.
    pub(super) fn forget_misnamed(&mut self) {
        self.misnamed.clear();
    }

    /// Records that a fetcher file cannot be read.
    pub(super) fn failed(&mut self, name: &str, error: impl Display) {
        if self.unreadable.len() < Self::MAX {
            self.unreadable.insert(name.to_owned(), error.to_string());
        }
    }

    /// Records that a fetcher file was read.
    pub(super) fn read(&mut self, name: &str) {
        self.unreadable.remove(name);
    }

    /// Number of names in another form.
    pub(super) fn misnamed(&self) -> u64 {
        self.misnamed.len() as u64
    }

    /// Number of fetcher files that cannot be read.
    pub(super) fn unreadable(&self) -> u64 {
        self.unreadable.len() as u64
    }

    /// Forgets files that are gone. Costs a system call for each file that cannot be read.
    pub(super) fn prune(&mut self, input_dir: &Path) {
        self.unreadable.retain(|name, _| input_dir.join(name).symlink_metadata().is_ok());
    }

    /// Reports the reason with the largest effect. `is_missing`: no fetcher file is read, and all jobs come
    /// from them.
    pub(super) fn report(&mut self, is_missing: bool, input_dir: &Path) -> Option<Report> {
        let directory = input_dir.display();
        if let Some((name, error)) = self.unreadable.first_key_value() {
            let (count, uid) = (self.unreadable.len(), geteuid().as_raw());
            return Some(Report {
                kind: "unreadable_files",
                text: format!(
                    "fetcher files that cannot be read: {count}, such as {}: {error}",
                    sanitize(name)
                ),
                evidence: vec![format!("each is tried again; this program runs as uid {uid}")],
                help: format!("ls -l {directory}; make the files readable for uid {uid}"),
                routine: false,
            });
        }
        let misnamed = self.misnamed.first().map(|name| {
            let (count, name) = (self.misnamed.len(), sanitize(name.as_encoded_bytes()));
            format!("files with other names: {count}, such as {name}")
        });
        if is_missing {
            let routine = misnamed.is_none() && self.ignored.is_none();
            let act = match misnamed {
                Some(_) => "rename the files to NAME.NUMBER.txt".to_owned(),
                None => format!("write a list of packages to {directory}/NAME.1.txt"),
            };
            let others = misnamed.map(|misnamed| format!("; {misnamed}")).unwrap_or_default();
            return Some(Report {
                kind: "no_fetcher_files",
                text: format!("no fetcher file in {directory}{others}"),
                evidence: [Some(FORM.to_owned()), self.ignored.clone()].into_iter().flatten().collect(),
                help: format!("ls -l {directory}; {act}"),
                routine,
            });
        }
        // A file that is read now makes earlier ones irrelevant.
        self.ignored = None;
        misnamed.map(|misnamed| Report {
            kind: "misnamed_files",
            text: format!("{misnamed}; they are not read"),
            evidence: vec![FORM.to_owned()],
            help: format!("ls -l {directory}; rename the files, or move them elsewhere"),
            routine: false,
        })
    }
}

impl Report {
    /// Sets the blocker of the reader.
    pub(super) fn set(&self, vitals: &Vitals) {
        let Self { kind, text, evidence, help, routine } = self;
        if *routine {
            return vitals.set_routine(kind, text, evidence, help);
        }
        vitals.set_blocker_with(kind, text, evidence, help);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_the_directory_the_form_and_the_ignored_file() {
        let directory = Path::new("/in");
        let mut files = UnreadFiles::default();
        let report = files.report(true, directory).unwrap();
        assert_eq!((report.kind, &*report.text), ("no_fetcher_files", "no fetcher file in /in"));
        assert_eq!(report.evidence, [FORM]);
        files.ignore(OsStr::new("f\n.txt"), "the name");
        assert_eq!(files.report(true, directory).unwrap().evidence[1], r"ignored f\n.txt: the name");
        assert_eq!(files.report(false, directory), None);
        assert_eq!(files.report(true, directory).unwrap().evidence.len(), 1, "the ignored file is forgotten");
    }

    #[test]
    fn files_that_are_not_read_are_counted_until_they_are_gone() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = UnreadFiles::default();
        for name in ["demo.txt", "a\n.txt", "demo.txt"] {
            files.set_misnamed(OsStr::new(name), true);
        }
        let text =
            |files: &mut UnreadFiles, is_missing| files.report(is_missing, directory.path()).unwrap().text;
        assert_eq!(text(&mut files, false), r"files with other names: 2, such as a\n.txt; they are not read");
        assert!(text(&mut files, true).ends_with(r"; files with other names: 2, such as a\n.txt"));
        std::fs::write(directory.path().join("f.1.txt"), "").unwrap();
        files.failed("f.1.txt", "Permission denied");
        files.failed("gone.1.txt", "Permission denied");
        assert!(
            text(&mut files, true)
                .starts_with("fetcher files that cannot be read: 2, such as f.1.txt: Permission")
        );
        files.prune(directory.path());
        assert_eq!(files.unreadable(), 1);
        files.read("f.1.txt");
        files.set_misnamed(OsStr::new("a\n.txt"), false);
        files.set_misnamed(OsStr::new("demo.txt"), false);
        assert_eq!(files.report(false, directory.path()), None);
    }
}
