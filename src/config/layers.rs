//! Reads all sources and lays them over each other.

#[cfg(test)]
mod tests;

use std::path::Path;

use config::{ConfigError, Map, Source, Value, ValueKind};

use super::{
    Sources, assignment,
    check::{self, Extent, Step},
    document,
    entries::{self, Order},
    environment,
    explain::{dotted, name_of, place},
    report::{Refusal, one_line},
    schema::Schema,
};

/// The sum of all sources, and what is wrong with them. Defaults are not in it: serde gives them.
pub(super) struct Layers<'a> {
    schema: &'a Schema,
    /// One tree each, the strongest last; checked, entries by name.
    trees: Vec<Value>,
    order: Order,
    /// What was refused so far.
    pub(super) refusals: Vec<Refusal>,
}

impl<'a> Layers<'a> {
    /// Reads files, then the environment, then `--set`.
    pub(super) fn read(sources: &Sources, schema: &'a Schema) -> Self {
        let mut layers = Self::none(schema);
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

    /// Nothing but defaults.
    fn none(schema: &'a Schema) -> Self {
        Self { schema, trees: Vec::new(), order: Order::default(), refusals: Vec::new() }
    }

    fn add_file(&mut self, file: &Path) {
        let name = one_line(file.as_os_str().as_encoded_bytes());
        // Its text is read once: a pipe (`--config <(..)`) gives it only once.
        match std::fs::read_to_string(file) {
            Ok(text) => {
                let (tree, broken) = document::read(&name, &text, self.schema);
                self.refusals.extend(broken);
                self.add(tree);
            }
            Err(error) => self.refusals.push(Refusal {
                place: name,
                key: String::new(),
                text: format!("cannot read this file: {error}"),
            }),
        }
    }

    fn add_assignment(&mut self, assignment: Result<Value, Refusal>) {
        match assignment {
            Ok(tree) => self.add(tree),
            Err(refusal) => self.refusals.push(refusal),
        }
    }

    fn add(&mut self, mut tree: Value) {
        self.refusals.extend(check::check(&mut tree, self.schema, Extent::OneSource));
        self.refusals.extend(entries::by_name(&mut tree, self.schema.root(), &mut self.order));
        self.trees.push(tree);
    }

    /// All layers in one, entries by name.
    fn merged(&self) -> Value {
        let layers = self
            .trees
            .iter()
            .fold(config::Config::builder(), |layers, tree| layers.add_source(Layer(tree.clone())));
        let merged = layers.build().expect("layers that were checked do not fail to merge").cache;
        match merged.kind {
            // Without any layer.
            ValueKind::Nil => Value::new(None, Map::<String, Value>::new()),
            _ => merged,
        }
    }

    /// All layers in one, entries as arrays, with what is missing told.
    pub(super) fn finish(mut self) -> (Value, Vec<Refusal>) {
        let mut merged = self.merged();
        entries::listed(&mut merged, self.schema.root(), &self.order);
        let missing = check::check(&mut merged, self.schema, Extent::Whole);
        // What was refused and therefore taken out is not missing.
        let told = |missing: &Refusal| self.refusals.iter().any(|refusal| refusal.key == missing.key);
        let missing: Vec<_> = missing.into_iter().filter(|missing| !told(missing)).collect();
        self.refusals.extend(missing);
        (merged, self.refusals)
    }
}

/// A tree as a source of the layering crate.
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

/// A complaint about the sum, which begins with `section.key = value`, as a refusal with the place of that key. Entries go by
/// position or by name.
pub(super) fn locate(complaint: &str, merged: &Value) -> Refusal {
    let begins = |key: &str| !key.split('.').next().unwrap_or_default().contains(char::is_whitespace);
    let Some((key, text)) = complaint.split_once(" = ").filter(|(key, _)| begins(key)) else {
        return Refusal {
            place: "the configuration".to_owned(),
            key: String::new(),
            text: complaint.to_owned(),
        };
    };
    let steps = steps(key, merged);
    Refusal { place: place(merged, &steps), key: dotted(merged, &steps), text: text.to_owned() }
}

/// The way to `key`. Names of entries and of columns may have dots of their own: of what is there, the longest is meant.
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

/// What `rest` begins with of all that is in `value`: its length there, the step, and where that leads.
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
            let placed = entries
                .iter()
                .enumerate()
                .map(|(index, entry)| (index.to_string(), Step::Index(index), entry));
            named.chain(placed).collect()
        }
        _ => return None,
    };
    let meant = all.into_iter().filter(|(name, ..)| begins(name));
    // Of an entry named "1" and the second one, the name is meant.
    let (name, step, value) = meant.rev().max_by_key(|(name, ..)| name.len())?;
    Some((name.len(), step, Some(value)))
}
