//! The type-erased section of a configured subsystem.

use std::{any::Any, error::Error, fmt, ops::Deref, path::PathBuf};

use orchestrator_exchange::Exchange;
use orchestrator_supervise::{ChildSpec, MetricSnapshot};
use serde_json::Value;

use crate::backup_set::BackupSet;

/// Reason why a subsystem cannot start.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Applies configuration changes without a restart; see [`Branch::reloadable`](crate::Branch::reloadable).
pub type SectionReload = Box<dyn FnMut(&mut Section, &Section) -> Vec<String>>;

/// The section of a configured subsystem.
#[derive(Debug, Clone)]
pub struct Section(pub(crate) Box<dyn ErasedConfig>);

impl Deref for Section {
    type Target = dyn ErasedConfig;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for Section {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
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

/// A configuration whose type is erased.
pub trait ErasedConfig: fmt::Debug + Send + Sync {
    /// Name of the subsystem.
    fn name(&self) -> &'static str;
    /// Returns the configuration.
    fn config(&self) -> &dyn Any;
    /// Returns the configuration, to be changed.
    fn config_mut(&mut self) -> &mut dyn Any;
    /// Returns a copy.
    fn clone_box(&self) -> Box<dyn ErasedConfig>;
    /// False, too, if `other` belongs to another subsystem.
    fn equals(&self, other: &dyn ErasedConfig) -> bool;
    /// Secrets are included.
    ///
    /// # Errors
    /// A path in it is not UTF-8.
    fn to_json(&self) -> Result<Value, serde_json::Error>;
    /// See [`Subsystem::check`](crate::Subsystem::check).
    fn check(&self) -> Vec<String>;
    /// Checks for faults that a restart cannot repair; see
    /// [`Subsystem::preflight`](crate::Subsystem::preflight).
    ///
    /// # Errors
    /// Such a fault exists. The text says what the operator has to change.
    fn preflight(&self) -> Result<(), BoxError>;
    /// See [`Subsystem::branch`](crate::Subsystem::branch).
    ///
    /// # Errors
    /// The configuration cannot be used. The text says what the operator has to change.
    fn branch(&self, exchange: &mut Exchange) -> Result<(ChildSpec, SectionReload), BoxError>;
    /// See [`Subsystem::offers_jobs`](crate::Subsystem::offers_jobs).
    fn offers_jobs(&self) -> bool;
    /// See [`Subsystem::state_dir`](crate::Subsystem::state_dir).
    fn state_dir(&self) -> Option<PathBuf>;
    /// See [`Subsystem::files_to_back_up`](crate::Subsystem::files_to_back_up).
    fn files_to_back_up(&self) -> BackupSet;
    /// See [`Subsystem::greeting`](crate::Subsystem::greeting).
    fn greeting(&self) -> String;
    /// See [`Subsystem::progress`](crate::Subsystem::progress).
    fn progress(&self) -> Option<ProgressSource>;
}

impl Clone for Box<dyn ErasedConfig> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}
