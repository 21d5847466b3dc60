//! Names in the input directory that were warned about.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
};

use orchestrator_supervise::{ChildSpec, Durable};

/// Names that were already warned about. Clones share the set: the directory listing and the event
/// handler warn about each name once.
#[derive(Debug, Clone)]
pub(crate) struct WarnedNames(Durable<HashSet<OsString>>);

impl Default for WarnedNames {
    fn default() -> Self {
        Self(Durable::new("warned_names", HashSet::new()))
    }
}

impl WarnedNames {
    /// Capacity of the set. When it is full, all names are forgotten.
    const MAX: usize = 1024;

    /// Adds the set to the durable state of `child`, so that it outlives restarts.
    pub(crate) fn declare(&self, child: ChildSpec) -> ChildSpec {
        child.durable(&self.0)
    }

    /// Returns true on the first call for `name`, false afterwards.
    pub(crate) fn should_warn(&self, name: &OsStr) -> bool {
        let mut names = self.0.lock();
        if names.contains(name) {
            return false;
        }
        if names.len() >= Self::MAX {
            names.clear();
        }
        names.insert(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_warned_about_once() {
        let warned = WarnedNames::default();
        assert!(warned.should_warn(OsStr::new("a")) && warned.should_warn(OsStr::new("b")));
        assert!(!warned.clone().should_warn(OsStr::new("a")));
        (2..=WarnedNames::MAX).for_each(|n| assert!(warned.should_warn(OsStr::new(&n.to_string()))));
        assert!(warned.should_warn(OsStr::new("a")), "a full set is forgotten");
    }
}
