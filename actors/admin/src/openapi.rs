//! The OpenAPI document: the routes with the types of their queries and answers, and the verbs of the
//! consoles with their schemas. HEAD goes without saying.

use hyper::Method;
use orchestrator_subsystem::{
    ConsoleVerb, VerbSchemas,
    wire::{ErrorBody, ErrorKind, console_url},
};
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    authentication,
    route_entry::{self, Content, RouteEntry},
};

/// Route of all verbs, whose responses each verb has.
const CONSOLE: &str = "/v1/consoles/{path}/{verb}";

/// Document of `routes` and of the verbs of each console.
pub(crate) fn document(routes: &[RouteEntry], verbs: &[(String, ConsoleVerb)]) -> Value {
    let mut parts = Parts::new();
    let mut paths = Map::new();
    for route in routes {
        let methods = route.methods().filter(|method| method != Method::HEAD);
        let operations = methods.map(|method| (method.as_str().to_lowercase(), parts.operation(route)));
        paths.insert(route.path(), operations.collect());
    }
    add_verbs(&mut paths, verbs);
    let mut schemas = parts.answers.take_definitions(true);
    schemas.extend(parts.requests.take_definitions(true));
    schemas.values_mut().for_each(leave_out_null);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "orchestrator admin endpoint",
            "version": "1",
            "description": "HTTP API of the supervision tree. Clients must ignore unknown fields. Every POST \
                            that changes something or is refused is recorded in the audit log.",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of the file that admin.tokens_file names. A viewer may send GET \
                                requests, an operator also POST requests. No token is required over the \
                                unix socket or if admin.tokens_file is not set.",
            } },
            "responses": parts.responses,
            "schemas": schemas,
        },
    })
}

/// Adds a path for each verb of each console.
fn add_verbs(paths: &mut Map<String, Value>, verbs: &[(String, ConsoleVerb)]) {
    let responses = paths[CONSOLE]["post"]["responses"].clone();
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
        paths.insert(url, json!({ "post": operation }));
    }
}

/// Parts of the document that operations refer to.
struct Parts {
    /// Errors, by their names.
    responses: Map<String, Value>,
    /// Types that the endpoint reads.
    requests: SchemaGenerator,
    /// Types that the endpoint writes.
    answers: SchemaGenerator,
}

impl Parts {
    fn new() -> Self {
        let place = |settings: &mut SchemaSettings| settings.definitions_path = "/components/schemas".into();
        let settings = SchemaSettings::draft2020_12().with(place);
        let answers = settings.clone().for_serialize().into_generator();
        Self { responses: Map::new(), requests: settings.into_generator(), answers }
    }

    fn operation(&mut self, route: &RouteEntry) -> Value {
        let path = route.path();
        let mut operation = json!({
            "operationId": route.id,
            "summary": route.summary,
            "responses": self.responses(route, &path),
        });
        let parameters = self.parameters(route);
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if let Some(body) = route.body {
            let content = content(&[("application/json", body)], &mut self.requests);
            operation["requestBody"] = json!({ "required": false, "content": content });
        }
        if authentication::is_public(&path, "") {
            operation["security"] = json!([{}, { "token": [] }]);
        }
        operation
    }

    fn parameters(&mut self, route: &RouteEntry) -> Vec<Value> {
        let mut parameters = Vec::new();
        for (location, name, description, schema) in route.parameters {
            parameters.push(json!({
                "name": name,
                "in": location,
                "required": *location == "path",
                "description": description,
                "schema": schema(&mut self.requests),
            }));
        }
        let mut query = route.query.map(|query| query(&mut self.requests).to_value()).unwrap_or_default();
        leave_out_null(&mut query);
        for (name, schema) in query["properties"].as_object_mut().into_iter().flatten() {
            let description = schema.as_object_mut().and_then(|keywords| keywords.remove("description"));
            parameters.push(json!({
                "name": name, "in": "query", "required": false, "description": description, "schema": schema,
            }));
        }
        parameters
    }

    fn responses(&mut self, route: &RouteEntry, path: &str) -> Map<String, Value> {
        let mut responses = Map::new();
        for (status, description, bodies) in route.answers {
            let mut response = json!({ "description": description });
            if !bodies.is_empty() {
                response["content"] = content(bodies, &mut self.answers);
            }
            responses.insert(status.to_string(), response);
        }
        // `/readyz?verbose` needs a token.
        let token = (!authentication::is_public(path, "verbose")).then_some(ErrorKind::Unauthorized);
        for kind in token.into_iter().chain([ErrorKind::Forbidden]).chain(route.errors.iter().copied()) {
            responses.insert(kind.status().to_string(), self.error(kind));
        }
        responses
    }

    /// Adds the response of an error, and refers to it.
    fn error(&mut self, kind: ErrorKind) -> Value {
        let content = content(&[route_entry::json::<ErrorBody>()], &mut self.answers);
        let kinds = &self.answers.definitions()["ErrorKind"]["oneOf"];
        let described = kinds.as_array().into_iter().flatten().find(|one| one["const"] == kind.name());
        let mut response = json!({
            "description": described.map(|one| &one["description"]),
            "content": content,
        });
        let header = match kind {
            ErrorKind::Unauthorized => Some(("WWW-Authenticate", "string")),
            ErrorKind::Unavailable => Some(("Retry-After", "integer")),
            _ => None,
        };
        if let Some((header, kind)) = header {
            response["headers"] = json!({ header: { "schema": { "type": kind } } });
        }
        let name = format!("{kind:?}");
        let reference = json!({ "$ref": format!("#/components/responses/{name}") });
        self.responses.insert(name, response);
        reference
    }
}

/// Removes defaults, and null as a value of the fields that may be missing: they are left out instead.
fn leave_out_null(schema: &mut Value) {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, field) in fields.into_iter().flatten() {
        let Some(keywords) = field.as_object_mut() else { continue };
        keywords.remove("default");
        if required.iter().any(|one| one == name) {
            continue;
        }
        // Of two types or choices, the second one is null.
        if let Some(kind) = keywords.get("type").and_then(|kinds| kinds.get(0)).cloned() {
            keywords.insert("type".to_owned(), kind);
        }
        let choice = keywords.remove("anyOf").and_then(|choices| choices.get(0).cloned());
        if let Some(Value::Object(choice)) = choice {
            keywords.extend(choice);
        }
    }
}

fn content(bodies: &[Content], generator: &mut SchemaGenerator) -> Value {
    bodies
        .iter()
        .map(|(media, schema)| ((*media).to_owned(), json!({ "schema": schema(generator) })))
        .collect()
}
