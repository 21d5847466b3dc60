//! Replaced programs: their environment, and how `config init` reads their configuration.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::Path,
};

use serde_json::Value;

/// Environment of a replaced program, and warnings about its configuration.
#[derive(Debug, Default)]
pub struct OriginalContext {
    variables: BTreeMap<OsString, OsString>,
    warnings: Vec<String>,
}

impl OriginalContext {
    /// Returns the environment of this process.
    pub fn of_process() -> Self {
        Self::new(std::env::vars_os())
    }

    /// Returns an environment with `variables`.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self { variables: variables.into_iter().collect(), warnings: Vec::new() }
    }

    /// Returns the value of a variable.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Leaves out variables that are not UTF-8.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
    }

    /// Adds a warning: a part of the configuration has no effect. The text names the file and the key, and
    /// says what to do.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    /// Removes and returns the warnings.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

/// A program that `config init` knows.
#[derive(Debug, Clone, Copy)]
pub struct Original {
    /// Name, that of the drop-in command if there is one.
    pub name: &'static str,
    /// Other names of the program's file.
    pub files: &'static [&'static str],
    /// Meaning of a configuration file of the program.
    pub file: OriginalFile,
    /// Section for a start without the program's configuration, as JSON; empty for the defaults.
    pub example: &'static str,
}

/// Meaning of a configuration file of a replaced program.
#[derive(Debug, Clone, Copy)]
pub enum OriginalFile {
    /// The program has none.
    None,
    /// The program's argument names it.
    Argument,
    /// This variable names it.
    Variable(&'static str),
    /// Its text, with its path, is translated into the section as JSON.
    Text(fn(&str, &Path, &mut OriginalContext) -> Result<Value, String>),
}
