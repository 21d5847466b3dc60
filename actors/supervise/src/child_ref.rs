//! Reference to a child.

use std::sync::{Arc, OnceLock};

use orchestrator_observe::{Link, Vitals};

use crate::sends::Target;

/// Reference to a child, made before its specification. It names the child once the tree is built; clones
/// name the same one.
#[derive(Debug, Clone, Default)]
pub struct ChildRef(Arc<OnceLock<Arc<Vitals>>>);

impl ChildRef {
    /// Names the child. A reference keeps its first one.
    pub(crate) fn set(&self, vitals: &Arc<Vitals>) {
        self.0.get_or_init(|| vitals.clone());
    }

    /// Path of the child; empty before the tree is built.
    pub fn path(&self) -> &str {
        self.0.get().map_or("", |vitals| vitals.path())
    }

    /// State of the child's link; None without one.
    pub fn link(&self) -> Option<Link> {
        self.0.get()?.link_state().map(|(_, _, link)| link)
    }
}

impl From<&ChildRef> for Target {
    fn from(child: &ChildRef) -> Self {
        let child = child.clone();
        Self::new(move || Some(child.path().to_owned()).filter(|path| !path.is_empty()))
    }
}
