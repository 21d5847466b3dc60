//! Which handler serves what, in one table. Everything that goes wrong is answered with `{"error", "message"}`.
//!
//! | Route | Answer |
//! |---|---|
//! | `GET /` | the console, a web page |
//! | `GET /ui/{file}` | its files |
//! | `GET /v1/tree` | the tree as JSON, or as text for `Accept: text/plain`; with `?at=MS` as it was then, 404 before the history begins |
//! | `GET /v1/tree/{path}` | one subtree likewise; 404 |
//! | `GET /v1/events` | server-sent events, from `Last-Event-ID` on; `?path=..&kind=..,..`; 503 when too many listen |
//! | `GET /v1/history` | metrics of the last hour as columns; `?path=..&metric=..,..&since=MS`, `below=true` with all below it, `sum=true` added up; 400, 404 |
//! | `GET /v1/why` | for each subsystem the causes that hold up work now, the most effective first |
//! | `GET /v1/why/{path}` | the same for one branch; 404 |
//! | `POST /v1/actors/{path}/{verb}` | restart, stop, start, pause, resume, and panic and freeze where chaos is allowed; `{"reason": ".."}` -> `{path, verb, before, after}`; 202 when it takes the endpoint along; 400, 404, 409, 504 |
//! | `POST /v1/consoles/{path}/{verb}` | a child's own verb; JSON arguments -> the child's answer; 400, 404, 409, 504 |
//! | `GET /v1/info` | version, process, limits, arbiters |
//! | `GET /v1/config` | the configuration, without secrets |
//! | `GET /livez` | 200 while the supervision loop ticks, else 503 |
//! | `GET /readyz` | 200 `ok`, else 503 and one line `culprit: {path}: {reason}` each, without a token `culprit: {path}`; `?verbose` has a line for every child |
//! | `GET /metrics` | Prometheus text format 0.0.4 |
//! | `GET /openapi.json` | all of this for programs |
//!
//! `{path}` is a path of the tree, with or without the root's name. Who may do what is in `gate.rs` and `steering.rs`:
//! 401 without a token that is known, 403 for a role that is too small, and for pages and names of others.

use actix_web::{
    HttpRequest, HttpResponse, Resource, ResponseError, Route,
    http::{
        Method,
        header::{ALLOW, HeaderValue},
    },
    middleware::{DefaultHeaders, from_fn},
    web::{self, ServiceConfig},
};

use orchestrator_supervise::sanitize;

use crate::{
    api_error::ApiError, command::command, console::console, events::events, gate, health, history_view,
    info, metrics::metrics, openapi, page, tree_view, why,
};
use orchestrator_subsystem::wire::ErrorKind;

/// One row: the only place where a route is made known.
pub(crate) struct Row {
    /// In the words of actix: `{name:pattern}`.
    pattern: &'static str,
    /// As in an `Allow` header.
    methods: &'static str,
    handler: fn() -> Route,
}

const GET: &str = "GET";
const POST: &str = "POST";
/// Load balancers ask with HEAD.
const PROBED: &str = "GET, HEAD";

/// All routes.
pub(crate) const TABLE: &[Row] = &[
    Row { pattern: "/", methods: GET, handler: || web::to(page::index) },
    Row { pattern: "/ui/{file}", methods: GET, handler: || web::to(page::file) },
    Row { pattern: "/v1/tree", methods: GET, handler: || web::to(tree_view::whole) },
    Row { pattern: "/v1/tree/{path:.*}", methods: GET, handler: || web::to(tree_view::part) },
    Row { pattern: "/v1/events", methods: GET, handler: || web::to(events) },
    Row { pattern: "/v1/history", methods: GET, handler: || web::to(history_view::history) },
    Row { pattern: "/v1/why", methods: GET, handler: || web::to(why::whole) },
    Row { pattern: "/v1/why/{path:.+}", methods: GET, handler: || web::to(why::part) },
    Row { pattern: "/v1/actors/{path:.+}/{verb}", methods: POST, handler: || web::to(command) },
    Row { pattern: "/v1/consoles/{path:.+}/{verb}", methods: POST, handler: || web::to(console) },
    Row { pattern: "/v1/info", methods: GET, handler: || web::to(info::info) },
    Row { pattern: "/v1/config", methods: GET, handler: || web::to(info::config) },
    Row { pattern: "/livez", methods: PROBED, handler: || web::to(health::livez) },
    Row { pattern: "/readyz", methods: PROBED, handler: || web::to(health::readyz) },
    Row { pattern: "/metrics", methods: GET, handler: || web::to(metrics) },
    Row { pattern: "/openapi.json", methods: GET, handler: || web::to(openapi::document) },
];

impl Row {
    /// The path as people write it: `/v1/tree/{path}`.
    pub(crate) fn path(&self) -> String {
        self.pattern.replace(":.*}", "}").replace(":.+}", "}")
    }

    pub(crate) fn methods(&self) -> impl Iterator<Item = Method> {
        self.methods.split(", ").filter_map(|name| name.parse().ok())
    }

    fn resource(&self) -> Resource {
        let methods = self.methods;
        let other = web::to(move || async move { only(methods) });
        let handled = self.methods().map(|method| (self.handler)().method(method));
        handled.fold(web::resource(self.pattern), Resource::route).default_service(other)
    }
}

/// Puts the routes into an application.
pub(crate) fn routes(app: &mut ServiceConfig) {
    let headers = DefaultHeaders::new()
        .add(("Cache-Control", "no-store"))
        .add(("Content-Security-Policy", page::SECURITY_POLICY))
        .add(("Cross-Origin-Resource-Policy", "same-origin"))
        .add(("Referrer-Policy", "no-referrer"))
        .add(("X-Content-Type-Options", "nosniff"));
    let scope = TABLE.iter().fold(web::scope(""), |scope, row| scope.service(row.resource()));
    app.service(scope.default_service(web::to(unknown)).wrap(from_fn(gate::check)).wrap(headers));
}

fn only(methods: &'static str) -> HttpResponse {
    let message = format!("this route answers {methods} only");
    let mut answer = ApiError::new(ErrorKind::MethodNotAllowed, message).error_response();
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}

async fn unknown(request: HttpRequest) -> HttpResponse {
    let known: Vec<_> = TABLE.iter().map(Row::path).collect();
    let message = format!("no route `{}`: there are {}", sanitize(request.path()), known.join(", "));
    ApiError::new(ErrorKind::UnknownRoute, message).error_response()
}
