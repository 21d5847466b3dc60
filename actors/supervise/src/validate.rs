//! Refuses specifications that cannot be run, before anything starts.

use crate::{ChildSpec, Placement, Shutdown, SpecError, Start, Strategy, SupervisorSpec};

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
        self.validate_children(path)
    }

    fn validate_children(&self, path: &str) -> Result<(), SpecError> {
        let fail = |text: String| Err(SpecError { path: path.to_owned(), text });
        for (i, child) in self.children.iter().enumerate() {
            child.validate_id(path)?;
            if self.children[..i].iter().any(|other| other.id == child.id) {
                return fail(format!("two children are called `{}`: rename one", child.id));
            }
            child.validate(&format!("{path}/{}", child.id))?;
        }
        Ok(())
    }
}

impl ChildSpec {
    fn validate_id(&self, path: &str) -> Result<(), SpecError> {
        if self.id.is_empty() || self.id.contains(['/', ' ']) {
            let text = format!("`{}` is no child id: use a word without slash or space", self.id);
            return Err(SpecError { path: path.to_owned(), text });
        }
        Ok(())
    }

    /// Checks a child of the dynamic supervisor at `path`.
    pub(crate) fn validate_dynamic(&self, path: &str) -> Result<(), SpecError> {
        self.validate_id(path)?;
        let path = format!("{path}/{}", self.id);
        if self.arbiters() > 0 {
            let text = "a child of a dynamic supervisor has no arbiter of its own: place the supervisor";
            return Err(SpecError { path, text: text.to_owned() });
        }
        self.validate(&path)
    }

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
        let is_supervisor = matches!(self.start, Start::Supervisor(_) | Start::Dynamic { .. });
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
            Start::Dynamic { spec, .. } if spec.strategy != Strategy::OneForOne => {
                fail("the children of a dynamic supervisor do not depend on each other: use one_for_one")
            }
            Start::Dynamic { spec, slot } if spec.children.len() > slot.max => {
                fail("there are more children than the dynamic supervisor may have: raise its limit")
            }
            // Limits that let a child which fails alone back off for ever are valid here, as in a pool.
            Start::Dynamic { spec, .. } => {
                spec.children.iter().try_for_each(|child| child.validate_dynamic(path))?;
                spec.validate_children(path)
            }
            _ => Ok(()),
        }
    }
}
