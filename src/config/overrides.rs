//! `--set section.key=value` over a configuration that comes from no file: that of a drop-in.
//!
//! The replaced program's own values, such as an address with a password, are taken as they are; only the
//! assignments are checked.

use anyhow::Result;
use config::{Map, Value, ValueKind};
use serde_json::Value as Json;

use super::{
    Config, InvalidConfig, assignment, check, layers, layers::Layers, report::Diagnostic, schema::Schema,
};

/// Position of a value that an assignment left unchanged.
const ORIGINAL: &str = "the replaced program's configuration";

impl Config {
    /// Applies assignments, in order.
    ///
    /// # Errors
    /// An assignment is invalid, or belongs to a subsystem that does not run here. The text has one line for
    /// each error.
    pub(crate) fn with_assignments(self, sets: &[String]) -> Result<Self> {
        if sets.is_empty() {
            return Ok(self);
        }
        let schema = Schema::whole();
        let known = self.check_semantics();
        let mut layers = Layers::over(from_json(&self.to_json()), &schema);
        for set in sets {
            let below = layers.merged();
            layers.add_assignment(assignment::from_set(set, &schema, &below));
        }
        let (merged, mut diagnostics) = layers.finish_unchecked();
        let mut config = Self { admin_binding: self.admin_binding, ..Self::default() };
        match Self::from_json(check::to_json(&merged, Some(schema.root()))) {
            Ok(valid) => config = Self { admin_binding: self.admin_binding, ..valid },
            Err(error) => diagnostics.push(layers::locate(&error.to_string(), &merged)),
        }
        diagnostics.extend(self.foreign_sections(&config, &merged));
        let semantic = config.check_semantics().into_iter().filter(|text| !known.contains(text));
        diagnostics.extend(semantic.map(|text| layers::locate(&text, &merged)));
        InvalidConfig::unless_empty(diagnostics)?;
        Ok(config)
    }

    /// An error for each section that an assignment added.
    fn foreign_sections(&self, changed: &Self, merged: &Value) -> Vec<Diagnostic> {
        let own: Vec<_> = self.sections.iter().map(|section| section.name()).collect();
        let foreign = changed.sections.iter().filter(|section| !own.contains(&section.name()));
        let diagnostic = |name: &str| {
            let text = format!("this command runs {} only", own.join(", "));
            layers::locate(&format!("{name} = {text}"), merged)
        };
        foreign.map(|section| diagnostic(section.name())).collect()
    }
}

/// Converts JSON to a tree of values without positions of their own.
pub(super) fn from_json(json: &Json) -> Value {
    let kind = match json {
        Json::Null => ValueKind::Nil,
        Json::Bool(flag) => ValueKind::Boolean(*flag),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => ValueKind::I64(integer),
            (None, float) => ValueKind::Float(float.unwrap_or(f64::NAN)),
        },
        Json::String(text) => ValueKind::String(text.clone()),
        Json::Array(entries) => ValueKind::Array(entries.iter().map(from_json).collect()),
        Json::Object(table) => ValueKind::Table(
            table.iter().map(|(key, value)| (key.clone(), from_json(value))).collect::<Map<_, _>>(),
        ),
    };
    Value::new(Some(&ORIGINAL.to_owned()), kind)
}
