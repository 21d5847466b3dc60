//! `GET /openapi.json`: the OpenAPI document. Its routes are written by hand, and a test compares them with
//! `router.rs`; HEAD goes without saying. The verbs of the consoles come from their declarations.

use actix_web::{HttpResponse, web::Data};
use orchestrator_subsystem::wire::console_url;
use orchestrator_supervise::{ConsoleVerb, VerbSchemas};
use serde_json::{Value, json};

use crate::handler_context::HandlerContext;

const DOCUMENT: &str = include_str!("../openapi.json");
/// Route of all verbs, whose responses each verb has.
const CONSOLE: &str = "/v1/consoles/{path}/{verb}";

pub(crate) async fn document(context: Data<HandlerContext>) -> HttpResponse {
    let verbs = context.tree.console_verbs();
    match serde_json::from_str(DOCUMENT) {
        Ok(document) => HttpResponse::Ok().json(with_verbs(document, &verbs)),
        Err(error) => HttpResponse::InternalServerError().body(error.to_string()),
    }
}

/// Adds a path for each verb of each console.
fn with_verbs(mut document: Value, verbs: &[(String, ConsoleVerb)]) -> Value {
    let responses = document["paths"][CONSOLE]["post"]["responses"].clone();
    for (path, verb) in verbs {
        let (url, VerbSchemas { arguments, answer }) = (console_url(path, verb.name()), verb.schemas());
        let description = arguments["description"].as_str().unwrap_or_default();
        let mut responses = responses.clone();
        responses["200"]["content"]["application/json"]["schema"] = answer;
        let operation = json!({
            "operationId": format!("console_{path}_{}", verb.name()),
            "summary": description.lines().next().unwrap_or_default(),
            "description": description,
            "x-effect": verb.effect(),
            "requestBody": { "content": { "application/json": { "schema": arguments } } },
            "responses": responses,
        });
        document["paths"][url] = json!({ "post": operation });
    }
    document
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use actix_web::http::Method;
    use orchestrator_supervise::Command;
    use serde_json::Value;

    use super::DOCUMENT;
    use crate::router::ROUTES;
    use orchestrator_subsystem::wire::ErrorKind;

    fn document() -> Value {
        serde_json::from_str(DOCUMENT).expect("JSON")
    }

    fn operations(document: &Value) -> Vec<(String, String, &Value)> {
        let paths = document["paths"].as_object().expect("paths");
        let all = paths.iter().flat_map(|(path, item)| {
            let verbs = item.as_object().expect("an item").iter().filter(|(key, _)| *key != "parameters");
            verbs.map(move |(verb, operation)| (verb.to_uppercase(), path.clone(), operation))
        });
        all.collect()
    }

    #[test]
    fn the_document_has_the_routes_and_no_others() {
        let document = document();
        let written: BTreeSet<_> =
            operations(&document).into_iter().map(|(verb, path, _)| format!("{verb} {path}")).collect();
        let served: BTreeSet<_> = ROUTES
            .iter()
            .flat_map(|row| {
                let methods = row.methods().filter(|method| method != Method::HEAD);
                methods.map(|method| format!("{method} {}", row.path())).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(written, served);
        assert_eq!(document["openapi"], "3.1.0");
    }

    #[test]
    fn every_operation_documents_its_responses_and_authentication() {
        let document = document();
        let mut ids = BTreeSet::new();
        for (verb, path, operation) in operations(&document) {
            let operation_name = format!("{verb} {path}");
            let responses = operation["responses"]
                .as_object()
                .unwrap_or_else(|| panic!("{operation_name}: no responses"));
            assert!(responses.contains_key("200"), "{operation_name}");
            let open = operation["security"].as_array().is_some_and(|security| {
                security.iter().any(|one| one.as_object().is_some_and(serde_json::Map::is_empty))
            });
            let page = crate::page::is_public(&path);
            assert_eq!(
                open,
                page || path == "/livez" || path == "/readyz",
                "{operation_name}: authentication"
            );
            assert_eq!(responses.contains_key("401"), !page && path != "/livez", "{operation_name}");
            assert!(responses.contains_key("403"), "{operation_name}");
            assert!(
                ids.insert(operation["operationId"].as_str().expect("an id").to_owned()),
                "{operation_name}"
            );
            let item = &document["paths"][&path];
            let named: Vec<&str> = [&item["parameters"], &operation["parameters"]]
                .iter()
                .filter_map(|list| list.as_array())
                .flatten()
                .filter(|parameter| parameter["in"] == "path")
                .filter_map(|parameter| parameter["name"].as_str())
                .collect();
            let expected: Vec<&str> =
                path.split('{').skip(1).filter_map(|part| part.split('}').next()).collect();
            assert_eq!(named, expected, "{operation_name}");
        }
    }

    #[test]
    fn the_document_has_the_verbs_of_the_tree() {
        let document = document();
        let parameters = &document["paths"]["/v1/actors/{path}/{verb}"]["parameters"];
        let named = |parameter: &&Value| parameter["name"] == "verb";
        let verb = parameters.as_array().and_then(|list| list.iter().find(named)).expect("a verb");
        let written: Vec<_> =
            verb["schema"]["enum"].as_array().expect("verbs").iter().map(Value::as_str).collect();
        let served: Vec<_> = Command::ALL.into_iter().map(|verb| Some(verb.name())).collect();
        assert_eq!(written, served);
    }

    #[test]
    fn a_tree_has_the_fields_of_its_snapshot() {
        const SNAPSHOTS: &str = include_str!("../../supervise/src/snapshot.rs");
        let document = document();
        let node = "Node/properties/";
        for (snapshot, schema) in [
            ("Tree", "Tree"),
            ("Node", "Node"),
            ("Exit", &format!("{node}last_exit")),
            ("Mailbox", &format!("{node}mailboxes/items")),
            ("Message", &format!("{node}mailboxes/items/properties/messages/items")),
            ("InProgress", &format!("{node}in_progress")),
            ("Wait", &format!("{node}waits/items")),
            ("Link", &format!("{node}link")),
            ("Note", &format!("{node}note")),
            ("Blocker", &format!("{node}blocker")),
            ("Work", "Work"),
            ("ExpectedInput", &format!("{node}expected_inputs/items")),
            ("Metric", &format!("{node}metrics/items")),
            ("Label", &format!("{node}metrics/items/properties/label")),
            ("Timing", &format!("{node}timings/items")),
        ] {
            let (_, body) = SNAPSHOTS.split_once(&format!("pub struct {snapshot}Snapshot {{")).expect("it");
            let (body, _) = body.split_once("\n}").expect("its end");
            let shown = body
                .split("pub ")
                .skip(1)
                .zip(body.split("pub "))
                .filter(|(_, before)| !before.contains("#[serde(skip)]"));
            let fields: BTreeSet<_> = shown.filter_map(|(field, _)| field.split(':').next()).collect();
            let properties = document.pointer(&format!("/components/schemas/{schema}/properties"));
            let properties = properties.and_then(Value::as_object).expect("properties");
            assert_eq!(properties.keys().map(String::as_str).collect::<BTreeSet<_>>(), fields, "{snapshot}");
        }
    }

    #[test]
    fn references_resolve_and_error_kinds_exist() {
        let document = document();
        fn visit(value: &Value, document: &Value) {
            if let Some(reference) = value["$ref"].as_str() {
                let pointer = reference.strip_prefix('#').expect("of this document");
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
            match value {
                Value::Array(list) => list.iter().for_each(|item| visit(item, document)),
                Value::Object(map) => map.values().for_each(|item| visit(item, document)),
                _ => {}
            }
        }
        visit(&document, &document);
        let kinds = document.pointer("/components/schemas/Error/properties/error/enum").expect("kinds");
        for kind in kinds.as_array().expect("a list") {
            let read: ErrorKind = serde_json::from_value(kind.clone()).expect("a kind");
            assert!(read != ErrorKind::Unknown && kind == read.name(), "{kind}");
        }
        assert_eq!(kinds.as_array().map(Vec::len), Some(11));
    }
}
