//! Report of an input directory without fetcher files.

use std::{ffi::OsStr, fmt::Display, path::Path};

use orchestrator_supervise::{Vitals, sanitize};

/// State of the report.
#[derive(Debug, Default)]
pub(super) struct MissingFiles {
    /// Name of the last ignored file, and the reason.
    ignored: Option<String>,
    /// The blocker is set, with this ignored file.
    reported: Option<Option<String>>,
}

impl MissingFiles {
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

    /// Reports `missing` files to `GET /v1/why`, if the report has changed.
    pub(super) fn report(&mut self, missing: bool, input_dir: &Path, vitals: &Vitals) {
        if !missing {
            // A file that is read now makes earlier ones irrelevant.
            self.ignored = None;
            if self.reported.take().is_some() {
                vitals.clear_blocker();
            }
            return;
        }
        if self.reported.as_ref() == Some(&self.ignored) {
            return;
        }
        let directory = input_dir.display();
        let form =
            "expected: NAME.NUMBER.txt, or NAME.NUMBER.txt.part while it grows, one job a line".to_owned();
        let evidence: Vec<String> = [Some(form), self.ignored.clone()].into_iter().flatten().collect();
        vitals.set_blocker_with(
            "no_fetcher_files",
            format!("no fetcher file in {directory}"),
            &evidence,
            format!("ls -l {directory}; write a list of packages to {directory}/NAME.1.txt"),
        );
        self.reported = Some(self.ignored.clone());
    }
}

#[cfg(test)]
mod tests {
    use orchestrator_supervise::{Root, Strategy, SupervisorSpec};

    use super::*;

    #[test]
    fn the_report_names_the_directory_the_form_and_the_ignored_file() {
        actix_rt::System::new().block_on(async {
            let mut root = Root::start("test", SupervisorSpec::new(Strategy::OneForOne)).await.unwrap();
            let vitals = root.tree().vitals("test").unwrap();
            let mut missing = MissingFiles::default();
            missing.report(true, Path::new("/in"), &vitals);
            let blocker = vitals.blocker().unwrap();
            assert_eq!((&*blocker.kind, &*blocker.text), ("no_fetcher_files", "no fetcher file in /in"));
            assert_eq!(blocker.evidence.len(), 1);
            missing.ignore(OsStr::new("f\n.txt"), "the name");
            missing.report(true, Path::new("/in"), &vitals);
            assert_eq!(vitals.blocker().unwrap().evidence[1], r"ignored f\n.txt: the name");
            missing.report(false, Path::new("/in"), &vitals);
            assert!(vitals.blocker().is_none());
            missing.report(true, Path::new("/in"), &vitals);
            assert_eq!(vitals.blocker().unwrap().evidence.len(), 1, "the ignored file is forgotten");
            root.stop().await;
        });
    }
}
