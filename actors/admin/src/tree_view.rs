//! `GET /v1/tree` and `/v1/tree/{path}`.

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{ACCEPT, ContentType},
    web::{Data, Path},
};
use orchestrator_supervise::CommandError;

use crate::{
    accept::prefers_text,
    access::Access,
    api_error::ApiError,
    ascii::{self, Ages},
};
use orchestrator_subsystem::wire::TreeSnapshot;

pub(crate) async fn whole(access: Data<Access>, request: HttpRequest) -> HttpResponse {
    show(&access.tree.snapshot(), &request)
}

pub(crate) async fn part(
    access: Data<Access>,
    path: Path<String>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let unknown = || CommandError::NotFound(path.to_string());
    let root = access.tree.node(&path).ok_or_else(unknown)?;
    Ok(show(&TreeSnapshot { root, ..access.tree.snapshot() }, &request))
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
