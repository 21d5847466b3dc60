//! The table of routes. Every error response has the body `{"error", "message"}`. `GET /openapi.json` has
//! parameters, statuses and schemas.
//!
//! | Route | Response |
//! |---|---|
//! | `GET /`, `GET /ui/{file}` | the web console |
//! | `GET /v1/tree`, `GET /v1/tree/{path}` | the tree or a branch, now or `?at=MS`, as JSON or text |
//! | `GET /v1/events` | server-sent events, from `Last-Event-ID` on |
//! | `GET /v1/history` | metrics of the last hour as columns |
//! | `GET /v1/why`, `GET /v1/why/{path}` | causes that hold up work, the most effective first |
//! | `GET /v1/crashes`, `GET /v1/crashes/{path}` | reports of panics and faults, newest first |
//! | `POST /v1/actors/{path}/{verb}` | restart, stop, start, pause, resume; `admin.chaos`: panic, freeze |
//! | `POST /v1/consoles/{path}/{verb}` | a command of the child's console; JSON arguments -> JSON |
//! | `GET /v1/{path}/{name}` | an export of a child as lines of JSON, `/v1/provenance/locations` |
//! | `GET /v1/info` | version, process, limits, arbiters |
//! | `GET /v1/config` | the configuration, without secrets |
//! | `GET /livez` | 200 while the supervision loop runs, else 503 |
//! | `GET /readyz` | 200, else 503 and a line for each child that is not ready, see `readiness.rs` |
//! | `GET /metrics` | Prometheus text format 0.0.4 |
//! | `GET /openapi.json` | the OpenAPI document |
//!
//! `{path}` is a path of the tree, with or without the root's name. `authentication.rs` and
//! `command_executor.rs` check the caller: 401 without a known token, 403 if the role does not allow the
//! request, or for a `Host` or `Origin` of another site, or a POST with the `Sec-Fetch-Site` of one. 503 if
//! too many requests are in progress for 5 s; probes (`/livez`, `/readyz`, `/metrics`) have a reserve.

use actix_web::{
    HttpRequest, HttpResponse, Resource, ResponseError, Route,
    http::{
        Method,
        header::{ALLOW, HeaderValue},
    },
    middleware::{DefaultHeaders, from_fn},
    web::{self, Data, Path, ServiceConfig},
};

use orchestrator_text::sanitize;

use crate::{
    api_error::ApiError,
    authentication,
    command::{command, console},
    crashes,
    events::events,
    export::export,
    handler_context::HandlerContext,
    health, history_view, info,
    metrics::metrics,
    openapi, page, tree_view, why,
};
use orchestrator_subsystem::wire::ErrorKind;

/// A route.
pub(crate) struct RouteEntry {
    /// Path in actix syntax: `{name:pattern}`.
    pattern: &'static str,
    /// Allowed methods, as in an `Allow` header.
    methods: &'static str,
    handler: fn() -> Route,
}

/// Methods of what can be read. Monitors and load balancers use HEAD.
const GET: &str = "GET, HEAD";
/// Method of answers that may have no end.
const GET_STREAM: &str = "GET";
const POST: &str = "POST";

/// All routes.
pub(crate) const ROUTES: &[RouteEntry] = &[
    RouteEntry { pattern: "/", methods: GET, handler: || web::to(page::index) },
    RouteEntry { pattern: "/ui/{file}", methods: GET, handler: || web::to(page::file) },
    RouteEntry { pattern: "/v1/tree", methods: GET, handler: || web::to(tree_view::tree) },
    RouteEntry { pattern: "/v1/tree/{path:.*}", methods: GET, handler: || web::to(tree_view::tree) },
    RouteEntry { pattern: "/v1/events", methods: GET_STREAM, handler: || web::to(events) },
    RouteEntry { pattern: "/v1/history", methods: GET, handler: || web::to(history_view::history) },
    RouteEntry { pattern: "/v1/why", methods: GET, handler: || web::to(why::why) },
    RouteEntry { pattern: "/v1/why/{path:.+}", methods: GET, handler: || web::to(why::why) },
    RouteEntry { pattern: "/v1/crashes", methods: GET, handler: || web::to(crashes::crashes) },
    RouteEntry { pattern: "/v1/crashes/{path:.+}", methods: GET, handler: || web::to(crashes::crashes) },
    RouteEntry { pattern: "/v1/actors/{path:.+}/{verb}", methods: POST, handler: || web::to(command) },
    RouteEntry { pattern: "/v1/consoles/{path:.+}/{verb}", methods: POST, handler: || web::to(console) },
    RouteEntry { pattern: "/v1/info", methods: GET, handler: || web::to(info::info) },
    RouteEntry { pattern: "/v1/config", methods: GET, handler: || web::to(info::config) },
    // After all other routes of this form.
    RouteEntry { pattern: "/v1/{path:.+}/{name}", methods: GET_STREAM, handler: || web::to(export_of_child) },
    RouteEntry { pattern: "/livez", methods: GET, handler: || web::to(health::livez) },
    RouteEntry { pattern: "/readyz", methods: GET, handler: || web::to(health::readyz) },
    RouteEntry { pattern: "/metrics", methods: GET, handler: || web::to(metrics) },
    RouteEntry { pattern: "/openapi.json", methods: GET, handler: || web::to(openapi::document) },
];

