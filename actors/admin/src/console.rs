//! `POST /v1/consoles/{path}/{verb}`: passes a verb on to the child that answers it, and knows none itself.

use actix_web::{
    HttpResponse,
    web::{Data, Path, Payload},
};
use orchestrator_supervise::ConsoleRequest;

use crate::{access::Access, api_error::ApiError, body};

pub(crate) async fn console(
    access: Data<Access>,
    target: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let (path, verb) = target.into_inner();
    let args: serde_json::Value = body::read(payload, r#"{"n": 10}"#).await?;
    let request = ConsoleRequest { verb: verb.clone(), args };
    let reply = access.tree.console(&path, request).await.map_err(|error| {
        let mut answer = ApiError::from(error);
        answer.0.message = format!("`{verb}` of `{path}`: {}", answer.0.message);
        answer
    })?;
    Ok(HttpResponse::Ok().json(reply?))
}
