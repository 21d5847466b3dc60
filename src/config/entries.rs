//! Arrays of tables that bear a `name`: layers and variables tell their entries apart by it, not by position. Entries may have
//! such arrays in their turn: `catalog.lab.rule.convert`.

use std::collections::BTreeMap;

use config::{Map, Value, ValueKind};

use super::{explain::name_of, report::Refusal, schema::Rule};

/// The order in which the entries of inner arrays came, by the path of the array: that of streams means something, and a
/// table does not keep it.
#[derive(Debug, Default)]
pub(super) struct Order(BTreeMap<String, Vec<String>>);

impl Order {
    fn saw(&mut self, path: &str, name: &str) {
        let names = self.0.entry(path.to_owned()).or_default();
        if !names.iter().any(|other| other == name) {
            names.push(name.to_owned());
        }
    }

    fn of(&self, path: &str, name: &str) -> usize {
        let names = self.0.get(path);
        names.and_then(|names| names.iter().position(|other| other == name)).unwrap_or(usize::MAX)
    }
}

/// Turns every array of named tables in `tree` into a table by name, so that layers merge entry by entry. An entry whose
/// name another one has is left out and told.
pub(super) fn by_name(tree: &mut Value, rule: Rule<'_>, order: &mut Order) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    name_all(tree, rule, &At::default(), order, &mut refusals);
    refusals
}

/// How far it is.
#[derive(Default)]
struct At {
    path: String,
    /// Within an entry.
    inner: bool,
}

impl At {
    fn key(&self, key: &str) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Self { path, inner: self.inner }
    }

    fn entry(&self, name: &str) -> Self {
        Self { inner: true, ..self.key(name) }
    }
}

fn name_all(tree: &mut Value, rule: Rule<'_>, at: &At, order: &mut Order, refusals: &mut Vec<Refusal>) {
    let ValueKind::Table(table) = &mut tree.kind else { return };
    for (key, value) in table {
        let Some(rule) = rule.key(key) else { continue };
        let at = at.key(key);
        match (rule.named_item(), &mut value.kind) {
            (Some(item), ValueKind::Array(entries)) => {
                let entries = std::mem::take(entries);
                value.kind = ValueKind::Table(named(entries, item, &at, order, refusals));
            }
            (Some(_), _) => {}
            (None, _) => name_all(value, rule, &at, order, refusals),
        }
    }
}

fn named(
    entries: Vec<Value>,
    item: Rule<'_>,
    at: &At,
    order: &mut Order,
    refusals: &mut Vec<Refusal>,
) -> Map<String, Value> {
    let mut named = Map::new();
    for mut entry in entries {
        let Some(name) = name_of(Some(&entry)) else { continue };
        if named.contains_key(&name) {
            refusals.push(Refusal {
                place: entry.origin().unwrap_or_default().to_owned(),
                key: at.path.clone(),
                text: format!("another entry is named {name:?}; give each a name of its own"),
            });
            continue;
        }
        if at.inner {
            order.saw(&at.path, &name);
        }
        name_all(&mut entry, item, &at.entry(&name), order, refusals);
        named.insert(name, entry);
    }
    named
}

/// Undoes [`by_name`]: arrays again; sections in the order of names, what is within them in the order in which it came.
pub(super) fn listed(tree: &mut Value, rule: Rule<'_>, order: &Order) {
    list_all(tree, rule, &At::default(), order);
}

fn list_all(tree: &mut Value, rule: Rule<'_>, at: &At, order: &Order) {
    let ValueKind::Table(table) = &mut tree.kind else { return };
    for (key, value) in table {
        let Some(rule) = rule.key(key) else { continue };
        let at = at.key(key);
        let (Some(item), ValueKind::Table(named)) = (rule.named_item(), &mut value.kind) else {
            list_all(value, rule, &at, order);
            continue;
        };
        let mut entries: Vec<_> = std::mem::take(named).into_iter().collect();
        entries.sort_by_cached_key(|(name, _)| (order.of(&at.path, name), name.clone()));
        let list = |(name, mut entry): (String, Value)| {
            list_all(&mut entry, item, &at.entry(&name), order);
            entry
        };
        value.kind = ValueKind::Array(entries.into_iter().map(list).collect());
    }
}
