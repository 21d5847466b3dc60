//! Addresses with passwords, which a configuration must not have: each, or its password, moves into a file
//! that the configuration names.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::files::persist;
use crate::config::{
    overrides::from_json,
    schema::{Rule, Schema},
    secrets,
    value_path::Step,
};

/// A file with one address or password.
#[derive(Debug)]
pub(super) struct SecretFile {
    /// Key that names the file.
    key: String,
    /// Path of the file.
    pub(super) path: PathBuf,
    /// The content, until it is written to `path`.
    temporary: NamedTempFile,
}

impl SecretFile {
    pub(super) fn note(&self, is_written: bool) -> String {
        let (key, path) = (&self.key, self.path.display());
        if is_written {
            format!("{key}: the address has a password, so it is in {path}, mode 0600")
        } else {
            format!("{key}: the address has a password: write it into the file {path}, mode 0600")
        }
    }

    /// Writes the file with mode 0600.
    pub(super) fn write(self, force: bool) -> Result<()> {
        persist(self.temporary, &self.path, force)
    }
}

/// Configuration with the paths of files that have the addresses already, for a check.
pub(super) fn with_temporary_paths(values: &Value, secrets: &[SecretFile]) -> Value {
    let inner = |value| with_temporary_paths(value, secrets);
    match values {
        Value::Object(table) => table.iter().map(|(key, value)| (key.clone(), inner(value))).collect(),
        Value::Array(entries) => entries.iter().map(inner).collect(),
        Value::String(text) => {
            let secret = secrets.iter().find(|secret| secret.path == Path::new(text));
            secret.map_or_else(|| values.clone(), |secret| json!(secret.temporary.path()))
        }
        other => other.clone(),
    }
}

/// Moves addresses with passwords from the configuration `values` into files in `directory`; of an address
/// without a key for its file, the password.
///
/// # Errors
/// A key with a password has no sibling that names a file.
pub(super) fn move_out(
    values: &mut Value,
    directory: Option<&Path>,
    schema: &Schema,
) -> Result<Vec<SecretFile>> {
    let tree = from_json(values);
    let mut files = Vec::new();
    for (steps, diagnostic) in secrets::find(&tree, schema) {
        let Some((Step::Key(key), above)) = steps.split_last() else { continue };
        let rule = above.iter().try_fold(schema.root(), |rule, step| match step {
            Step::Key(key) => rule.key(key),
            Step::Index(_) => rule.item(),
        });
        let table = above.iter().try_fold(&mut *values, |value, step| match step {
            Step::Key(key) => value.get_mut(key),
            Step::Index(index) => value.get_mut(index),
        });
        let table = table.and_then(Value::as_object_mut);
        let prefix = diagnostic.key.strip_suffix(key.as_str()).unwrap_or_default();
        // Name of the file, and the key for its path.
        let own = (diagnostic.key.clone(), format!("{key}_file"));
        let of_password = (format!("{prefix}password"), "password_file".to_owned());
        let is_known =
            |(_, key): &(String, String)| rule.is_some_and(|rule: Rule<'_>| rule.key(key).is_some());
        let named = [own, of_password].into_iter().find(is_known);
        let (table, (name, file_key)) = table.zip(named).with_context(|| diagnostic.to_string())?;
        let Some(Value::String(mut secret)) = table.remove(key) else { continue };
        if file_key == "password_file" {
            let (address, password) = split_password(&secret).with_context(|| diagnostic.to_string())?;
            table.insert(key.clone(), Value::String(address));
            secret = password;
        }
        let file: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' })
            .collect();
        let path = directory.map_or_else(|| PathBuf::from(&file), |directory| directory.join(&file));
        let shown = path.to_str().context("the path of the output is not UTF-8")?;
        let key = format!("{prefix}{file_key}");
        table.insert(file_key, Value::String(shown.to_owned()));
        let mut temporary = NamedTempFile::new_in(directory.unwrap_or(&std::env::temp_dir()))?;
        writeln!(temporary, "{secret}")?;
        files.push(SecretFile { key, path, temporary });
    }
    // Tables have no order.
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// Address without user and password, and the password.
fn split_password(address: &str) -> Option<(String, String)> {
    let (scheme, rest) = address.split_once("//")?;
    let (credentials, server) = rest.rsplit_once('@')?;
    let (_, password) = credentials.split_once(':')?;
    Some((format!("{scheme}//{server}"), password.to_owned()))
}
