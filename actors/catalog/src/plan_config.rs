//! Table `plan` of a rule in the configuration.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use orchestrator_edge::process::Environment;
use orchestrator_subsystem::{CommandLine, Secret, secret::exposed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{edge::handlers::Planner, handler_config::program_problems};

/// System columns, which the server writes.
const SYSTEM: [&str; 5] = ["RID", "RCT", "RMT", "RCB", "RMB"];

/// Plan of a rule's claims, in addition to `claim.set`. Keys of another kind are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlanConfig {
    /// Kind of the plan.
    pub kind: PlanKind,
    /// command: program and arguments, started without a shell. It reads rows as lines of JSON, and
    /// answers each with a line: an object of columns to write, or null to leave the row.
    #[serde(skip_serializing_if = "CommandLine::is_empty")]
    pub argv: CommandLine,
    /// command: columns that the program may write. Default: those of `update` that `claim.set` does
    /// not write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// command: working directory. Default: that of this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// command: environment variables, as those of a handler.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Secret>,
    /// command: names of further variables that the program inherits from this process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_pass: Vec<String>,
    /// command: maximum time for the answer to one row, in seconds.
    #[schemars(range(min = 1, max = 3_600))]
    pub timeout_secs: u32,
    /// command: maximum size of a row's line and of its answer, in bytes.
    #[schemars(range(min = 1_024, max = 67_108_864))]
    pub line_bytes: u32,
}

/// Kinds of plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanKind {
    /// `claim.set` alone: all candidates are claimed.
    #[default]
    None,
    /// A program decides about each candidate.
    Command,
}

impl Default for PlanConfig {
    fn default() -> Self {
        Self {
            kind: PlanKind::default(),
            argv: CommandLine::new([]),
            columns: Vec::new(),
            cwd: None,
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            timeout_secs: 30,
            line_bytes: 1 << 20,
        }
    }
}

impl PlanConfig {
    /// Returns every problem that the schema cannot express. The texts begin with `plan.key = value`.
    pub fn check(&self) -> Vec<String> {
        if self.kind == PlanKind::None {
            let is_default = *self == Self::default();
            let text =
                "plan.kind = none: a key of a program is given: write kind = \"command\", or leave it out";
            return if is_default { Vec::new() } else { vec![text.to_owned()] };
        }
        let mut problems: Vec<_> = program_problems(self.argv.expose(), &self.environment())
            .into_iter()
            .map(|(key, value, text)| format!("plan.{key} = {value}: {text}"))
            .collect();
        for (index, column) in self.columns.iter().enumerate() {
            if SYSTEM.contains(&column.as_str()) {
                problems.push(format!("plan.columns = {column}: the server writes it: leave it out"));
            }
            if self.columns[..index].contains(column) {
                problems.push(format!("plan.columns = {column}: it is there twice: leave one out"));
            }
        }
        problems
    }

    /// Creates the planner of `rule`; None: `claim.set` alone is the plan.
    ///
    /// # Errors
    /// The first problem that [`PlanConfig::check`] finds.
    pub fn planner(&self, rule: &str) -> Result<Option<Planner>, String> {
        if let Some(problem) = self.check().into_iter().next() {
            return Err(problem);
        }
        if self.kind == PlanKind::None {
            return Ok(None);
        }
        let timeout = Duration::from_secs(self.timeout_secs.into());
        let line_bytes = usize::try_from(self.line_bytes).unwrap_or(usize::MAX);
        let planner = Planner::new(rule, self.argv.expose().to_vec(), self.cwd.clone(), self.environment());
        Ok(Some(planner.limits(timeout, line_bytes)))
    }

    fn environment(&self) -> Environment {
        Environment { pass: self.env_pass.clone(), set: exposed(&self.env) }
    }
}
