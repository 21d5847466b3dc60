//! The layers of the configuration: reads all sources and merges them.

#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
};

use config::{ConfigError, Map, Source, Value, ValueKind};
use orchestrator_edge::read_text;
use orchestrator_subsystem::ConfigArguments;
use rustix::process::geteuid;

use super::{
    assignment,
    check::{self, Extent},
    document,
    entries::{self, EntryOrder},
    environment,
    report::{Diagnostic, one_line},
    schema::Schema,
    value_path::{Step, dotted, name_of, position},
};

/// Variable that names the configuration file for commands without `--config`.
const VARIABLE: &str = "ORCHESTRATOR_CONFIG";
/// Configuration file of commands without `--config` and variable, if it exists.
const FILE: &str = "/etc/orchestrator/orchestrator.toml";

/// Sources of the configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// `--config` files, in order, or the one file of [`default_file`].
    pub(crate) files: Vec<PathBuf>,
    /// True if no argument names the file.
    pub(crate) is_found: bool,
    /// Environment variables; only those with the prefix `ORCHESTRATOR__` are used.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// `--set section.key=value`, in order.
    pub(crate) sets: Vec<String>,
    /// `--only`: the one subsystem to run.
    pub(crate) only: Option<String>,
    /// True if keys are left out whose file does not exist here.
    pub(crate) ignores_missing_files: bool,
}

impl Sources {
    /// Sources that a command line names, and the environment. Without `--config`, a file is searched.
    pub(crate) fn new(arguments: &ConfigArguments, only: Option<&str>) -> Self {
        let found =
            arguments.config.is_empty().then(|| default_file(std::env::var_os(VARIABLE), Path::new(FILE)));
        let found = found.flatten();
        Self {
            is_found: found.is_some(),
            files: found.map_or_else(|| arguments.config.clone(), |file| vec![file]),
            environment: environment::of_process(),
            sets: arguments.set.clone(),
            only: only.map(str::to_owned),
            ignores_missing_files: false,
        }
    }

    /// Names the configuration file on standard error, if no argument does.
    pub(crate) fn announced(self) -> Self {
        if let Some(line) = self.found() {
            let _ = writeln!(std::io::stderr().lock(), "orchestrator: {}", one_line(line));
        }
        self
    }

    /// Names the configuration file, if no argument does.
    pub(crate) fn found(&self) -> Option<String> {
        let file = self.files.first().filter(|_| self.is_found)?;
        Some(format!("configuration file: {}", file.display()))
    }
}

/// Configuration file for a command without `--config`: that of the variable, else the usual one if it
/// exists. With an empty variable there is none.
fn default_file(variable: Option<OsString>, usual: &Path) -> Option<PathBuf> {
    match variable {
        Some(path) => (!path.is_empty()).then(|| path.into()),
        None => usual.exists().then(|| usual.to_owned()),
    }
}

/// All sources and their errors. Defaults are not included; serde adds them.
pub(super) struct Layers<'a> {
    schema: &'a Schema,
    /// Checked trees with entries by name, one for each source, the strongest last.
    trees: Vec<Value>,
    order: EntryOrder,
    /// Errors found so far.
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl<'a> Layers<'a> {
    /// Reads files, then the environment, then `--set`.
    pub(super) fn read(sources: &Sources, schema: &'a Schema) -> Self {
        let mut layers = Self::new(schema);
        for file in &sources.files {
            layers.add_file(file);
        }
        let files = layers.merged();
        for variable in environment::read(&sources.environment, schema, &files) {
            layers.add_assignment(variable);
        }
        for set in &sources.sets {
            let below = layers.merged();
            layers.add_assignment(assignment::from_set(set, schema, &below));
        }
        layers
    }

    /// Creates a list with one layer that is not checked.
    pub(super) fn over(mut tree: Value, schema: &'a Schema) -> Self {
        let mut layers = Self::new(schema);
        layers.diagnostics.extend(entries::to_tables(&mut tree, schema.root(), &mut layers.order));
        layers.trees.push(tree);
        layers
    }

    /// Creates an empty list of layers.
    fn new(schema: &'a Schema) -> Self {
        Self { schema, trees: Vec::new(), order: EntryOrder::default(), diagnostics: Vec::new() }
    }

    fn add_file(&mut self, file: &Path) {
        let name = one_line(file.as_os_str().as_encoded_bytes());
        // A pipe of the caller (`--config <(..)`) can be read only once; no other user can make one in
        // `/dev`.
        let text = if file.starts_with("/dev") && !file.starts_with("/dev/shm") {
            std::fs::read_to_string(file)
        } else {
            read_text(file)
        };
        match text {
            Ok(text) => {
                let (tree, broken) = document::read(&name, &text, self.schema);
                self.diagnostics.extend(broken);
                self.add(tree);
            }
            Err(error) => {
                let mut text = format!("cannot read this file: {error}");
                if error.kind() == std::io::ErrorKind::PermissionDenied {
                    text.push_str(&format!(": let user {} read it", geteuid().as_raw()));
                }
                self.diagnostics.push(Diagnostic { position: name, key: String::new(), text });
            }
        }
    }

    pub(super) fn add_assignment(&mut self, assignment: Result<Value, Diagnostic>) {
        match assignment {
            Ok(tree) => self.add(tree),
            Err(diagnostic) => self.diagnostics.push(diagnostic),
        }
    }

    fn add(&mut self, mut tree: Value) {
        self.diagnostics.extend(check::check(&mut tree, self.schema, Extent::OneSource));
        self.diagnostics.extend(entries::to_tables(&mut tree, self.schema.root(), &mut self.order));
        self.trees.push(tree);
    }

    /// Merges all layers, with entries by name.
    pub(super) fn merged(&self) -> Value {
        let layers = self
            .trees
            .iter()
            .fold(config::Config::builder(), |layers, tree| layers.add_source(Layer(tree.clone())));
        let merged = layers.build().expect("layers that were checked do not fail to merge").cache;
        match merged.kind {
            // There is no layer.
            ValueKind::Nil => Value::new(None, Map::<String, Value>::new()),
            _ => merged,
        }
    }

    /// Merges all layers, with entries as arrays.
    pub(super) fn finish_unchecked(self) -> (Value, Vec<Diagnostic>) {
        let mut merged = self.merged();
        entries::to_arrays(&mut merged, self.schema.root(), &self.order);
        (merged, self.diagnostics)
    }

    /// Merges all layers, with entries as arrays, and adds the errors for missing keys.
    pub(super) fn finish(mut self) -> (Value, Vec<Diagnostic>) {
        let mut merged = self.merged();
        entries::to_arrays(&mut merged, self.schema.root(), &self.order);
        let missing = check::check(&mut merged, self.schema, Extent::Whole);
        // An invalid value was removed, but is not missing.
        let is_reported =
            |missing: &Diagnostic| self.diagnostics.iter().any(|diagnostic| diagnostic.key == missing.key);
        let missing: Vec<_> = missing.into_iter().filter(|missing| !is_reported(missing)).collect();
        self.diagnostics.extend(missing);
        (merged, self.diagnostics)
    }
}

