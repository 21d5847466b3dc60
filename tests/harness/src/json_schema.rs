//! An independent validator for JSON Schema: Python's jsonschema, which deriva depends on.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::python::{environment, peers};

/// Returns the errors of `documents` by the schema in `file`, one line for each.
///
/// # Panics
/// If the file is not a schema of draft 2020-12.
pub fn json_schema_errors(file: &Path, documents: &[Value]) -> String {
    let mut command = Command::new(environment("deriva", "deriva-requirements.txt"));
    command.arg(peers().join("json_schema.py")).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut validator = command.spawn().expect("Python starts");
    let lines: String = documents.iter().map(|document| format!("{document}\n")).collect();
    validator.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("Python reads");
    let output = validator.wait_with_output().expect("Python ends");
    assert!(output.status.success(), "{} is no valid schema", file.display());
    String::from_utf8_lossy(&output.stdout).into_owned()
}
