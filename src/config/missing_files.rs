//! Files that a configuration names and that only another machine has, such as mounted secrets.

use std::path::Path;

use config::{Value, ValueKind};

use super::{
    report::{Diagnostic, in_order},
    schema::Schema,
    value_path::{Step, dotted, position, remove, walk},
};

/// Removes each key `.._file` of `merged` whose file does not exist here, so that the rest can be checked.
/// The result has a note for each.
pub(super) fn leave_out(merged: &mut Value, schema: &Schema) -> Vec<String> {
    let mut found: Vec<Vec<Step>> = Vec::new();
    walk(merged, schema.root(), &mut Vec::new(), &mut |steps, key, value, _, _| {
        let ValueKind::String(path) = &value.kind else { return false };
        if key.ends_with("_file") && !path.is_empty() && !Path::new(path).exists() {
            found.push(steps.to_vec());
        }
        true
    });
    let notes = found.iter().map(|steps| Diagnostic {
        position: position(merged, steps),
        key: dotted(merged, steps),
        text: "the file does not exist here: not checked".to_owned(),
    });
    let notes = in_order(notes.collect()).iter().map(ToString::to_string).collect();
    for steps in &found {
        remove(merged, steps);
        // Only with tokens may the endpoint listen on other addresses than loopback ones.
        if let [Step::Key(admin), Step::Key(file)] = &steps[..]
            && (admin.as_str(), file.as_str()) == ("admin", "tokens_file")
        {
            remove(merged, &[steps[0].clone(), Step::Key("listen".to_owned())]);
        }
    }
    notes
}
