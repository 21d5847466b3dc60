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
//! | `GET /v1/why?item=NAME` | where a job, row or mapping is, and what it waits for |
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

use std::sync::Arc;

use hyper::{
    StatusCode,
    body::Incoming,
    header::{ALLOW, HeaderValue},
};
use orchestrator_supervise::Command;
use orchestrator_text::sanitize;
use schemars::{SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use crate::{
    api_error::ApiError,
    authentication,
    command::{command, console},
    connection_limit::{Admission, is_probe},
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
    peer::Peer,
    request::{Reply, Request},
    response::{self, Response},
    route_entry::{ANY, Answer, Parameter, RouteEntry, STRING, SchemaOf, TEXT, json},
    tree_view, why, why_item,
};
use orchestrator_subsystem::{
    Console, Exports, WhyItem,
    wire::{
        CommandArgs, CommandResponse, Crashes,
        ErrorKind::{self, BadRequest, NotFound, Refused, SlowBody, TimedOut, TooLarge, Unavailable},
        TreeSnapshot, Why,
    },
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

const CAUSES_OR_ITEM: SchemaOf = |generator| {
    let (causes, item) = (generator.subschema_for::<Why>(), generator.subschema_for::<WhyItem>());
    json_schema!({ "anyOf": [causes, item] })
};

/// All routes.
pub(crate) const ROUTES: &[RouteEntry] = &[
    RouteEntry::get("/", |request| Box::pin(page::index(request)))
        .named("getPage", "Web console; public")
        .answers(&[(200, "The file, with an `ETag`", &[("text/html", STRING)]), NOT_MODIFIED]),
    RouteEntry::get("/ui/{file}", |request| Box::pin(page::file(request)))
        .named("getPageFile", "File of the web console; public")
        .parameters(&[("path", "file", "Name of the file", STRING)])
        .answers(&[(200, "The file, with an `ETag`", &[("*/*", STRING)]), NOT_MODIFIED])
        .errors(&[NotFound]),
    RouteEntry::get("/v1/tree", |request| Box::pin(tree_view::tree(request)))
        .named("getTree", "The whole tree, as JSON or, for `Accept: text/plain`, as text")
        .query::<tree_view::Args>()
        .answers(&[(200, "The tree", &[json::<TreeSnapshot>(), TEXT])])
        .errors(&[BadRequest, NotFound]),
    RouteEntry::get("/v1/tree/{path:.*}", |request| Box::pin(tree_view::tree(request)))
        .named("getSubtree", "One child and its descendants")
        .parameters(&[CHILD])
        .query::<tree_view::Args>()
        .answers(&[(200, "The tree", &[json::<TreeSnapshot>(), TEXT])])
        .errors(&[BadRequest, NotFound]),
    RouteEntry::stream("/v1/events", |request| Box::pin(events(request)))
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
    RouteEntry::get("/v1/history", |request| Box::pin(history_view::history(request)))
        .named("getHistory", "Metrics of the last hour, as columns")
        .query::<history_view::Args>()
        .answers(&[(
            200,
            "Times of samples, and the values of each series at those times",
            &[json::<HistoryView>()],
        )])
        .errors(&[BadRequest, NotFound]),
    RouteEntry::get("/v1/why", |request| Box::pin(why_item::why_all(request)))
        .named(
            "getWhy",
            "For each subsystem the causes that hold up work now, the most effective first; with `item`, where \
             that item is, what it waits for, and when it is worked on",
        )
        .query::<why_item::Args>()
        .answers(&[(200, "The causes, or the item", &[("application/json", CAUSES_OR_ITEM)])])
        .errors(&[BadRequest]),
    RouteEntry::get("/v1/why/{path:.+}", |request| Box::pin(why::why(request)))
        .named("getWhyOf", "The causes that hold up work in one branch")
        .parameters(&[CHILD])
        .answers(&[(200, "The causes", &[json::<Why>()])])
        .errors(&[NotFound]),
    RouteEntry::get("/v1/crashes", |request| Box::pin(crashes::crashes(request)))
        .named("getCrashes", "Reports of panics and faults: the last 10 of each child, 4 MiB at most")
        .query::<crashes::Args>()
        .answers(&[(200, "The reports, newest first", &[json::<Crashes>()])])
        .errors(&[BadRequest, Unavailable]),
    RouteEntry::get("/v1/crashes/{path:.+}", |request| Box::pin(crashes::crashes(request)))
        .named("getCrashesOf", "Reports of panics and faults in one branch")
        .parameters(&[CHILD])
        .query::<crashes::Args>()
        .answers(&[(200, "The reports, newest first", &[json::<Crashes>()])])
        .errors(&[BadRequest, NotFound, Unavailable]),
    RouteEntry::post(
        "/v1/actors/{path:.+}/{verb}",
        |request| Box::pin(command(request)),
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
    RouteEntry::post("/v1/consoles/{path:.+}/{verb}", |request| Box::pin(console(request)), ANY)
        .named(
            "console",
            "Send a verb to a child's console; the role viewer is enough for verbs that change nothing, \
             x-effect `reads`",
        )
        .parameters(&[CHILD, VERB])
        .answers(&[(200, "Response of the child", &[("application/json", ANY)])])
        .errors(COMMAND_ERRORS),
    RouteEntry::get("/v1/info", |request| Box::pin(info::info(request)))
        .named("getInfo", "Version, process, limits, arbiters")
        .answers(&[(200, "Description of the process", &[json::<Info>()])]),
    RouteEntry::get("/v1/config", |request| Box::pin(info::config(request)))
        .named("getConfig", "The configuration, without secrets")
        .answers(&[(200, "Sections and keys as in the file", &[json::<Map<String, Value>>()])]),
    // After all other routes of this form.
    RouteEntry::stream("/v1/{path:.+}/{name}", |request| Box::pin(export_of_child(request)))
        .named("getExport", "All rows of an export, however many, for a viewer")
        .parameters(export::PARAMETERS)
        .answers(&[(
            200,
            "Lines of JSON, one for each row. If reading fails, the last line is an Error, and the chunked \
             body ends without its last chunk.",
            &[(export::CONTENT_TYPE, STRING)],
        )])
        .errors(&[BadRequest, NotFound, Refused, Unavailable]),
    RouteEntry::get("/livez", |request| Box::pin(health::livez(request)))
        .named("getLivez", "Liveness: whether the supervision loop runs")
        .answers(CHECKED),
    RouteEntry::get("/readyz", |request| Box::pin(health::readyz(request)))
        .named("getReadyz", "Readiness: whether every child is ready")
        .parameters(&[VERBOSE])
        .answers(CHECKED),
    RouteEntry::get("/metrics", |request| Box::pin(metrics(request)))
        .named("getMetrics", "All metrics, in the Prometheus text format 0.0.4")
        .answers(&[(200, "Samples", &[TEXT])]),
    RouteEntry::get("/openapi.json", |request| Box::pin(document(request)))
        .named("getOpenapi", "This document")
        .answers(&[(200, "OpenAPI 3.1", &[json::<Map<String, Value>>()])]),
];

/// Routes of the socket of the probes. They need no token and have no reasons.
const PROBES: &[RouteEntry] = &[
    RouteEntry::get("/livez", |request| Box::pin(health::livez(request))),
    RouteEntry::get("/readyz", |request| Box::pin(health::readyz_of_probe(request))),
    RouteEntry::get("/metrics", |request| Box::pin(metrics(request))),
];

/// Headers of responses that have no others of these names; the first two also of probes.
const HEADERS: &[(&str, &str)] = &[
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", page::SECURITY_POLICY),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
];

/// Routes of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    All,
    /// `/livez`, `/readyz` and `/metrics`, for everybody.
    Probes,
}

impl Served {
    fn routes(self) -> &'static [RouteEntry] {
        match self {
            Self::All => ROUTES,
            Self::Probes => PROBES,
        }
    }

    fn unknown_route(self, path: &str) -> ApiError {
        let message = match self {
            Self::All => {
                let known: Vec<_> = ROUTES.iter().map(RouteEntry::path).collect();
                format!("unknown route `{}`: the routes are {}", sanitize(path), known.join(", "))
            }
            Self::Probes => "this address serves only /livez, /readyz and /metrics".to_owned(),
        };
        ApiError::new(ErrorKind::UnknownRoute, message)
    }

    fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::All => HEADERS,
            Self::Probes => &HEADERS[..2],
        }
    }
}

