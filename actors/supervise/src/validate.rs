//! Refuses specifications that cannot be run, before anything starts.

use crate::{ChildSpec, Placement, Shutdown, Start, SupervisorSpec};

/// A specification that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {text}")]
pub struct SpecError {
    /// Where.
    pub path: String,
    /// What is wrong and what to do.
    pub text: String,
}

impl SupervisorSpec {
    /// Checks the whole subtree.
    ///
    /// # Errors
    /// The first rule that is broken, with the child's path.
    pub fn validate(&self, path: &str) -> Result<(), SpecError> {
        let fail = |text: String| Err(SpecError { path: path.to_owned(), text });
        if let Err(text) = self.limits.validate() {
            return fail(text);
        }
        for (i, child) in self.children.iter().enumerate() {
            if child.id.is_empty() || child.id.contains(['/', ' ']) {
                return fail(format!("`{}` is no child id: use a word without slash or space", child.id));
            }
            if self.children[..i].iter().any(|other| other.id == child.id) {
                return fail(format!("two children are called `{}`: rename one", child.id));
            }
            child.validate(&format!("{path}/{}", child.id))?;
        }
        Ok(())
    }
}

impl ChildSpec {
    /// A name of the site's as a child's id: letters, digits, `-`, `_` and `.` stay, all else becomes `_`, so that it is one word
    /// in a path, in a shell and in a URL. Names that differ may become the same.
    ///
    /// ```
    /// assert_eq!(orchestrator_supervise::ChildSpec::id_of("lab:5000/scans"), "lab_5000_scans");
    /// ```
    pub fn id_of(name: &str) -> String {
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
    }

    fn validate(&self, path: &str) -> Result<(), SpecError> {
        let fail = |text: &str| Err(SpecError { path: path.to_owned(), text: text.to_owned() });
        let is_supervisor = matches!(self.start, Start::Supervisor(_));
        if self.shutdown == Shutdown::Infinity && !is_supervisor {
            return fail("a worker cannot have an infinite shutdown: give it a deadline");
        }
        if self.shutdown != Shutdown::Infinity && is_supervisor {
            return fail("a supervisor waits for its children: give them the deadlines");
        }
        if self.pausable && is_supervisor {
            return fail("a supervisor cannot be paused: pause its sources");
        }
        match (&self.start, self.placement) {
            (Start::Pool { .. }, _) | (_, Placement::Inherit | Placement::Dedicated) => {}
            (_, Placement::Spread(_)) => return fail("only a pool can be spread"),
        }
        match &self.start {
            Start::Supervisor(spec) => spec.validate(path),
            Start::Pool { count: 0, .. } => fail("a pool needs at least one worker"),
            _ => Ok(()),
        }
    }
}
