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

use orchestrator_supervise::Command;
use orchestrator_text::sanitize;
use schemars::{SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use crate::{
    api_error::ApiError,
    authentication,
    command::{command, console},
    crashes,
    event_query::EventArgs,
    events::events,
    export,
    handler_context::HandlerContext,
    health,
    history_view::{self, HistoryView},
    info::{self, Info},
    metrics::metrics,
    openapi, page,
    route_entry::{ANY, Answer, GET, Parameter, RouteEntry, STRING, TEXT, json},
    tree_view, why,
};
use orchestrator_subsystem::wire::{
    CommandArgs, CommandResponse, Crashes,
    ErrorKind::{self, BadRequest, NotFound, Refused, SlowBody, TimedOut, TooLarge, Unavailable},
    TreeSnapshot, Why,
};

/// Errors of commands, besides those of authentication.
const COMMAND_ERRORS: &[ErrorKind] =
    &[BadRequest, NotFound, SlowBody, Refused, TooLarge, Unavailable, TimedOut];
const NOT_MODIFIED: Answer = (304, "The file has not changed, by `If-None-Match`", &[]);
const CHECKED: &[Answer] =
    &[(200, "The check succeeded", &[TEXT]), (503, "Not ready, with the failed children", &[TEXT])];
const CHILD: Parameter =
    ("path", "path", "Path of a child, with or without the root's name, with slashes", STRING);
const COMMAND: Parameter = (
    "path",
    "verb",
    "The command; panic and freeze require admin.chaos",
    |_| json_schema!({ "type": "string", "enum": Command::ALL.map(Command::name) }),
);
const VERB: Parameter = (
    "path",
    "verb",
    "A verb of the child's console. Each has a path of its own in this document, with its schemas",
    STRING,
);
const LAST_EVENT: Parameter = (
    "header",
    "Last-Event-ID",
    "Number of the last received event; without it, only new events are sent",
    SchemaGenerator::subschema_for::<u64>,
);
const VERBOSE: Parameter =
    ("query", "verbose", "A line for every child; requires a token if tokens are configured", STRING);

/// All routes.
pub(crate) const ROUTES: &[RouteEntry] = &[
    RouteEntry::get("/", || web::to(page::index))
        .named("getPage", "Web console; public")
        .answers(&[(200, "The file, with an `ETag`", &[("text/html", STRING)]), NOT_MODIFIED]),
    RouteEntry::get("/ui/{file}", || web::to(page::file))
        .named("getPageFile", "File of the web console; public")
        .parameters(&[("path", "file", "Name of the file", STRING)])
        .answers(&[(200, "The file, with an `ETag`", &[("*/*", STRING)]), NOT_MODIFIED])
        .errors(&[NotFound]),
    RouteEntry::get("/v1/tree", || web::to(tree_view::tree))
        .named("getTree", "The whole tree, as JSON or, for `Accept: text/plain`, as text")
        .query::<tree_view::Args>()
        .answers(&[(200, "The tree", &[json::<TreeSnapshot>(), TEXT])])
        .errors(&[BadRequest, NotFound]),
    RouteEntry::get("/v1/tree/{path:.*}", || web::to(tree_view::tree))
        .named("getSubtree", "One child and its descendants")
        .parameters(&[CHILD])
        .query::<tree_view::Args>()
        .answers(&[(200, "The tree", &[json::<TreeSnapshot>(), TEXT])])
        .errors(&[BadRequest, NotFound]),
    RouteEntry::stream("/v1/events", || web::to(events))
        .named("getEvents", "Events of the tree, as server-sent events")
        .parameters(&[LAST_EVENT])
        .query::<EventArgs>()
        .answers(&[(
            200,
            "`id:` is the number of the event, `event:` its kind, `data:` an Event. `event: resync` has the \
             oldest and newest available number: events before were lost, so fetch the tree again.",
            &[("text/event-stream", STRING)],
        )])
        .errors(&[BadRequest, NotFound, Unavailable]),
    RouteEntry::get("/v1/history", || web::to(history_view::history))
        .named("getHistory", "Metrics of the last hour, as columns")
        .query::<history_view::Args>()
        .answers(&[(
            200,
            "Times of samples, and the values of each series at those times",
            &[json::<HistoryView>()],
        )])
        .errors(&[BadRequest, NotFound]),
    RouteEntry::get("/v1/why", || web::to(why::why))
        .named("getWhy", "For each subsystem the causes that hold up work now, the most effective first")
        .answers(&[(200, "The causes", &[json::<Why>()])]),
    RouteEntry::get("/v1/why/{path:.+}", || web::to(why::why))
        .named("getWhyOf", "The causes that hold up work in one branch")
        .parameters(&[CHILD])
        .answers(&[(200, "The causes", &[json::<Why>()])])
        .errors(&[NotFound]),
    RouteEntry::get("/v1/crashes", || web::to(crashes::crashes))
        .named("getCrashes", "Reports of panics and faults: the last 10 of each child, 4 MiB at most")
        .query::<crashes::Args>()
        .answers(&[(200, "The reports, newest first", &[json::<Crashes>()])])
        .errors(&[BadRequest, Unavailable]),
    RouteEntry::get("/v1/crashes/{path:.+}", || web::to(crashes::crashes))
        .named("getCrashesOf", "Reports of panics and faults in one branch")
        .parameters(&[CHILD])
        .query::<crashes::Args>()
        .answers(&[(200, "The reports, newest first", &[json::<Crashes>()])])
        .errors(&[BadRequest, NotFound, Unavailable]),
    RouteEntry::post(
        "/v1/actors/{path:.+}/{verb}",
        || web::to(command),
        SchemaGenerator::subschema_for::<CommandArgs>,
    )
    .named("command", "Send a command to a child; requires the role operator")
    .parameters(&[CHILD, COMMAND])
    .answers(&[
        (200, "The child has its new state", &[json::<CommandResponse>()]),
        (
            202,
            "The command was accepted, but stops the endpoint before the child has its new state",
            &[json::<CommandResponse>()],
        ),
    ])
    .errors(COMMAND_ERRORS),
    RouteEntry::post("/v1/consoles/{path:.+}/{verb}", || web::to(console), ANY)
        .named(
            "console",
            "Send a verb to a child's console; the role viewer is enough for verbs that change nothing, \
             x-effect `reads`",
        )
        .parameters(&[CHILD, VERB])
        .answers(&[(200, "Response of the child", &[("application/json", ANY)])])
        .errors(COMMAND_ERRORS),
    RouteEntry::get("/v1/info", || web::to(info::info))
        .named("getInfo", "Version, process, limits, arbiters")
        .answers(&[(200, "Description of the process", &[json::<Info>()])]),
    RouteEntry::get("/v1/config", || web::to(info::config))
        .named("getConfig", "The configuration, without secrets")
        .answers(&[(200, "Sections and keys as in the file", &[json::<Map<String, Value>>()])]),
    // After all other routes of this form.
    RouteEntry::stream("/v1/{path:.+}/{name}", || web::to(export_of_child))
        .named("getExport", "All rows of an export, however many, for a viewer")
        .parameters(export::PARAMETERS)
        .answers(&[(
            200,
            "Lines of JSON, one for each row. If reading fails, the last line is an Error, and the chunked \
             body ends without its last chunk.",
            &[(export::CONTENT_TYPE, STRING)],
        )])
        .errors(&[BadRequest, NotFound, Refused, Unavailable]),
    RouteEntry::get("/livez", || web::to(health::livez))
        .named("getLivez", "Liveness: whether the supervision loop runs")
        .answers(CHECKED),
    RouteEntry::get("/readyz", || web::to(health::readyz))
        .named("getReadyz", "Readiness: whether every child is ready")
        .parameters(&[VERBOSE])
        .answers(CHECKED),
    RouteEntry::get("/metrics", || web::to(metrics))
        .named("getMetrics", "All metrics, in the Prometheus text format 0.0.4")
        .answers(&[(200, "Samples", &[TEXT])]),
    RouteEntry::get("/openapi.json", || web::to(document)).named("getOpenapi", "This document").answers(&[(
        200,
        "OpenAPI 3.1",
        &[json::<Map<String, Value>>()],
    )]),
];

fn resource(route: &RouteEntry) -> Resource {
    let RouteEntry { pattern, methods, handler, .. } = *route;
    let other = web::to(move || async move { method_not_allowed(methods) });
    let handled = route.methods().map(|method| handler().method(method));
    handled.fold(web::resource(pattern), Resource::route).default_service(other)
}

pub(crate) fn routes(app: &mut ServiceConfig) {
    let headers = DefaultHeaders::new()
        .add(("Cache-Control", "no-store"))
        .add(("Content-Security-Policy", page::SECURITY_POLICY))
        .add(("Cross-Origin-Resource-Policy", "same-origin"))
        .add(("Referrer-Policy", "no-referrer"))
        .add(("X-Content-Type-Options", "nosniff"));
    let scope = ROUTES.iter().fold(web::scope(""), |scope, route| scope.service(resource(route)));
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
        Some(exports) => export::export(&context, exports, target, request.query_string()).await,
        None => Ok(unknown_route(request).await),
    }
}

async fn document(context: Data<HandlerContext>) -> HttpResponse {
    HttpResponse::Ok().json(openapi::document(ROUTES, &context.tree.console_verbs()))
}

async fn unknown_route(request: HttpRequest) -> HttpResponse {
    let known: Vec<_> = ROUTES.iter().map(RouteEntry::path).collect();
    let message =
        format!("unknown route `{}`: the routes are {}", sanitize(request.path()), known.join(", "));
    ApiError::new(ErrorKind::UnknownRoute, message).error_response()
}
