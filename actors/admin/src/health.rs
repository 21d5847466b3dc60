//! `GET /livez` and `/readyz`. Liveness fails only if the supervision loop is blocked, which a restart of the
//! process repairs. Readiness fails if a child is not ready.

use std::{sync::Arc, time::Duration};

use actix_web::{
    HttpMessage, HttpRequest, HttpResponse,
    http::{StatusCode, header::ContentType},
    web::Data,
};

use crate::{handler_context::HandlerContext, readiness, role::Caller};

/// Time without a heartbeat after which the root counts as blocked.
const SILENCE_MAX: Duration = Duration::from_secs(2);

pub(crate) async fn livez(context: Data<HandlerContext>) -> HttpResponse {
    let silence = context.tree.vitals("").map(|root| root.arbiter_silence()).unwrap_or_default();
    if silence < SILENCE_MAX {
        return answer(true, "ok\n".to_owned());
    }
    let ms = silence.as_millis();
    answer(
        false,
        format!(
            "failed: {}: the supervision loop has not run for {ms} ms\n",
            context.tree.snapshot().root.path
        ),
    )
}

pub(crate) async fn readyz(context: Data<HandlerContext>, request: HttpRequest) -> HttpResponse {
    // Reasons may contain addresses of peers, so only callers who may see the tree get them.
    let reasons = request.extensions().contains::<Arc<Caller>>();
    readiness_of(&context, is_verbose(request.query_string()), reasons)
}

/// As [`readyz`], for everybody: names of children that are not ready, without reasons.
pub(crate) async fn readyz_of_probe(context: Data<HandlerContext>) -> HttpResponse {
    readiness_of(&context, false, false)
}

fn readiness_of(context: &HandlerContext, verbose: bool, reasons: bool) -> HttpResponse {
    let snapshot = context.tree.snapshot();
    let children = readiness::check(&snapshot.root, &context.own_path, snapshot.captured_at_ms);
    let ready = children.iter().all(|child| child.failure.is_none());
    let shown = children.iter().filter(|child| verbose || child.failure.is_some());
    let mut text: String = shown.map(|child| child.line(reasons)).collect();
    if ready {
        text.insert_str(0, "ok\n");
    }
    answer(ready, text)
}

/// True if the query asks for a line about every child.
pub(crate) fn is_verbose(query: &str) -> bool {
    query.split('&').any(|key| key == "verbose" || key.starts_with("verbose="))
}

fn answer(ok: bool, text: String) -> HttpResponse {
    let status = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    HttpResponse::build(status).content_type(ContentType::plaintext()).body(text)
}
