//! Who is let in. Over the unix socket, whose file only its owner may open: whoever comes. Over TCP: whoever shows a
//! token from the file; without a file, which loopback addresses only can be, whoever comes.

use std::sync::Arc;

use actix_web::{
    Error, HttpMessage, ResponseError,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE},
    middleware::Next,
    web::Data,
};

use crate::{
    access::Access,
    api_error::ApiError,
    health, host_check, page,
    peer::{Peer, Visit},
    role::{Caller, Role},
};
use orchestrator_subsystem::wire::ErrorKind;

/// The middleware: refuses, or notes the [`Caller`] in the request.
pub(crate) async fn check(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    if let Some(visit) = request.conn_data::<Visit>() {
        visit.has_request();
    }
    let Some(access) = request.app_data::<Data<Access>>().cloned() else {
        let answer = ApiError::new(ErrorKind::Unknown, "the endpoint is not set up");
        return Ok(request.into_response(answer.error_response()));
    };
    if let Some(problem) = host_check::problem(request.headers(), &access.setup.hosts) {
        access.tally.foreign.add(1);
        let answer = ApiError::new(ErrorKind::Forbidden, problem).error_response();
        return Ok(request.into_response(answer));
    }
    match caller(&request, &access) {
        Ok(caller) => {
            request.extensions_mut().insert(Arc::new(caller));
        }
        Err(_) if is_open(&request) => {}
        Err(problem) => {
            access.tally.unauthorized.add(1);
            let mut answer = ApiError::new(ErrorKind::Unauthorized, problem).error_response();
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return Ok(request.into_response(answer));
        }
    }
    Ok(next.call(request).await?.map_into_boxed_body())
}

/// A probe has no token, and may know who keeps the process from being ready, but not who is there besides. The files of
/// the console are the same everywhere.
fn is_open(request: &ServiceRequest) -> bool {
    page::is_public(request.path())
        || request.path() == "/livez"
        || (request.path() == "/readyz" && !health::is_verbose(request.query_string()))
}

fn caller(request: &ServiceRequest, access: &Access) -> Result<Caller, &'static str> {
    let peer = request.conn_data::<Peer>().copied().unwrap_or(Peer::Unknown);
    let tokens = match (peer, &access.setup.tokens) {
        (Peer::Unix { .. }, _) | (Peer::Tcp(_), None) => {
            return Ok(Caller { who: peer.to_string(), role: Role::Operator });
        }
        (_, tokens) => tokens.as_ref().ok_or("nothing is known of this connection: use tcp")?,
    };
    let token = bearer(request.headers())
        .ok_or("a token is needed: send `Authorization: Bearer TOKEN`, or give the client --token-file")?;
    tokens.caller(token).ok_or("this token is not known: see the file that admin.tokens_file names")
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
    fn the_scheme_is_bearer() {
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
