//! `GET /livez` and `/readyz`. Liveness fails only if the supervision loop is blocked, which a restart of the
//! process repairs. Readiness fails if a child is not ready.

use std::time::Duration;

use hyper::StatusCode;

use crate::{
    handler_context::HandlerContext,
    readiness,
    request::{Reply, Request},
    response::{Response, text},
};

/// Time without a heartbeat after which the root counts as blocked.
const SILENCE_MAX: Duration = Duration::from_secs(2);

pub(crate) async fn livez(request: Request) -> Reply {
    let tree = &request.context.tree;
    let silence = tree.child("").map(|root| root.arbiter_silence()).unwrap_or_default();
    if silence < SILENCE_MAX {
        return Ok(answer(true, "ok\n".to_owned()));
    }
    let ms = silence.as_millis();
    let root = tree.snapshot().root.path;
    Ok(answer(false, format!("failed: {root}: the supervision loop has not run for {ms} ms\n")))
}

pub(crate) async fn readyz(request: Request) -> Reply {
    // Reasons may contain addresses of peers, so only callers who may see the tree get them.
    Ok(readiness_of(&request.context, is_verbose(request.query_text()), request.caller.is_some()))
}

/// As [`readyz`], for everybody: names of children that are not ready, without reasons.
pub(crate) async fn readyz_of_probe(request: Request) -> Reply {
    Ok(readiness_of(&request.context, false, false))
}

fn readiness_of(context: &HandlerContext, verbose: bool, reasons: bool) -> Response {
    let snapshot = context.tree.snapshot();
    let children = readiness::check(&snapshot.root, &context.own_path, snapshot.captured_at_ms);
    let ready = children.iter().all(|child| child.failure.is_none());
    let shown = children.iter().filter(|child| verbose || child.failure.is_some());
    let mut lines: String = shown.map(|child| child.line(reasons)).collect();
    if ready {
        lines.insert_str(0, "ok\n");
    }
    answer(ready, lines)
}

/// True if the query asks for a line about every child.
pub(crate) fn is_verbose(query: &str) -> bool {
    query.split('&').any(|key| key == "verbose" || key.starts_with("verbose="))
}

fn answer(ok: bool, lines: String) -> Response {
    text(if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, lines)
}
