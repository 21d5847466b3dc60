//! `POST /v1/actors/{path}/{verb}` and `POST /v1/consoles/{path}/{verb}`: commands to children, and those
//! that a child defines.

use std::sync::Arc;

use actix_web::{
    HttpResponse,
    web::{Data, Path, Payload, ReqData},
};

use crate::{api_error::ApiError, body, handler_context::HandlerContext, role::Caller};

pub(crate) async fn command(
    context: Data<HandlerContext>,
    caller: ReqData<Arc<Caller>>,
    target: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let (path, verb) = target.into_inner();
    let args = body::read(payload, r#"{"reason": "disk was full"}"#);
    let (status, answer) = context.execute_command(&caller, &path, &verb, args).await?;
    Ok(HttpResponse::build(status).json(answer))
}

pub(crate) async fn console(
    context: Data<HandlerContext>,
    caller: ReqData<Arc<Caller>>,
    target: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let (path, verb) = target.into_inner();
    let args = body::read(payload, r#"{"n": 10}"#);
    Ok(HttpResponse::Ok().json(context.ask_console(&caller, &path, &verb, args).await?))
}