/// Answers a request of `peer`.
pub(crate) async fn answer(
    context: &Arc<HandlerContext>,
    peer: Peer,
    admission: &Admission,
    served: Served,
    request: hyper::Request<Incoming>,
) -> Response {
    let (head, body) = request.into_parts();
    let request =
        Request { context: context.clone(), caller: None, parameters: Default::default(), head, body };
    let answered = match served {
        Served::All => answer_caller(request, peer, admission).await,
        Served::Probes => dispatch(served, request).await,
    };
    let mut response = answered.unwrap_or_else(|error| error.response());
    for (name, value) in served.headers() {
        response.headers_mut().entry(*name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Answers a request once there is room for it and its caller is known.
async fn answer_caller(mut request: Request, peer: Peer, admission: &Admission) -> Reply {
    if !is_probe(request.path()) && !admission.admit().await {
        return Ok(ApiError::busy("all connections but those for probes are in use: try again later"));
    }
    request.caller = authentication::check(&request.context, peer, &request.head)?;
    dispatch(Served::All, request).await
}

/// Answers a request by the first route that has its path.
async fn dispatch(served: Served, mut request: Request) -> Reply {
    for route in served.routes() {
        let Some(parameters) = route.parameters_of(request.path()) else { continue };
        if !route.allows(&request.head.method) {
            return Ok(method_not_allowed(route.methods));
        }
        request.parameters = parameters;
        return (route.handler)(request).await;
    }
    Err(served.unknown_route(request.path()))
}

fn method_not_allowed(methods: &'static str) -> Response {
    let message = format!("this route allows only {methods}");
    let mut answer = ApiError::new(ErrorKind::MethodNotAllowed, message).response();
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}

async fn export_of_child(request: Request) -> Reply {
    match request.context.tree.attached::<Exports>(&request.parameters[0]) {
        Some(exports) => export::export(&request, &exports).await,
        None => Err(Served::All.unknown_route(request.path())),
    }
}

async fn document(request: Request) -> Reply {
    let document = openapi::document(ROUTES, &Console::all_verbs(&request.context.tree));
    Ok(response::json(StatusCode::OK, &document))
}
