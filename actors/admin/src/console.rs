//! `POST /v1/consoles/{path}/{verb}`: a child's own verbs.

use std::sync::Arc;

use actix_web::{
    HttpResponse,
    web::{Data, Path, Payload, ReqData},
};

use crate::{access::Access, api_error::ApiError, body, role::Caller};

pub(crate) async fn console(
    access: Data<Access>,
    caller: ReqData<Arc<Caller>>,
    target: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let (path, verb) = target.into_inner();
    let args = body::read(payload, r#"{"n": 10}"#);
    let answer = access.steering().console(&caller, &path, &verb, args).await?;
    Ok(HttpResponse::Ok().json(answer))
}
