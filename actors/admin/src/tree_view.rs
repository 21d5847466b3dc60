//! `GET /v1/tree` and `/v1/tree/{path}`: the tree at present or at a past time.

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{ACCEPT, ContentType},
    web::{Data, Path, Query},
};
use orchestrator_supervise::CommandError;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    accept_header::prefers_text, api_error::ApiError, ascii, handler_context::HandlerContext,
    history::rewind, shown_state, why,
};
use orchestrator_subsystem::wire::{ErrorKind, TreeSnapshot};

/// Parameters of the query; others are ignored.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Args {
    /// Shows the tree at the last sample before this time, in milliseconds since 1970.
    at: Option<u64>,
}

/// The whole tree, or the branch at a path.
pub(crate) async fn tree(
    context: Data<HandlerContext>,
    path: Option<Path<String>>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let Some(path) = path else { return Ok(show(&snapshot(&context, &request)?, &request)) };
    let unknown = || CommandError::NotFound(path.to_string());
    let path = context.tree.resolve(&path).ok_or_else(unknown)?;
    let snapshot = snapshot(&context, &request)?;
    let root = snapshot.root.find(&path).cloned().ok_or_else(unknown)?;
    Ok(show(&TreeSnapshot { root, ..snapshot }, &request))
}

/// The present tree, or with `?at=` the tree at that time.
fn snapshot(context: &HandlerContext, request: &HttpRequest) -> Result<TreeSnapshot, ApiError> {
    let bad = |message: String| ApiError::new(ErrorKind::BadRequest, message);
    let args = Query::<Args>::from_query(request.query_string())
        .map_err(|error| bad(format!("{error}: the query may have at=MILLISECONDS, counted from 1970")))?;
    let mut snapshot = context.tree.snapshot();
    let Some(at_ms) = args.at else {
        let causes: Vec<_> = why::causes(context, &snapshot).collect();
        shown_state::fill(&mut snapshot.root, &causes);
        return Ok(snapshot);
    };
    let history = context.state.history.lock();
    let Some((at_ms, values)) = history.at(at_ms) else {
        let oldest = history.usage().oldest_ms;
        let begins = oldest.map_or_else(|| "has no sample yet".to_owned(), |ms| format!("begins at {ms}"));
        return Err(ApiError::new(
            ErrorKind::NotFound,
            format!("the history {begins}: ask for a later time"),
        ));
    };
    rewind(&mut snapshot, at_ms, &values);
    shown_state::fill(&mut snapshot.root, &[]);
    Ok(snapshot)
}

fn show(snapshot: &TreeSnapshot, request: &HttpRequest) -> HttpResponse {
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if prefers_text(accept) {
        let text = ascii::render(snapshot);
        HttpResponse::Ok().content_type(ContentType::plaintext()).body(text)
    } else {
        HttpResponse::Ok().json(snapshot)
    }
}
