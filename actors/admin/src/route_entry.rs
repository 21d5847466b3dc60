//! A route: path, methods and handler, and what the OpenAPI document says about it. Types say the rest.

use actix_web::{Route, http::Method};
use orchestrator_subsystem::wire::ErrorKind;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Function that returns a schema, or a reference to one that it adds to the generator.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;
/// Media type and schema of a body.
pub(crate) type Content = (&'static str, SchemaOf);
/// Parameter that no type of a query has: `path`, `query` or `header`, then name, description and schema.
pub(crate) type Parameter = (&'static str, &'static str, &'static str, SchemaOf);
/// Status, description and body of a response that is no error.
pub(crate) type Answer = (u16, &'static str, &'static [Content]);

pub(crate) const STRING: SchemaOf = SchemaGenerator::subschema_for::<String>;
pub(crate) const TEXT: Content = ("text/plain", STRING);
pub(crate) const ANY: SchemaOf = |_| Schema::default();

/// Methods of what can be read. Monitors and load balancers use HEAD.
pub(crate) const GET: &str = "GET, HEAD";

/// A route.
pub(crate) struct RouteEntry {
    /// Path in actix syntax: `{name:pattern}`.
    pub(crate) pattern: &'static str,
    /// Allowed methods, as in an `Allow` header.
    pub(crate) methods: &'static str,
    pub(crate) handler: fn() -> Route,
    /// Id of the operation, which names the functions of generated clients.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) query: Option<SchemaOf>,
    pub(crate) body: Option<SchemaOf>,
    pub(crate) answers: &'static [Answer],
    /// Errors besides those of authentication.
    pub(crate) errors: &'static [ErrorKind],
}

/// Creates the content of a JSON body of type `T`.
pub(crate) const fn json<T: JsonSchema>() -> Content {
    ("application/json", SchemaGenerator::subschema_for::<T>)
}

impl RouteEntry {
    pub(crate) const fn get(pattern: &'static str, handler: fn() -> Route) -> Self {
        let (parameters, answers, errors): (&[_], &[_], &[_]) = (&[], &[], &[]);
        let (id, summary, query, body) = ("", "", None, None);
        Self { pattern, methods: GET, handler, id, summary, parameters, query, body, answers, errors }
    }

    /// Creates a route of answers that may have no end.
    pub(crate) const fn stream(pattern: &'static str, handler: fn() -> Route) -> Self {
        Self { methods: "GET", ..Self::get(pattern, handler) }
    }

    pub(crate) const fn post(pattern: &'static str, handler: fn() -> Route, body: SchemaOf) -> Self {
        Self { methods: "POST", body: Some(body), ..Self::get(pattern, handler) }
    }

    pub(crate) const fn named(self, id: &'static str, summary: &'static str) -> Self {
        Self { id, summary, ..self }
    }

    pub(crate) const fn parameters(self, parameters: &'static [Parameter]) -> Self {
        Self { parameters, ..self }
    }

    pub(crate) const fn query<T: JsonSchema>(self) -> Self {
        Self { query: Some(T::json_schema), ..self }
    }

    pub(crate) const fn answers(self, answers: &'static [Answer]) -> Self {
        Self { answers, ..self }
    }

    pub(crate) const fn errors(self, errors: &'static [ErrorKind]) -> Self {
        Self { errors, ..self }
    }

    /// In OpenAPI syntax: `/v1/tree/{path}`.
    pub(crate) fn path(&self) -> String {
        self.pattern.replace(":.*}", "}").replace(":.+}", "}")
    }

    pub(crate) fn methods(&self) -> impl Iterator<Item = Method> {
        self.methods.split(", ").filter_map(|name| name.parse().ok())
    }
}
