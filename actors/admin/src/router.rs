//! Which handler serves what. Everything that goes wrong is answered with `{"error", "message"}`.
//!
//! | Route | Answer |
//! |---|---|
//! | `GET /v1/tree` | the tree as JSON, or as text for `Accept: text/plain` |
//! | `GET /v1/tree/{path}` | one subtree likewise; 404 |
//! | `POST /v1/actors/{path}/{verb}` | restart, stop, start, pause, resume, and panic where chaos is allowed; `{"reason": ".."}` -> `{path, verb, before, after}`; 202 when it takes the endpoint along; 400, 404, 409, 504 |
//! | `POST /v1/consoles/{path}/{verb}` | a child's own verb; JSON arguments -> the child's answer; 400, 404, 409, 504 |
//! | `GET /livez` | 200 while the supervision loop ticks, else 503 |
//! | `GET /readyz` | 200 `ok`, else 503 and one line `culprit: {path}: {reason}` each; `?verbose` has a line for every child |
//! | `GET /metrics` | Prometheus text format 0.0.4 |
//!
//! `{path}` is a path of the tree, with or without the root's name.

use actix_web::{
    HttpRequest, HttpResponse, Resource, ResponseError,
    http::header::{ALLOW, HeaderValue},
    middleware::{DefaultHeaders, from_fn},
    web::{self, ServiceConfig},
};

use crate::{
    api_error::ApiError, command::command, console::console, health, metrics::metrics, same_origin,
    tree_view, wire::ErrorKind,
};

/// Puts the routes into an application.
pub(crate) fn routes(app: &mut ServiceConfig) {
    let headers =
        DefaultHeaders::new().add(("Cache-Control", "no-store")).add(("X-Content-Type-Options", "nosniff"));
    let scope = web::scope("")
        .service(reading("/v1/tree").route(web::get().to(tree_view::whole)))
        .service(reading("/v1/tree/{path:.*}").route(web::get().to(tree_view::part)))
        .service(writing("/v1/actors/{path:.+}/{verb}").route(web::post().to(command)))
        .service(writing("/v1/consoles/{path:.+}/{verb}").route(web::post().to(console)))
        .service(probed("/livez").route(web::get().to(health::livez)).route(web::head().to(health::livez)))
        .service(probed("/readyz").route(web::get().to(health::readyz)).route(web::head().to(health::readyz)))
        .service(reading("/metrics").route(web::get().to(metrics)))
        .default_service(web::to(unknown))
        .wrap(from_fn(same_origin::check))
        .wrap(headers);
    app.service(scope);
}

fn reading(path: &str) -> Resource {
    web::resource(path).default_service(web::to(|| async { only("GET") }))
}

fn writing(path: &str) -> Resource {
    web::resource(path).default_service(web::to(|| async { only("POST") }))
}

/// Load balancers ask with HEAD.
fn probed(path: &str) -> Resource {
    web::resource(path).default_service(web::to(|| async { only("GET, HEAD") }))
}

fn only(methods: &'static str) -> HttpResponse {
    let message = format!("this route answers {methods} only");
    let mut answer = ApiError::new(ErrorKind::MethodNotAllowed, message).error_response();
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}

async fn unknown(request: HttpRequest) -> HttpResponse {
    let message = format!(
        "no route `{}`: there are /v1/tree, /v1/actors/{{path}}/{{verb}}, /v1/consoles/{{path}}/{{verb}}, /livez, \
         /readyz and /metrics",
        request.path()
    );
    ApiError::new(ErrorKind::UnknownRoute, message).error_response()
}
