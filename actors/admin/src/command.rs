//! `POST /v1/actors/{path}/{verb}` and `POST /v1/consoles/{path}/{verb}`: commands to children, and those
//! that a child defines.

use hyper::StatusCode;

use crate::{
    body,
    request::{Reply, Request},
    response::json,
};

pub(crate) async fn command(request: Request) -> Reply {
    let (caller, [path, verb]) = (request.caller()?, &request.parameters);
    let args = body::read(request.body, r#"{"reason": "disk was full"}"#);
    let (status, answer) = request.context.execute_command(&caller, path, verb, args).await?;
    Ok(json(status, &answer))
}

pub(crate) async fn console(request: Request) -> Reply {
    let (caller, [path, verb]) = (request.caller()?, &request.parameters);
    let args = body::read(request.body, r#"{"n": 10}"#);
    let answer = request.context.ask_console(&caller, path, verb, args).await?;
    Ok(json(StatusCode::OK, &answer))
}
