//! A route: path, methods and handler, and what the OpenAPI document says about it. Types say the rest.

use futures_util::future::LocalBoxFuture;
use hyper::Method;
use orchestrator_subsystem::wire::ErrorKind;
use percent_encoding::percent_decode_str;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::request::{Reply, Request};

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

/// Function that answers the requests of a route.
pub(crate) type Handler = fn(Request) -> LocalBoxFuture<'static, Reply>;

/// A route.
pub(crate) struct RouteEntry {
    /// Path with parameters: `{name}` is one segment, `{name:.+}` one or more. `{name:.*}` may also be empty.
    pub(crate) pattern: &'static str,
    /// Allowed methods, as in an `Allow` header.
    pub(crate) methods: &'static str,
    pub(crate) handler: Handler,
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
    pub(crate) const fn get(pattern: &'static str, handler: Handler) -> Self {
        let (parameters, answers, errors): (&[_], &[_], &[_]) = (&[], &[], &[]);
        let (id, summary, query, body) = ("", "", None, None);
        Self { pattern, methods: GET, handler, id, summary, parameters, query, body, answers, errors }
    }

    /// Creates a route of answers that may have no end.
    pub(crate) const fn stream(pattern: &'static str, handler: Handler) -> Self {
        Self { methods: "GET", ..Self::get(pattern, handler) }
    }

    pub(crate) const fn post(pattern: &'static str, handler: Handler, body: SchemaOf) -> Self {
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

    /// Decoded values of the parameters, if the pattern matches `path`. A parameter that it lacks is empty.
    pub(crate) fn parameters_of(&self, path: &str) -> Option<[String; 2]> {
        let Some((start, pattern)) = self.pattern.split_once('{') else {
            return (path == self.pattern).then(Default::default);
        };
        let rest = path.strip_prefix(start)?;
        let (first, second) = if pattern.contains("}/{") {
            rest.rsplit_once('/').filter(|(_, second)| !second.is_empty())?
        } else {
            (rest, "")
        };
        let may_be_empty = pattern.contains(":.*");
        let may_have_slashes = may_be_empty || pattern.contains(":.+");
        let matches = (may_be_empty || !first.is_empty()) && (may_have_slashes || !first.contains('/'));
        let decoded = |value| percent_decode_str(value).decode_utf8_lossy().into_owned();
        matches.then(|| [first, second].map(decoded))
    }

    pub(crate) fn allows(&self, method: &Method) -> bool {
        self.methods().any(|allowed| allowed == *method)
    }

    pub(crate) fn methods(&self) -> impl Iterator<Item = Method> {
        self.methods.split(", ").filter_map(|name| name.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_one_segment_or_more() {
        let values = |pattern, path| {
            let route = RouteEntry::get(pattern, |_| Box::pin(std::future::pending()));
            route.parameters_of(path).map(|[first, second]| format!("{first}|{second}"))
        };
        for (pattern, path, expected) in [
            ("/v1/tree", "/v1/tree", Some("|")),
            ("/v1/tree", "/v1/tree/", None),
            ("/v1/tree/{path:.*}", "/v1/tree/", Some("|")),
            ("/v1/tree/{path:.*}", "/v1/tree/a//b%2Fc%ff", Some("a//b/c\u{fffd}|")),
            ("/v1/tree/{path:.*}", "/v1/trees", None),
            ("/v1/why/{path:.+}", "/v1/why/", None),
            ("/v1/why/{path:.+}", "/v1/why/a/b", Some("a/b|")),
            ("/ui/{file}", "/ui/a%20b", Some("a b|")),
            ("/ui/{file}", "/ui/a/b", None),
            ("/ui/{file}", "/ui/", None),
            ("/v1/{path:.+}/{name}", "/v1/a/b/c", Some("a/b|c")),
            ("/v1/{path:.+}/{name}", "/v1/a", None),
            ("/v1/{path:.+}/{name}", "/v1/a/", None),
            ("/v1/{path:.+}/{name}", "/v1//a", None),
        ] {
            assert_eq!(values(pattern, path).as_deref(), expected, "{pattern} {path}");
        }
    }
}
