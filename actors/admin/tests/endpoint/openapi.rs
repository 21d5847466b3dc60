//! `GET /openapi.json`: a golden file of the document, and answers of the endpoint against their schemas.

use std::{collections::BTreeSet, fs, path::Path};

use orchestrator_subsystem::wire::ErrorKind;
use serde_json::{Value, json};

use crate::{crashes::panic_in_handler, site};

/// Longest line of the golden file that holds more than one value.
const WIDTH: usize = 180;

/// Formats JSON with objects and arrays that fit into a line on one line.
fn pretty(value: &Value, depth: usize) -> String {
    let line = value.to_string();
    let parts: Vec<String> = match value {
        _ if depth + line.len() <= WIDTH => return line,
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| format!("{}: {}", json!(name), pretty(value, depth + 1)))
            .collect(),
        Value::Array(list) => list.iter().map(|value| pretty(value, depth + 1)).collect(),
        _ => return line,
    };
    let indent = " ".repeat(depth);
    let parts: Vec<String> = parts.iter().map(|part| format!("{indent} {part}")).collect();
    format!("{}\n{}\n{indent}{}", &line[..1], parts.join(",\n"), &line[line.len() - 1..])
}

/// Names of the fields that `schema` knows, if `value` is as it says.
fn matching<'a>(document: &'a Value, schema: &'a Value, value: &Value) -> Option<BTreeSet<&'a str>> {
    let is_of = |kind: &Value| match kind.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("null") => value.is_null(),
        other => panic!("unknown type {other:?}"),
    };
    let kinds: &[Value] = match &schema["type"] {
        Value::Null => &[],
        Value::Array(kinds) => kinds.as_slice(),
        kind => std::slice::from_ref(kind),
    };
    let constant = schema.get("const").is_none_or(|constant| constant == value);
    let listed = schema["enum"].as_array().is_none_or(|values| values.contains(value));
    let complete = list(&schema["required"]).iter().all(|name| value.get(name.as_str().unwrap()).is_some());
    if !(constant && listed && complete && (kinds.is_empty() || kinds.iter().any(is_of))) {
        return None;
    }
    let mut known = BTreeSet::new();
    if let Some(reference) = schema["$ref"].as_str() {
        known.extend(matching(document, document.pointer(&reference[1..])?, value)?);
    }
    for choice in ["anyOf", "oneOf"] {
        let choices = list(&schema[choice]);
        if !choices.is_empty() {
            known.extend(choices.iter().find_map(|one| matching(document, one, value))?);
        }
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        known.insert(name.as_str());
        value.get(name).is_none_or(|value| is_complete(document, field, value)).then_some(())?;
    }
    let of_items = schema.get("items");
    let items =
        list(value).iter().all(|item| of_items.is_none_or(|schema| is_complete(document, schema, item)));
    items.then_some(known)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// True if `value` is as `schema` says, and has no other fields.
fn is_complete(document: &Value, schema: &Value, value: &Value) -> bool {
    let is_known = |known: BTreeSet<&str>| {
        value.as_object().is_none_or(|fields| fields.keys().all(|name| known.contains(name.as_str())))
    };
    matching(document, schema, value).is_some_and(is_known)
}

/// `UPDATE_GOLDEN=1 cargo test -p orchestrator-admin --test endpoint openapi` writes the file anew.
#[test]
fn the_document_is_that_of_the_golden_file() {
    site::run(|site| async move {
        let mut document = site.get("/openapi.json").await.json();
        let paths = document["paths"].as_object_mut().unwrap();
        paths.retain(|url, _| !url.starts_with("/v1/consoles/test/"));
        let text = pretty(&document, 0) + "\n";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi.golden.json");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap();
        assert!(golden == text, "other than {}; UPDATE_GOLDEN=1 rewrites it:\n{text}", path.display());
    });
}

#[test]
fn answers_have_no_fields_but_those_of_their_schemas() {
    site::run(|site| async move {
        panic_in_handler(&site).await;
        site::wait_for("a sample", async || {
            let history = site.get("/v1/history?path=demo/store").await.json();
            (history["at_ms"] != json!([])).then_some(())
        })
        .await;
        let document = site.get("/openapi.json").await.json();
        let command = site.post("/v1/actors/demo/source/pause", r#"{"until": "1h"}"#).await;
        let answers = [
            ("CommandAnswer", command),
            ("Tree", site.get("/v1/tree").await),
            ("Crashes", site.get("/v1/crashes").await),
            ("Why", site.get("/v1/why").await),
            ("History", site.get("/v1/history?path=demo&below=true").await),
            ("Info", site.get("/v1/info").await),
            ("Error", site.get("/v1/tree/missing").await),
        ];
        for (name, answer) in answers {
            let answer = answer.json();
            let schema = &document["components"]["schemas"][name];
            assert!(is_complete(&document, schema, &answer), "{name}: {schema:#} {answer:#}");
            // The comparison finds a field too few and a field too many.
            let mut fields =
                schema["required"].as_array().unwrap().iter().map(|field| field.as_str().unwrap());
            let (mut less, mut more) = (answer.clone(), answer);
            less.as_object_mut().unwrap().remove(fields.next().unwrap());
            more["unknown"] = json!(1);
            assert!(
                !is_complete(&document, schema, &less) && !is_complete(&document, schema, &more),
                "{name}"
            );
        }
    });
}

#[test]
fn the_document_is_consistent() {
    fn visit(value: &Value, document: &Value) {
        if let Some(reference) = value["$ref"].as_str() {
            assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
        }
        match value {
            Value::Array(list) => list.iter().for_each(|item| visit(item, document)),
            Value::Object(map) => map.values().for_each(|item| visit(item, document)),
            _ => {}
        }
    }
    site::run(|site| async move {
        let document = site.get("/openapi.json").await.json();
        visit(&document, &document);
        let mut ids = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for operation in item.as_object().unwrap().values() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(!id.is_empty() && ids.insert(id), "{path}: {id}");
                let parameters = list(&operation["parameters"]).iter();
                let named: Vec<_> = parameters
                    .filter(|parameter| parameter["in"] == "path")
                    .filter_map(|parameter| parameter["name"].as_str())
                    .collect();
                let expected: Vec<_> =
                    path.split('{').skip(1).filter_map(|part| part.split('}').next()).collect();
                assert_eq!(named, expected, "{path}");
                assert!(operation["responses"]["200"].is_object(), "{path}");
            }
        }
        let kinds = list(&document["components"]["schemas"]["ErrorKind"]["oneOf"]);
        for kind in kinds.iter().map(|kind| &kind["const"]) {
            let read: ErrorKind = serde_json::from_value(kind.clone()).unwrap();
            assert!(read != ErrorKind::Unknown && kind == read.name(), "{kind}");
        }
        assert_eq!(kinds.len(), 11);
    });
}
