//! Secrets in configuration files that other users can read.

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path};

use config::{Value, ValueKind};

use super::schema::{Rule, Schema, ValueFormat};

/// Permission of other users to read a file.
const READ_BY_OTHERS: u32 = 0o004;

/// A warning for each secret of `merged` in one of `files` that all users can read.
pub(super) fn warnings(merged: &Value, schema: &Schema, files: &[impl AsRef<Path>]) -> BTreeSet<String> {
    let exposed = files.iter().map(AsRef::as_ref).filter(|file| {
        fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.mode() & READ_BY_OTHERS != 0)
    });
    let exposed: Vec<String> = exposed.map(|file| file.display().to_string()).collect();
    let mut found = BTreeSet::new();
    if !exposed.is_empty() {
        search("", merged, schema.root(), &mut |key, origin| {
            let file = exposed.iter().find(|file| {
                origin
                    .strip_prefix(file.as_str())
                    .is_some_and(|line| line.is_empty() || line.starts_with(':'))
            });
            found.extend(file.map(|file| {
                format!(
                    "{key} is in {file}, which all users can read: run chmod 600 {file}, or set {key}_file"
                )
            }));
        });
    }
    found
}

/// Calls `found` with the key and the origin of each secret. Entries of arrays have no names here:
/// `catalog.token`.
fn search(key: &str, value: &Value, rule: Rule<'_>, found: &mut impl FnMut(&str, &str)) {
    match &value.kind {
        ValueKind::Table(table) if !rule.is_free() => {
            for (name, value) in table {
                let Some(inner) = rule.key(name) else { continue };
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                search(&key, value, inner, found);
            }
        }
        ValueKind::Array(entries) => {
            let item = rule.item();
            entries
                .iter()
                .for_each(|entry| item.into_iter().for_each(|item| search(key, entry, item, found)));
        }
        ValueKind::String(_) if rule.value_format() == Some(ValueFormat::Secret) => {
            found(key, value.origin().unwrap_or_default());
        }
        _ => {}
    }
}
