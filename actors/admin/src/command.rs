//! `POST /v1/actors/{path}/{verb}`: the way in for operators' wishes.

use std::sync::Arc;

use actix_web::{
    HttpResponse,
    web::{Data, Path, Payload, ReqData},
};

use crate::{access::Access, api_error::ApiError, body, role::Caller, steering::Carried};

pub(crate) async fn command(
    access: Data<Access>,
    caller: ReqData<Arc<Caller>>,
    target: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let (path, verb) = target.into_inner();
    let args = body::read(payload, r#"{"reason": "disk was full"}"#);
    Ok(match access.steering().command(&caller, &path, &verb, args).await? {
        Carried::Out(answer) => HttpResponse::Ok().json(answer),
        Carried::Under(answer) => HttpResponse::Accepted().json(answer),
    })
}
