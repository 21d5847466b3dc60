//! Arrays of tables with a `name`. Layers and variables identify an entry by its name, not by its index. Such
//! arrays may be nested: `catalog.lab.rule.convert`.

use std::collections::BTreeMap;

use config::{Map, Value, ValueKind};

use super::{report::Diagnostic, schema::Rule, value_path::name_of};

/// Order of the entries of nested arrays, by the path of the array. A table does not keep the order, which
/// matters for streams.
#[derive(Debug, Default)]
pub(super) struct EntryOrder(BTreeMap<String, Vec<String>>);

impl EntryOrder {
    fn record(&mut self, path: &str, name: &str) {
        let names = self.0.entry(path.to_owned()).or_default();
        if !names.iter().any(|other| other == name) {
            names.push(name.to_owned());
        }
    }

    fn index(&self, path: &str, name: &str) -> usize {
        let names = self.0.get(path);
        names.and_then(|names| names.iter().position(|other| other == name)).unwrap_or(usize::MAX)
    }
}

/// Converts every array of named tables in `tree` into a table by name, so that layers merge entry by entry.
/// An entry with a duplicate name is left out and reported.
pub(super) fn to_tables(tree: &mut Value, rule: Rule<'_>, order: &mut EntryOrder) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    convert_to_tables(tree, rule, &TreeCursor::default(), order, &mut diagnostics);
    diagnostics
}

/// Position in the tree.
#[derive(Default)]
struct TreeCursor {
    path: String,
    /// True inside an entry.
    in_entry: bool,
}

impl TreeCursor {
    fn key(&self, key: &str) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Self { path, in_entry: self.in_entry }
    }

    fn entry(&self, name: &str) -> Self {
        Self { in_entry: true, ..self.key(name) }
    }
}

fn convert_to_tables(
    tree: &mut Value,
    rule: Rule<'_>,
    at: &TreeCursor,
    order: &mut EntryOrder,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let ValueKind::Table(table) = &mut tree.kind else { return };
    for (key, value) in table {
        let Some(rule) = rule.key(key) else { continue };
        let at = at.key(key);
        match (rule.named_item(), &mut value.kind) {
            (Some(item), ValueKind::Array(entries)) => {
                let entries = std::mem::take(entries);
                value.kind = ValueKind::Table(table_of(entries, item, &at, order, diagnostics));
            }
            (Some(_), _) => {}
            (None, _) => convert_to_tables(value, rule, &at, order, diagnostics),
        }
    }
}

fn table_of(
    entries: Vec<Value>,
    item: Rule<'_>,
    at: &TreeCursor,
    order: &mut EntryOrder,
    diagnostics: &mut Vec<Diagnostic>,
) -> Map<String, Value> {
    let mut named = Map::new();
    for mut entry in entries {
        let Some(name) = name_of(Some(&entry)) else { continue };
        if named.contains_key(&name) {
            diagnostics.push(Diagnostic {
                position: entry.origin().unwrap_or_default().to_owned(),
                key: at.path.clone(),
                text: format!("another entry has the name {name:?}; names must be unique"),
            });
            continue;
        }
        if at.in_entry {
            order.record(&at.path, &name);
        }
        convert_to_tables(&mut entry, item, &at.entry(&name), order, diagnostics);
        named.insert(name, entry);
    }
    named
}

/// Converts the tables of [`to_tables`] back into arrays. Sections are sorted by name; nested entries keep
/// the order of the sources.
pub(super) fn to_arrays(tree: &mut Value, rule: Rule<'_>, order: &EntryOrder) {
    convert_to_arrays(tree, rule, &TreeCursor::default(), order);
}

fn convert_to_arrays(tree: &mut Value, rule: Rule<'_>, at: &TreeCursor, order: &EntryOrder) {
    let ValueKind::Table(table) = &mut tree.kind else { return };
    for (key, value) in table {
        let Some(rule) = rule.key(key) else { continue };
        let at = at.key(key);
        let (Some(item), ValueKind::Table(named)) = (rule.named_item(), &mut value.kind) else {
            convert_to_arrays(value, rule, &at, order);
            continue;
        };
        let mut entries: Vec<_> = std::mem::take(named).into_iter().collect();
        entries.sort_by_cached_key(|(name, _)| (order.index(&at.path, name), name.clone()));
        let list = |(name, mut entry): (String, Value)| {
            convert_to_arrays(&mut entry, item, &at.entry(&name), order);
            entry
        };
        value.kind = ValueKind::Array(entries.into_iter().map(list).collect());
    }
}
