//! Authentication of requests.
//!
//! | Connection | Caller |
//! |---|---|
//! | unix socket | operator; only the file's owner can connect |
//! | TCP with a tokens file | the role of the bearer token |
//! | TCP without a tokens file | operator; only loopback addresses are possible |
//! | TCP address of the probes | nobody; there are only probes |

use std::sync::Arc;

use actix_web::{
    Error, HttpMessage, ResponseError,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
    middleware::Next,
    web::Data,
};

use crate::{
    api_error::ApiError,
    connection_limit::is_probe,
    handler_context::HandlerContext,
    health, host_check, page,
    peer::{Connection, Peer},
    role::{Caller, Role},
};
use orchestrator_subsystem::wire::ErrorKind;

/// Middleware that refuses a request, or adds the [`Caller`] to it.
pub(crate) async fn check(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let slot = request.conn_data::<Connection>().map(Connection::mark_served);
    if !is_probe(request.path())
        && let Some(slot) = slot
        && !slot.admit().await
    {
        let message = "all connections but those for probes are in use: try again later";
        let mut answer = ApiError::new(ErrorKind::Unavailable, message).error_response();
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        return Ok(request.into_response(answer));
    }
    let Some(context) = request.app_data::<Data<HandlerContext>>().cloned() else {
        let answer = ApiError::new(ErrorKind::Unknown, "the endpoint is not configured");
        return Ok(request.into_response(answer.error_response()));
    };
    let (method, headers) = (request.method(), request.headers());
    if let Some(problem) = host_check::problem(method, request.path(), headers, &context.state.hosts) {
        context.metrics.origin.add(1);
        let answer = ApiError::new(ErrorKind::Forbidden, problem).error_response();
        return Ok(request.into_response(answer));
    }
    match caller(&request, &context) {
        Ok(caller) => {
            request.extensions_mut().insert(Arc::new(caller));
        }
        Err(_) if is_public(request.path(), request.query_string()) => {}
        Err(problem) => {
            context.metrics.unauthorized.add(1);
            let mut answer = ApiError::new(ErrorKind::Unauthorized, problem).error_response();
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return Ok(request.into_response(answer));
        }
    }
    Ok(next.call(request).await?.map_into_boxed_body())
}

/// Middleware of the probes, which everybody may use.
pub(crate) async fn mark_served(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    request.conn_data::<Connection>().map(Connection::mark_served);
    Ok(next.call(request).await?.map_into_boxed_body())
}

/// The files of the console need no token, nor do health checks without the state of healthy children.
pub(crate) fn is_public(path: &str, query: &str) -> bool {
    page::is_public(path) || path == "/livez" || (path == "/readyz" && !health::is_verbose(query))
}

fn caller(request: &ServiceRequest, context: &HandlerContext) -> Result<Caller, &'static str> {
    let peer = request.conn_data::<Peer>().copied().unwrap_or(Peer::Unknown);
    let tokens = match (peer, &context.state.tokens) {
        (Peer::Unix { .. }, _) | (Peer::Tcp(_), None) => {
            return Ok(Caller { who: peer.to_string(), role: Role::Operator });
        }
        (_, tokens) => tokens.as_ref().ok_or("the type of this connection is unknown: use TCP")?,
    };
    let token = bearer(request.headers())
        .ok_or("a token is required: send `Authorization: Bearer TOKEN`, or use --token-file")?;
    tokens.caller(token).ok_or("the token is unknown: see the file that admin.tokens_file names")
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_scheme_bearer_is_accepted() {
        let token = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            bearer(&headers).map(<[u8]>::to_vec)
        };
        assert_eq!(token("Bearer abc"), Some(b"abc".to_vec()));
        assert_eq!(token("bearer  abc "), Some(b"abc".to_vec()));
        for other in ["Basic abc", "Bearerabc", "abc", ""] {
            assert_eq!(token(other), None, "{other}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
