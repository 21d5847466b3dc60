//! Arrays of tables that bear a `name`: layers and variables tell their entries apart by it, not by position.

use config::{Map, Value, ValueKind};

use super::{explain::name_of, report::Refusal, schema::Rule};

/// Turns every array of named tables in `tree` into a table by name, so that layers merge entry by entry. An entry whose
/// name another one has is left out and told.
pub(super) fn by_name(tree: &mut Value, rule: Rule<'_>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    walk(tree, rule, "", &mut |value, path| {
        let ValueKind::Array(entries) = &mut value.kind else { return };
        let mut named = Map::new();
        for entry in std::mem::take(entries) {
            let Some(name) = name_of(Some(&entry)) else { continue };
            match named.get(&name) {
                Some(_) => refusals.push(Refusal {
                    place: entry.origin().unwrap_or_default().to_owned(),
                    key: path.to_owned(),
                    text: format!("another entry is named {name:?}; give each a name of its own"),
                }),
                None => {
                    named.insert(name, entry);
                }
            }
        }
        value.kind = ValueKind::Table(named);
    });
    refusals
}

/// Undoes [`by_name`]: arrays again, in the order of names.
pub(super) fn listed(tree: &mut Value, rule: Rule<'_>) {
    walk(tree, rule, "", &mut |value, _| {
        let ValueKind::Table(named) = &mut value.kind else { return };
        let mut entries: Vec<_> = std::mem::take(named).into_iter().collect();
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        value.kind = ValueKind::Array(entries.into_iter().map(|(_, entry)| entry).collect());
    });
}

/// Visits whatever the schema has as an array of named tables.
fn walk(tree: &mut Value, rule: Rule<'_>, path: &str, visit: &mut impl FnMut(&mut Value, &str)) {
    let ValueKind::Table(table) = &mut tree.kind else { return };
    for (key, value) in table {
        let Some(rule) = rule.key(key) else { continue };
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        if rule.named_item().is_some() {
            visit(value, &path);
        } else {
            walk(value, rule, &path, visit);
        }
    }
}
