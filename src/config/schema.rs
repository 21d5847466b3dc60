//! The JSON schema of the configuration, generated from the section types.

use schemars::{
    Schema as Generated, SchemaGenerator, generate::SchemaSettings, transform::RecursiveTransform,
};
use serde_json::{Map, Value, json};

use super::program::ProgramConfig;
use crate::subsystems::SUBSYSTEMS;

/// A JSON Schema, draft 2020-12.
#[derive(Debug)]
pub(crate) struct Schema(Value);

impl Schema {
    /// Generates the schema of a configuration file.
    pub(crate) fn whole() -> Self {
        let mut generator = generator();
        let mut document = generator.root_schema_for::<ProgramConfig>().to_value();
        for subsystem in SUBSYSTEMS {
            document["properties"][subsystem.name()] = subsystem.schema(&mut generator).to_value();
        }
        Self(document)
    }

    /// Generates the schema of `T`.
    #[cfg(test)]
    pub(super) fn of<T: schemars::JsonSchema>() -> Self {
        Self(generator().into_root_schema_for::<T>().to_value())
    }

    /// Rule of the whole configuration.
    pub(crate) fn root(&self) -> Rule<'_> {
        Rule(&self.0)
    }
}

fn generator() -> SchemaGenerator {
    // Inlined, so that `Rule::key` has no references to resolve.
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .with_transform(RecursiveTransform(fit_toml));
    settings.into_generator()
}

impl std::fmt::Display for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

/// Kind of a key's values, from the keyword `format`. It decides which values are refused, and which are
/// shown in an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueFormat {
    /// `address`: a URL, a connection string, or a host. A password in it is an error.
    Address,
    /// `webhook`: an address whose path is hidden, too.
    Webhook,
    /// `secret`: always hidden. The keys of a table are shown.
    Secret,
    /// `header`: `Name: value`. The value is always hidden.
    Header,
    /// `command`: a program and its arguments. Possible passwords in them are hidden.
    Command,
}

/// The part of the schema for one key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule<'a>(&'a Value);

impl<'a> Rule<'a> {
    /// Creates the rule of a subschema.
    pub(super) fn new(schema: &'a Value) -> Self {
        Self(schema)
    }

    pub(crate) fn key(self, name: &str) -> Option<Self> {
        self.0.get("properties")?.get(name).map(Rule)
    }

    pub(crate) fn keys(self) -> impl Iterator<Item = &'a str> {
        let keys = self.0.get("properties").and_then(Value::as_object);
        keys.into_iter().flat_map(Map::keys).map(String::as_str)
    }

    /// Rule of the entries of this array.
    pub(crate) fn item(self) -> Option<Self> {
        self.0.get("items").map(Rule)
    }

    /// Rule of the entries if they are tables with a `name`.
    pub(crate) fn named_item(self) -> Option<Self> {
        self.item().filter(|item| item.key("name").is_some())
    }

    /// True for a table with free keys and values of any type, such as the columns that a catalog's rule
    /// writes.
    pub(crate) fn is_free(self) -> bool {
        self.has_type("object")
            && self.0.get("additionalProperties").is_some_and(|rest| *rest != json!(false))
    }

    /// Format of the values, or of those of a list or a table with free keys. None: they need no redaction.
    pub(crate) fn value_format(self) -> Option<ValueFormat> {
        let inner = ["items", "additionalProperties"].iter().filter_map(|keyword| self.keyword(keyword));
        let mut formats = [self.0].into_iter().chain(inner).filter_map(|schema| schema.get("format"));
        match formats.next()?.as_str()? {
            "address" => Some(ValueFormat::Address),
            "webhook" => Some(ValueFormat::Webhook),
            "secret" => Some(ValueFormat::Secret),
            "header" => Some(ValueFormat::Header),
            "command" => Some(ValueFormat::Command),
            // Formats of numbers, such as `uint32`.
            _ => None,
        }
    }

    /// Collects the rules of all keys called `name` in this table and in nested tables.
    pub(crate) fn rules_of(self, name: &str, found: &mut Vec<Self>) {
        found.extend(self.key(name));
        let inner = self.keys().filter_map(|key| self.key(key)).chain(self.item());
        inner.into_iter().for_each(|rule| rule.rules_of(name, found));
    }

    /// True if this key, or a key in a nested table, has values that need redaction.
    pub(crate) fn needs_redaction(self) -> bool {
        let rules = self.keys().filter_map(|key| self.key(key)).chain(self.item());
        self.value_format().is_some() || rules.into_iter().any(Rule::needs_redaction)
    }

    /// Allowed words, if the schema lists them.
    pub(crate) fn choice(self) -> Option<&'a Value> {
        self.keyword("enum")
    }

    pub(crate) fn keyword(self, keyword: &str) -> Option<&'a Value> {
        self.0.get(keyword)
    }

    /// Type of JSON Schema. None: any type.
    pub(crate) fn kind(self) -> Option<&'a str> {
        self.keyword("type")?.as_str()
    }

    /// `kind` is a type of JSON Schema.
    pub(crate) fn has_type(self, kind: &str) -> bool {
        self.kind() == Some(kind)
    }
}