impl RouteEntry {
    /// In OpenAPI syntax: `/v1/tree/{path}`.
    pub(crate) fn path(&self) -> String {
        self.pattern.replace(":.*}", "}").replace(":.+}", "}")
    }

    pub(crate) fn methods(&self) -> impl Iterator<Item = Method> {
        self.methods.split(", ").filter_map(|name| name.parse().ok())
    }

    fn resource(&self) -> Resource {
        let methods = self.methods;
        let other = web::to(move || async move { method_not_allowed(methods) });
        let handled = self.methods().map(|method| (self.handler)().method(method));
        handled.fold(web::resource(self.pattern), Resource::route).default_service(other)
    }
}

pub(crate) fn routes(app: &mut ServiceConfig) {
    let headers = DefaultHeaders::new()
        .add(("Cache-Control", "no-store"))
        .add(("Content-Security-Policy", page::SECURITY_POLICY))
        .add(("Cross-Origin-Resource-Policy", "same-origin"))
        .add(("Referrer-Policy", "no-referrer"))
        .add(("X-Content-Type-Options", "nosniff"));
    let scope = ROUTES.iter().fold(web::scope(""), |scope, route| scope.service(route.resource()));
    app.service(
        scope.default_service(web::to(unknown_route)).wrap(from_fn(authentication::check)).wrap(headers),
    );
}

/// Adds the routes of the probes alone. They need no token and have no reasons.
pub(crate) fn probe_routes(app: &mut ServiceConfig) {
    let headers =
        DefaultHeaders::new().add(("Cache-Control", "no-store")).add(("X-Content-Type-Options", "nosniff"));
    let resource = |pattern: &str, handler: fn() -> Route| {
        let other = web::to(|| async { method_not_allowed(GET) });
        web::resource(pattern)
            .route(handler().method(Method::GET))
            .route(handler().method(Method::HEAD))
            .default_service(other)
    };
    app.service(
        web::scope("")
            .service(resource("/livez", || web::to(health::livez)))
            .service(resource("/readyz", || web::to(health::readyz_of_probe)))
            .service(resource("/metrics", || web::to(metrics)))
            .default_service(web::to(async || {
                let message = "this address serves only /livez, /readyz and /metrics";
                ApiError::new(ErrorKind::UnknownRoute, message).error_response()
            }))
            .wrap(from_fn(authentication::mark_served))
            .wrap(headers),
    );
}

fn method_not_allowed(methods: &'static str) -> HttpResponse {
    let message = format!("this route allows only {methods}");
    let mut answer = ApiError::new(ErrorKind::MethodNotAllowed, message).error_response();
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}

async fn export_of_child(
    context: Data<HandlerContext>,
    request: HttpRequest,
    target: Path<(String, String)>,
) -> Result<HttpResponse, ApiError> {
    let target = target.into_inner();
    match context.tree.exports(&target.0) {
        Some(exports) => export(&context, exports, target, request.query_string()).await,
        None => Ok(unknown_route(request).await),
    }
}

async fn unknown_route(request: HttpRequest) -> HttpResponse {
    let known: Vec<_> = ROUTES.iter().map(RouteEntry::path).collect();
    let message =
        format!("unknown route `{}`: the routes are {}", sanitize(request.path()), known.join(", "));
    ApiError::new(ErrorKind::UnknownRoute, message).error_response()
}
