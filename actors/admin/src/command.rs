//! `POST /v1/actors/{path}/{verb}`: commands to children.

use std::sync::Arc;

use actix_web::{
    HttpResponse,
    web::{Data, Path, Payload, ReqData},
};

use crate::{
    api_error::ApiError, body, command_executor::Execution, handler_context::HandlerContext, role::Caller,
};

pub(crate) async fn command(
    context: Data<HandlerContext>,
    caller: ReqData<Arc<Caller>>,
    target: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let (path, verb) = target.into_inner();
    let args = body::read(payload, r#"{"reason": "disk was full"}"#);
    Ok(match context.executor().command(&caller, &path, &verb, args).await? {
        Execution::Completed(answer) => HttpResponse::Ok().json(answer),
        Execution::Accepted(answer) => HttpResponse::Accepted().json(answer),
    })
}