/// A tree as a source of the crate `config`.
#[derive(Debug, Clone)]
struct Layer(Value);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        self.0.clone().into_table()
    }
}

/// True if a layer sets the key of a section.
pub(super) fn is_set(merged: &Value, section: &str, key: &str) -> bool {
    let inside = |value: &Value, key: &str| match &value.kind {
        ValueKind::Table(table) => table.get(key).cloned(),
        _ => None,
    };
    inside(merged, section).and_then(|section| inside(&section, key)).is_some()
}

/// Converts the text of a section's check, which begins with `section.key = value`, into an error at the
/// position of that key. The key may have the index or the name of an entry.
pub(super) fn locate(complaint: &str, merged: &Value) -> Diagnostic {
    let begins = |key: &str| !key.split('.').next().unwrap_or_default().contains(char::is_whitespace);
    let Some((key, text)) = complaint.split_once(" = ").filter(|(key, _)| begins(key)) else {
        return Diagnostic {
            position: "the configuration".to_owned(),
            key: String::new(),
            text: complaint.to_owned(),
        };
    };
    let steps = steps(key, merged);
    Diagnostic { position: position(merged, &steps), key: dotted(merged, &steps), text: text.to_owned() }
}

/// Splits `key` into steps. Names of entries and columns may have dots, so the longest existing name is
/// taken.
fn steps(key: &str, merged: &Value) -> Vec<Step> {
    let (mut steps, mut rest, mut at) = (Vec::new(), key, Some(merged));
    while !rest.is_empty() {
        let (length, step, next) = at.and_then(|value| known(rest, value)).unwrap_or_else(|| {
            let word = rest.split('.').next().unwrap_or_default();
            (word.len(), Step::Key(word.to_owned()), None)
        });
        rest = rest[length..].strip_prefix('.').unwrap_or_default();
        steps.push(step);
        at = next;
    }
    steps
}

/// Finds the longest key or entry of `value` at the start of `rest`. Returns its length, the step and its
/// value.
fn known<'a>(rest: &str, value: &'a Value) -> Option<(usize, Step, Option<&'a Value>)> {
    let begins =
        |name: &str| rest.strip_prefix(name).is_some_and(|after| after.is_empty() || after.starts_with('.'));
    let all: Vec<(String, Step, &Value)> = match &value.kind {
        ValueKind::Table(table) => {
            table.iter().map(|(key, value)| (key.clone(), Step::Key(key.clone()), value)).collect()
        }
        ValueKind::Array(entries) => {
            let named = entries
                .iter()
                .enumerate()
                .filter_map(|(index, entry)| Some((name_of(Some(entry))?, Step::Index(index), entry)));
            let indexed = entries
                .iter()
                .enumerate()
                .map(|(index, entry)| (index.to_string(), Step::Index(index), entry));
            named.chain(indexed).collect()
        }
        _ => return None,
    };
    let matching = all.into_iter().filter(|(name, ..)| begins(name));
    // A name wins over an index, for an entry with the name "1".
    let (name, step, value) = matching.rev().max_by_key(|(name, ..)| name.len())?;
    Some((name.len(), step, Some(value)))
}
