//! Files that a configuration names and that only another machine has, such as mounted secrets.

use std::path::Path;

use config::{Value, ValueKind};

use super::{
    report::{Diagnostic, in_order},
    schema::{Rule, Schema},
    value_path::{Step, dotted, position, remove},
};

/// Removes each key `.._file` of `merged` whose file does not exist here, so that the rest can be checked. Returns a note for each.
pub(super) fn leave_out(merged: &mut Value, schema: &Schema) -> Vec<String> {
    let mut found = Vec::new();
    search(merged, schema.root(), &mut Vec::new(), &mut found);
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

fn search(value: &Value, rule: Rule<'_>, steps: &mut Vec<Step>, found: &mut Vec<Vec<Step>>) {
    match &value.kind {
        ValueKind::Table(table) if !rule.is_free() => {
            for (key, value) in table {
                let Some(inner) = rule.key(key) else { continue };
                steps.push(Step::Key(key.clone()));
                match &value.kind {
                    ValueKind::String(path) if key.ends_with("_file") => {
                        if !path.is_empty() && !Path::new(path).exists() {
                            found.push(steps.clone());
                        }
                    }
                    _ => search(value, inner, steps, found),
                }
                steps.pop();
            }
        }
        ValueKind::Array(entries) => {
            let Some(item) = rule.item() else { return };
            for (index, value) in entries.iter().enumerate() {
                steps.push(Step::Index(index));
                search(value, item, steps, found);
                steps.pop();
            }
        }
        _ => {}
    }
}
