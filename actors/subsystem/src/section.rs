//! The section of a subsystem that runs, without the subsystem's type.

use std::{any::Any, error::Error, fmt};

use orchestrator_supervise::{ChildSpec, MetricSnapshot};
use serde_json::Value;

/// Reason why a subsystem cannot start, of any crate.
pub type AnyError = Box<dyn Error + Send + Sync>;

/// Takes over what can change; see [`Branch::reloadable`](crate::Branch::reloadable).
pub type AnyReload = Box<dyn FnMut(&mut Section, &Section) -> Vec<String>>;

/// The section of a subsystem that runs.
#[derive(Clone)]
pub struct Section(pub(crate) Box<dyn Configured>);

impl Section {
    /// Name of the subsystem.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// Returns the section as JSON, secrets included.
    ///
    /// # Errors
    /// A path in it is not UTF-8.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        self.0.to_json()
    }

    /// Returns everything that a schema cannot refuse; see [`Subsystem::check`](crate::Subsystem::check).
    pub fn check(&self) -> Vec<String> {
        self.0.check()
    }

    /// Finds what no restart would heal; see [`Subsystem::preflight`](crate::Subsystem::preflight).
    ///
    /// # Errors
    /// What the operator has to change.
    pub fn preflight(&self) -> Result<(), AnyError> {
        self.0.preflight()
    }

    /// Returns the branch of the tree, and the way to change it while it runs; see [`Subsystem::branch`](crate::Subsystem::branch).
    ///
    /// # Errors
    /// What the operator has to change.
    pub fn branch(&self) -> Result<(ChildSpec, AnyReload), AnyError> {
        self.0.branch()
    }

    /// Returns lines for a person at a terminal.
    pub fn greeting(&self) -> String {
        self.0.greeting()
    }

    /// Returns the work whose progress is shown.
    pub fn work(&self) -> Option<Work> {
        self.0.work()
    }
}

/// Work with progress to show.
#[derive(Debug, Clone)]
pub struct Work {
    /// Path of the child whose metrics tell how far it is, without the root.
    pub child: &'static str,
    /// Tells whether the end of that child is the end of the run, where nothing else runs.
    pub ends: bool,
    /// Counter whose rate is shown.
    pub counter: &'static str,
    /// Returns the line for these metrics and this rate of the counter per second.
    pub line: fn(metrics: &[MetricSnapshot], per_second: i64) -> String,
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for Section {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_same(&*other.0)
    }
}

/// A configuration with the subsystem that it belongs to.
pub(crate) trait Configured: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;
    fn config(&self) -> &dyn Any;
    fn config_mut(&mut self) -> &mut dyn Any;
    fn copy(&self) -> Box<dyn Configured>;
    fn is_same(&self, other: &dyn Configured) -> bool;
    fn to_json(&self) -> Result<Value, serde_json::Error>;
    fn check(&self) -> Vec<String>;
    fn preflight(&self) -> Result<(), AnyError>;
    fn branch(&self) -> Result<(ChildSpec, AnyReload), AnyError>;
    fn greeting(&self) -> String;
    fn work(&self) -> Option<Work>;
}

impl Clone for Box<dyn Configured> {
    fn clone(&self) -> Self {
        (**self).copy()
    }
}
