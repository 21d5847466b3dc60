//! `POST /v1/actors/{path}/{verb}`: the one way in for operators' wishes.

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Data, Path, Payload},
};
use orchestrator_supervise::{Origin, Verb};

use crate::{
    access::Access,
    api_error::ApiError,
    body,
    peer::Peer,
    wire::{CommandAnswer, CommandArgs, ErrorKind, REASON_LIMIT},
};

pub(crate) async fn command(
    access: Data<Access>,
    target: Path<(String, String)>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let (path, verb) = target.into_inner();
    let verb = Verb::parse(&verb).ok_or_else(|| unknown(&verb))?;
    let args: CommandArgs = body::read(payload, r#"{"reason": "disk was full"}"#).await?;
    if args.reason.len() > REASON_LIMIT {
        let message = format!("the reason is longer than {REASON_LIMIT} bytes: be brief");
        return Err(ApiError::new(ErrorKind::BadRequest, message));
    }
    let origin = Origin { by: Peer::of(&request).to_string(), reason: one_line(&args.reason) };
    // An unknown path goes through the tree as well: it knows the words for it.
    let path = access.tree.resolve(&path).unwrap_or(path);
    if verb == Verb::Stop && access.carries_endpoint(&path) {
        let message =
            format!("stopping `{path}` would cut off this endpoint for good: stop the process instead");
        return Err(ApiError::new(ErrorKind::Refused, message));
    }
    let before = access.tree.vitals(&path).map(|vitals| vitals.state());
    let answer = |before: &str, after: &str| CommandAnswer {
        path: path.clone(),
        verb: verb.name().to_owned(),
        before: before.to_owned(),
        after: after.to_owned(),
    };
    tokio::select! {
        biased;
        outcome = access.tree.command(&path, verb, &origin) => {
            let outcome = outcome?;
            Ok(HttpResponse::Ok().json(answer(outcome.before.name(), outcome.after.name())))
        }
        // The command, or the end of the process, takes the endpoint along: answer while that is possible.
        () = access.stop.cancelled() => {
            let after = access.tree.vitals(&path).map(|vitals| vitals.state());
            let name = |state: Option<orchestrator_supervise::State>| state.map_or("unknown", |state| state.name());
            Ok(HttpResponse::Accepted().json(answer(name(before), name(after))))
        }
    }
}

fn unknown(verb: &str) -> ApiError {
    let known: Vec<_> = Verb::ALL.into_iter().filter(|verb| *verb != Verb::Panic).map(Verb::name).collect();
    ApiError::new(ErrorKind::NotFound, format!("no verb `{verb}`: there are {}", known.join(", ")))
}

/// A reason goes into logs: it must not make lines of its own there.
fn one_line(reason: &str) -> String {
    reason.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
