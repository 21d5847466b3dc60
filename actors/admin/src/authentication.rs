//! Authentication of requests.
//!
//! | Connection | Caller |
//! |---|---|
//! | unix socket | operator; only the file's owner can connect |
//! | TCP with a tokens file | the role of the bearer token |
//! | TCP without a tokens file | operator; only loopback addresses are possible |
//! | TCP address of the probes | nobody; there are only probes |

use hyper::{HeaderMap, header::AUTHORIZATION, http::request::Parts};

use crate::{
    api_error::ApiError,
    handler_context::HandlerContext,
    health, host_check, page,
    peer::Peer,
    role::{Caller, Role},
};
use orchestrator_subsystem::wire::ErrorKind;

/// Caller of a request; None if it needs none.
///
/// # Errors
/// The request is refused.
pub(crate) fn check(context: &HandlerContext, peer: Peer, head: &Parts) -> Result<Option<Caller>, ApiError> {
    let path = head.uri.path();
    if let Some(problem) = host_check::problem(&head.method, path, &head.headers, &context.state.hosts) {
        context.metrics.origin.add(1);
        return Err(ApiError::new(ErrorKind::Forbidden, problem));
    }
    match caller(context, peer, &head.headers) {
        Ok(caller) => Ok(Some(caller)),
        Err(_) if is_public(path, head.uri.query().unwrap_or_default()) => Ok(None),
        Err(problem) => {
            context.metrics.unauthorized.add(1);
            Err(ApiError::new(ErrorKind::Unauthorized, problem))
        }
    }
}

/// The files of the console need no token, nor do health checks without the state of healthy children.
pub(crate) fn is_public(path: &str, query: &str) -> bool {
    page::is_public(path) || path == "/livez" || (path == "/readyz" && !health::is_verbose(query))
}

fn caller(context: &HandlerContext, peer: Peer, headers: &HeaderMap) -> Result<Caller, &'static str> {
    let tokens = match (peer, &context.state.tokens) {
        (Peer::Unix { .. }, _) | (Peer::Tcp(_), None) => {
            return Ok(Caller { who: peer.to_string(), role: Role::Operator });
        }
        (_, tokens) => tokens.as_ref().ok_or("the type of this connection is unknown: use TCP")?,
    };
    let token = bearer(headers)
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
    use hyper::header::HeaderValue;

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
