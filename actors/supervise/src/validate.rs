//! Validation of specifications, before any child starts.

use crate::{ChildSpec, Placement, Shutdown, SpecError, Start, Strategy, SupervisorSpec};

impl SupervisorSpec {
    /// Validates the subtree, whose root has the path `path`.
    ///
    /// # Errors
    /// The first violated rule, with the child's path.
    pub fn validate(&self, path: &str) -> Result<(), SpecError> {
        let fail = |text: String| Err(SpecError { path: path.to_owned(), text });
        if let Err(text) = self.limits.validate() {
            return fail(text);
        }
        if self.retry.is_some() && self.strategy != Strategy::OneForOne {
            return fail(
                "children that depend on each other cannot give up alone: use one_for_one".to_owned(),
            );
        }
        self.validate_children(path)
    }

    fn validate_children(&self, path: &str) -> Result<(), SpecError> {
        let fail = |text: String| Err(SpecError { path: path.to_owned(), text });
        for (i, child) in self.children.iter().enumerate() {
            child.validate_id(path)?;
            if self.children[..i].iter().any(|other| other.id == child.id) {
                return fail(format!("two children have the id `{}`: rename one", child.id));
            }
            child.validate(&format!("{path}/{}", child.id))?;
        }
        Ok(())
    }
}

impl ChildSpec {
    fn validate_id(&self, path: &str) -> Result<(), SpecError> {
        if self.id.is_empty() || self.id.contains(['/', ' ']) {
            let text = format!("invalid child id `{}`: use a word without slash or space", self.id);
            return Err(SpecError { path: path.to_owned(), text });
        }
        Ok(())
    }

    /// Validates a child of the dynamic supervisor at `path`.
    pub(crate) fn validate_dynamic(&self, path: &str) -> Result<(), SpecError> {
        self.validate_id(path)?;
        let path = format!("{path}/{}", self.id);
        if self.arbiters() > 0 {
            let text = "a child of a dynamic supervisor cannot have an arbiter of its own: set the placement of the supervisor";
            return Err(SpecError { path, text: text.to_owned() });
        }
        self.validate(&path)
    }

    /// Converts a configured name into a child id: letters, digits, `-`, `_` and `.` stay, other characters
    /// become `_`. Different names may give the same id.
    ///
    /// ```
    /// assert_eq!(orchestrator_supervise::ChildSpec::id_of("lab:5000/scans"), "lab_5000_scans");
    /// ```
    pub fn id_of(name: &str) -> String {
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
    }

    fn validate(&self, path: &str) -> Result<(), SpecError> {
        let fail = |text: &str| Err(SpecError { path: path.to_owned(), text: text.to_owned() });
        let is_supervisor = matches!(self.start, Start::Supervisor(_) | Start::Dynamic { .. });
        if self.shutdown == Shutdown::Infinity && !is_supervisor {
            return fail("a worker cannot have an infinite shutdown: give it a deadline");
        }
        if self.shutdown != Shutdown::Infinity && is_supervisor {
            return fail("a supervisor cannot have a deadline: give its children deadlines");
        }
        if self.pausable && is_supervisor {
            return fail("a supervisor cannot be pausable: make its sources pausable");
        }
        match (&self.start, self.placement) {
            (Start::Pool { .. }, _) | (_, Placement::Inherit | Placement::Dedicated) => {}
            (_, Placement::Spread(_)) => return fail("only a pool can have Placement::Spread"),
        }
        match &self.start {
            Start::Supervisor(spec) => spec.validate(path),
            Start::Pool { count: 0, .. } => fail("a pool needs at least one worker"),
            Start::Dynamic { spec, .. } if spec.strategy != Strategy::OneForOne => {
                fail("the children of a dynamic supervisor do not depend on each other: use one_for_one")
            }
            Start::Dynamic { spec, .. } if spec.retry.is_some() => {
                fail("the children of a dynamic supervisor cannot give up alone: they may back off for ever")
            }
            Start::Dynamic { spec, slot } if spec.children.len() > slot.max => {
                fail("more initial children than the dynamic supervisor's limit: raise the limit")
            }
            // The limits are not validated, as in a pool: one child that always fails may back off for ever.
            Start::Dynamic { spec, .. } => {
                spec.children.iter().try_for_each(|child| child.validate_dynamic(path))?;
                spec.validate_children(path)
            }
            _ => Ok(()),
        }
    }
}
