//! Secrets in configuration files that other users can read.

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path};

use config::{Value, ValueKind};

use super::{
    schema::{Schema, ValueFormat},
    value_path::{Step, walk},
};

/// Permission of other users to read a file.
const READ_BY_OTHERS: u32 = 0o004;

/// A warning for each secret of `merged` in one of `files` that all users can read.
pub(super) fn warnings(merged: &Value, schema: &Schema, files: &[impl AsRef<Path>]) -> BTreeSet<String> {
    let exposed = files.iter().map(AsRef::as_ref).filter(|file| {
        fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.mode() & READ_BY_OTHERS != 0)
    });
    let exposed: Vec<String> = exposed.map(|file| file.display().to_string()).collect();
    let mut found = BTreeSet::new();
    walk(merged, schema.root(), &mut Vec::new(), &mut |steps, _, value, rule, _| {
        if matches!(value.kind, ValueKind::String(_)) && rule.value_format() == Some(ValueFormat::Secret) {
            let origin = value.origin().unwrap_or_default();
            let is_in = |file: &&String| {
                let line = origin.strip_prefix(file.as_str());
                line.is_some_and(|line| line.is_empty() || line.starts_with(':'))
            };
            let key = key(steps);
            found.extend(exposed.iter().find(is_in).map(|file| {
                format!(
                    "{key} is in {file}, which all users can read: run chmod 600 {file}, or set {key}_file"
                )
            }));
        }
        false
    });
    found
}

/// Dotted key in which entries of arrays have no names: `catalog.token`.
fn key(steps: &[Step]) -> String {
    let keys = steps.iter().filter_map(|step| match step {
        Step::Key(key) => Some(key.as_str()),
        Step::Index(_) => None,
    });
    keys.collect::<Vec<_>>().join(".")
}
