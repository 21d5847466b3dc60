//! Reports of a child about its work: why it does none, and when it has finished some.

use std::time::Duration;

use super::Vitals;
use crate::{
    expected_input::ExpectedInput,
    snapshot::{BlockerSnapshot, ExpectedInputSnapshot, WorkSnapshot},
};

impl Vitals {
    /// Reports why the child does no work although it runs, and what helps. The start
    /// of a cause that is reported again stays. It ends by [`Vitals::clear_blocker`], or with the
    /// incarnation.
    pub fn set_blocker(&self, kind: &'static str, text: impl AsRef<str>, help: impl AsRef<str>) {
        self.set_blocker_with(kind, text, &[], help);
    }

    /// Like [`Vitals::set_blocker`], with up to four facts that support the cause. Texts are escaped and
    /// limited by [`sanitize`](orchestrator_text::sanitize).
    pub fn set_blocker_with(
        &self,
        kind: &'static str,
        text: impl AsRef<str>,
        evidence: &[String],
        help: impl AsRef<str>,
    ) {
        self.blocker.set(kind, None, text.as_ref(), evidence, help.as_ref(), false);
    }

    /// Like [`Vitals::set_blocker_with`], for a reason that healthy days have, too, such as an empty input:
    /// no view shows the child as blocked.
    pub fn set_routine(
        &self,
        kind: &'static str,
        text: impl AsRef<str>,
        evidence: &[String],
        help: impl AsRef<str>,
    ) {
        self.blocker.set(kind, None, text.as_ref(), evidence, help.as_ref(), true);
    }

    /// Like [`Vitals::set_blocker_with`], for a reason that a peer or the system reports. `fault_of` is the
    /// address or name of what failed: reports of several children about the same one, also as the endpoint
    /// of a link, are one cause.
    pub fn set_fault(
        &self,
        kind: &'static str,
        fault_of: &str,
        text: impl AsRef<str>,
        evidence: &[String],
        help: impl AsRef<str>,
    ) {
        self.blocker.set(kind, Some(fault_of), text.as_ref(), evidence, help.as_ref(), false);
    }

    /// Reports that the child works again, or that nothing keeps it from it.
    pub fn clear_blocker(&self) {
        self.blocker.clear();
    }

    /// Reported reason why the child does no work.
    pub fn blocker(&self) -> Option<BlockerSnapshot> {
        self.blocker.get()
    }

    /// Declares that the child finishes units of work, for example `job`, whose last time snapshots show.
    /// The first declaration stays.
    pub fn set_work_unit(&self, unit: &'static str) {
        self.work_log.set_unit(unit);
    }

    /// Records that the child has just finished units of work. It reads the clock, so a child calls it once a
    /// batch.
    pub fn record_work(&self) {
        self.work_log.record();
    }

    /// Reports whether work waits in the child, besides the messages in its mailboxes. Ends with the
    /// incarnation.
    pub fn set_work_waits(&self, waits: bool) {
        self.work_log.set_waits(waits);
    }

    /// Declares that the input `name` arrives at least once in `every`; snapshots show when it is
    /// late, with the command or action `help`. The period begins now. A later call for the same
    /// name, also of another incarnation, keeps the last arrival.
    pub fn expect_input(&self, name: &str, every: Duration, help: &str) -> ExpectedInput {
        let mut inputs = self.expected_inputs.lock();
        let known = inputs.iter().position(|input| input.is(name)).map(|at| inputs.swap_remove(at));
        let input =
            known.map_or_else(|| ExpectedInput::new(name, every, help), |known| known.with(every, help));
        inputs.push(input.clone());
        input
    }

    /// Ends the expectation of the input `name`.
    pub fn forget_input(&self, name: &str) {
        self.expected_inputs.lock().retain(|input| !input.is(name));
    }

    /// Inputs that it expects, in alphabetical order.
    pub fn expected_inputs(&self) -> Vec<ExpectedInputSnapshot> {
        let mut inputs: Vec<_> = self.expected_inputs.lock().iter().map(ExpectedInput::snapshot).collect();
        inputs.sort_by(|a, b| a.name.cmp(&b.name));
        inputs
    }

    /// Last finished work; None if the child has declared no unit.
    pub fn last_work(&self) -> Option<WorkSnapshot> {
        self.work_log.last()
    }
}