/// Adapts a schema that schemars generated for JSON to TOML and to the types that serde accepts.
fn fit_toml(schema: &mut Generated) {
    let Some(schema) = schema.as_object_mut() else { return };
    remove_null(schema);
    merge_words(schema);
    bound_integer(schema);
}

/// Removes null from a schema, since TOML has no null.
fn remove_null(schema: &mut Map<String, Value>) {
    let null = json!("null");
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| *kind != null);
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(any)) = schema.get("anyOf") {
        let left: Vec<_> = any.iter().filter(|one| one.get("type") != Some(&null)).cloned().collect();
        if let [Value::Object(only)] = left.as_slice() {
            schema.remove("anyOf");
            for (keyword, value) in only {
                // The description of the key wins over that of its type.
                schema.entry(keyword).or_insert_with(|| value.clone());
            }
        }
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
}

/// Replaces a list of schemas with one word each by a list of words, which an error message can show.
fn merge_words(schema: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = schema.get("oneOf") else { return };
    // Words without a description are already in one list.
    let words: Option<Vec<Vec<Value>>> = choices
        .iter()
        .map(|one| match (one.get("const"), one.get("enum")) {
            (Some(word), _) => Some(vec![word.clone()]),
            (None, Some(Value::Array(words))) => Some(words.clone()),
            _ => None,
        })
        .collect();
    let Some(words) = words.map(|words| words.concat()) else { return };
    if !words.iter().all(Value::is_string) {
        return;
    }
    let lines = choices.iter().filter_map(|one| {
        Some(format!("- {}: {}", one.get("const")?.as_str()?, one.get("description")?.as_str()?))
    });
    let own = schema.get("description").and_then(Value::as_str).map(str::to_owned);
    let description = own.into_iter().chain(lines).collect::<Vec<_>>().join("\n");
    schema.remove("oneOf");
    schema.insert("type".to_owned(), json!("string"));
    schema.insert("enum".to_owned(), Value::Array(words));
    if !description.is_empty() {
        schema.insert("description".to_owned(), json!(description));
    }
}

/// Adds the bounds of the Rust type, which schemars leaves to `format`, so that the schema rejects what serde
/// would.
fn bound_integer(schema: &mut Map<String, Value>) {
    let (least, greatest) = match schema.get("format").and_then(Value::as_str) {
        Some("uint32") => (0, u32::MAX.into()),
        Some("uint64" | "uint") => (0, i64::MAX),
        Some("int32") => (i32::MIN.into(), i32::MAX.into()),
        Some("int64" | "int") => (i64::MIN, i64::MAX),
        _ => return,
    };
    schema.entry("minimum").or_insert(json!(least));
    schema.entry("maximum").or_insert(json!(greatest));
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;

    use super::*;

    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct TestConfig {
        /// Own words.
        choice: Option<Choice>,
        number: Option<u64>,
        texts: Vec<String>,
        free: std::collections::BTreeMap<String, Value>,
    }

    /// A choice.
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Choice {
        /// The one.
        One,
        Other,
    }

    #[test]
    fn schemas_are_adapted_to_toml() {
        let schema = Schema::of::<TestConfig>();
        let rule = |key: &str| schema.root().key(key).unwrap();
        assert_eq!(rule("choice").0["description"], "Own words.\n- One: The one.");
        assert_eq!(rule("choice").choice(), Some(&json!(["Other", "One"])));
        assert!(rule("choice").has_type("string") && rule("number").has_type("integer"));
        assert_eq!(rule("number").keyword("maximum"), Some(&json!(i64::MAX)));
        assert!(rule("texts").item().unwrap().has_type("string") && rule("texts").named_item().is_none());
        assert!(rule("free").is_free() && !schema.root().is_free());
        assert!(!schema.to_string().contains("null"), "{schema}");
    }
}
