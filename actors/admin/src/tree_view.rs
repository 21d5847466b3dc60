//! `GET /v1/tree` and `/v1/tree/{path}`, as it stands or as it was.

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{ACCEPT, ContentType},
    web::{Data, Path, Query},
};
use orchestrator_supervise::CommandError;

use crate::{
    accept::prefers_text,
    access::Access,
    api_error::ApiError,
    ascii::{self, Ages},
    history::rewind,
};
use orchestrator_subsystem::wire::{ErrorKind, TreeSnapshot};

/// The query's keys; others are passed over, as they always were.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Args {
    at: Option<u64>,
}

pub(crate) async fn whole(access: Data<Access>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    Ok(show(&snapshot(&access, &request)?, &request))
}

pub(crate) async fn part(
    access: Data<Access>,
    path: Path<String>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let unknown = || CommandError::NotFound(path.to_string());
    let path = access.tree.resolve(&path).ok_or_else(unknown)?;
    let snapshot = snapshot(&access, &request)?;
    let root = snapshot.root.find(&path).cloned().ok_or_else(unknown)?;
    Ok(show(&TreeSnapshot { root, ..snapshot }, &request))
}

/// The tree as it stands, or with `?at=` as it was.
fn snapshot(access: &Access, request: &HttpRequest) -> Result<TreeSnapshot, ApiError> {
    let bad = |message: String| ApiError::new(ErrorKind::BadRequest, message);
    let args = Query::<Args>::from_query(request.query_string())
        .map_err(|error| bad(format!("{error}: the query may have at=MILLISECONDS since 1970")))?;
    let mut snapshot = access.tree.snapshot();
    let Some(at_ms) = args.at else { return Ok(snapshot) };
    let history = access.setup.history.lock();
    let Some((at_ms, values)) = history.at(at_ms) else {
        let oldest = history.usage().oldest_ms;
        let begins = oldest.map_or_else(|| "has no sample yet".to_owned(), |ms| format!("begins at {ms}"));
        return Err(ApiError::new(
            ErrorKind::NotFound,
            format!("the history {begins}: ask for a later time"),
        ));
    };
    rewind(&mut snapshot, at_ms, &values);
    Ok(snapshot)
}

fn show(snapshot: &TreeSnapshot, request: &HttpRequest) -> HttpResponse {
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if prefers_text(accept) {
        let text = ascii::render(snapshot, Ages::Show);
        HttpResponse::Ok().content_type(ContentType::plaintext()).body(text)
    } else {
        HttpResponse::Ok().json(snapshot)
    }
}
