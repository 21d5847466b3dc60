//! The type-erased section of a configured subsystem.

use std::{any::Any, error::Error, fmt};

use orchestrator_supervise::{ChildSpec, MetricSnapshot};
use serde_json::Value;

/// Reason why a subsystem cannot start.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Applies configuration changes without a restart; see [`Branch::reloadable`](crate::Branch::reloadable).
pub type SectionReload = Box<dyn FnMut(&mut Section, &Section) -> Vec<String>>;

/// The section of a configured subsystem.
#[derive(Clone)]
pub struct Section(pub(crate) Box<dyn ErasedConfig>);

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

    /// Returns the errors that the schema cannot express; see [`Subsystem::check`](crate::Subsystem::check).
    pub fn check(&self) -> Vec<String> {
        self.0.check()
    }

    /// Checks for faults that a restart cannot repair; see [`Subsystem::preflight`](crate::Subsystem::preflight).
    ///
    /// # Errors
    /// Such a fault exists. The text says what the operator has to change.
    pub fn preflight(&self) -> Result<(), BoxError> {
        self.0.preflight()
    }

    /// Returns the branch of the tree and its reload function; see [`Subsystem::branch`](crate::Subsystem::branch).
    ///
    /// # Errors
    /// The configuration cannot be used. The text says what the operator has to change.
    pub fn branch(&self) -> Result<(ChildSpec, SectionReload), BoxError> {
        self.0.branch()
    }

    /// Returns lines for the terminal of an interactive start.
    pub fn greeting(&self) -> String {
        self.0.greeting()
    }

    /// Returns the source of the progress line, if the subsystem has finite work.
    pub fn progress(&self) -> Option<ProgressSource> {
        self.0.progress()
    }
}

/// Source of the progress line: a child with finite work and the metrics to show.
#[derive(Debug, Clone)]
pub struct ProgressSource {
    /// Path of the child, without the root.
    pub child: &'static str,
    /// True if the process exits once that child has ended and no other subsystem runs.
    pub ends: bool,
    /// Name of the counter whose rate the line shows.
    pub counter: &'static str,
    /// Formats the line from the child's metrics and the counter's rate per second.
    pub line: fn(metrics: &[MetricSnapshot], per_second: i64) -> String,
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for Section {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

/// A configuration whose type is erased.
pub(crate) trait ErasedConfig: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;
    fn config(&self) -> &dyn Any;
    fn config_mut(&mut self) -> &mut dyn Any;
    fn clone_box(&self) -> Box<dyn ErasedConfig>;
    fn equals(&self, other: &dyn ErasedConfig) -> bool;
    fn to_json(&self) -> Result<Value, serde_json::Error>;
    fn check(&self) -> Vec<String>;
    fn preflight(&self) -> Result<(), BoxError>;
    fn branch(&self) -> Result<(ChildSpec, SectionReload), BoxError>;
    fn greeting(&self) -> String;
    fn progress(&self) -> Option<ProgressSource>;
}

impl Clone for Box<dyn ErasedConfig> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}
