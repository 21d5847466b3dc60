//! The one schema that every source is checked against, generated from the section types.

use schemars::{
    Schema as Generated, SchemaGenerator, generate::SchemaSettings, transform::RecursiveTransform,
};
use serde_json::{Map, Value, json};

use super::ProgramConfig;
use crate::subsystems::SUBSYSTEMS;

/// A JSON Schema, draft 2020-12, and what it can be asked.
#[derive(Debug)]
pub(crate) struct Schema(Value);

impl Schema {
    /// The schema of a configuration file.
    pub(crate) fn whole() -> Self {
        let mut generator = generator();
        let mut document = generator.root_schema_for::<ProgramConfig>().to_value();
        for subsystem in SUBSYSTEMS {
            document["properties"][subsystem.name()] = subsystem.schema(&mut generator).to_value();
        }
        Self(document)
    }

    /// The schema of `T`.
    #[cfg(test)]
    pub(super) fn of<T: schemars::JsonSchema>() -> Self {
        Self(generator().into_root_schema_for::<T>().to_value())
    }

    /// What it says about the configuration as a whole.
    pub(crate) fn root(&self) -> Rule<'_> {
        Rule(&self.0)
    }
}

fn generator() -> SchemaGenerator {
    // Inlined: whoever follows a key through it needs to resolve nothing.
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

/// Kind of a key's values, as the keyword `format` says it. It decides where they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// `address`: a url, a connection string, or a host. Refused with a password in it.
    Address,
    /// `secret`: shown nowhere; of a table, the names are shown.
    Secret,
    /// `header`: `Name: value`; the value is shown nowhere.
    Header,
    /// `command`: a program and its arguments. What looks like a password in them is hidden.
    Command,
}

/// What the schema says about one key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule<'a>(&'a Value);

impl<'a> Rule<'a> {
    /// The rule that this part of a schema states.
    pub(super) fn new(schema: &'a Value) -> Self {
        Self(schema)
    }

    /// The rule of the key `name` in this table.
    pub(crate) fn key(self, name: &str) -> Option<Self> {
        self.0.get("properties")?.get(name).map(Rule)
    }

    /// The keys that this table may have.
    pub(crate) fn keys(self) -> impl Iterator<Item = &'a str> {
        let keys = self.0.get("properties").and_then(Value::as_object);
        keys.into_iter().flat_map(Map::keys).map(String::as_str)
    }

    /// The rule of the entries of this array.
    pub(crate) fn item(self) -> Option<Self> {
        self.0.get("items").map(Rule)
    }

    /// The rule of the entries, if they are tables that bear a `name`.
    pub(crate) fn named_item(self) -> Option<Self> {
        self.item().filter(|item| item.key("name").is_some())
    }

    /// Is this a table that may have any keys, with values of any kind? The columns of a rule are such.
    pub(crate) fn is_free(self) -> bool {
        self.wants("object") && self.0.get("additionalProperties").is_some_and(|rest| *rest != json!(false))
    }

    /// Kind of its values, if that decides where they are shown.
    pub(crate) fn mark(self) -> Option<Mark> {
        match self.says("format")?.as_str()? {
            "address" => Some(Mark::Address),
            "secret" => Some(Mark::Secret),
            "header" => Some(Mark::Header),
            "command" => Some(Mark::Command),
            // `uint32` and its like.
            _ => None,
        }
    }

    /// Gathers the rules of all keys named `name` in this table and in tables within it.
    pub(crate) fn rules_of(self, name: &str, found: &mut Vec<Self>) {
        found.extend(self.key(name));
        let inner = self.keys().filter_map(|key| self.key(key)).chain(self.item());
        inner.into_iter().for_each(|rule| rule.rules_of(name, found));
    }

    /// Has a key in this table, or in tables within it, values that are not shown as they are?
    pub(crate) fn holds_marks(self) -> bool {
        let rules = self.keys().filter_map(|key| self.key(key)).chain(self.item());
        self.mark().is_some() || rules.into_iter().any(Rule::holds_marks)
    }

    /// The words that are allowed here, if only some are.
    pub(crate) fn choice(self) -> Option<&'a Value> {
        self.says("enum")
    }

    /// The value of one of its keywords.
    pub(crate) fn says(self, keyword: &str) -> Option<&'a Value> {
        self.0.get(keyword)
    }

    /// Is `kind`, a type of JSON Schema, what is expected here?
    pub(crate) fn wants(self, kind: &str) -> bool {
        self.0.get("type").is_some_and(|wanted| wanted == kind)
    }
}

/// Says in plain words what serde takes from TOML, where schemars says it for JSON.
fn fit_toml(schema: &mut Generated) {
    let Some(schema) = schema.as_object_mut() else { return };
    without_null(schema);
    plain_choice(schema);
    only_choice(schema);
    bound_integer(schema);
}

/// TOML has no null: what is optional is left out.
fn without_null(schema: &mut Map<String, Value>) {
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
                // The key's own description is nearer than its type's.
                schema.entry(keyword).or_insert_with(|| value.clone());
            }
        }
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
}

/// A list of words instead of a list of schemas with one word each: an error can then name them.
fn plain_choice(schema: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = schema.get("oneOf") else { return };
    // Words without a description of their own come as one list.
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

/// The one alternative that there is, in its place: a table whose `kind` has one word so far.
fn only_choice(schema: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = schema.get("oneOf") else { return };
    if let [Value::Object(only)] = choices.as_slice() {
        let only = only.clone();
        schema.remove("oneOf");
        for (keyword, value) in only {
            schema.entry(keyword).or_insert(value);
        }
    }
}

/// The bounds of the Rust type, which schemars leaves to `format`: a number that serde would refuse is out of range.
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
    #[expect(dead_code, reason = "only its schema counts")]
    struct Toy {
        /// Own words.
        choice: Option<Choice>,
        number: Option<u64>,
        texts: Vec<String>,
        tagged: Tagged,
        free: std::collections::BTreeMap<String, Value>,
    }

    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields, tag = "kind", rename_all = "snake_case")]
    #[expect(dead_code, reason = "only its schema counts")]
    enum Tagged {
        Actor { name: String },
    }

    /// A choice.
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema counts")]
    enum Choice {
        /// The one.
        One,
        Other,
    }

    #[test]
    fn what_schemars_says_for_json_is_said_for_toml() {
        let schema = Schema::of::<Toy>();
        let rule = |key: &str| schema.root().key(key).unwrap();
        assert_eq!(rule("choice").0["description"], "Own words.\n- One: The one.");
        assert_eq!(rule("choice").choice(), Some(&json!(["Other", "One"])));
        assert!(rule("choice").wants("string") && rule("number").wants("integer"));
        assert_eq!(rule("number").says("maximum"), Some(&json!(i64::MAX)));
        assert!(rule("texts").item().unwrap().wants("string") && rule("texts").named_item().is_none());
        assert!(rule("tagged").key("name").unwrap().wants("string"), "its only kind needs no choice");
        assert!(rule("free").is_free() && !rule("tagged").is_free() && !schema.root().is_free());
        assert!(!schema.to_string().contains("null"), "{schema}");
    }
}
