//! Report of a child's crash.

use super::Vitals;
use crate::{
    Exit,
    crash_report::{CrashReport, EVENTS_MAX},
};

impl Vitals {
    /// Reports a panic or fault of the incarnation, with the events before it. Other exits are no crashes.
    pub(super) fn report_crash(&self, exit: &Exit, at_ms: u64, in_progress: Option<&'static str>) {
        let message = match exit {
            Exit::Panicked(text) => text.clone(),
            Exit::Failed(fault) => fault.to_string(),
            Exit::Normal | Exit::Shutdown | Exit::Killed => String::new(),
        };
        let caught = self.activity.take_panic(&message);
        if !matches!(exit, Exit::Panicked(_) | Exit::Failed(_)) {
            return;
        }
        // The supervisor's branch: a crash often follows from what happened to a sibling.
        let branch = self.path().rsplit_once('/').map_or(self.path(), |(above, _)| above);
        let (location, frames) =
            caught.map_or_else(Default::default, |caught| (caught.location, caught.frames));
        let report = CrashReport {
            number: 0,
            at_ms,
            path: self.path().to_owned(),
            incarnation: self.incarnation(),
            kind: exit.kind().to_owned(),
            message,
            location,
            in_progress: in_progress.map(str::to_owned),
            events: self.events.last_of_branch(branch, EVENTS_MAX),
            samples: None,
            backtrace: Vec::new(),
            left_out: Vec::new(),
        };
        self.crashes.record(report, frames);
    }
}
