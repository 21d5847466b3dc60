//! A request as its handler gets it.

use std::sync::Arc;

use hyper::{body::Incoming, header::AsHeaderName, http::request::Parts};
use orchestrator_subsystem::wire::ErrorKind;
use serde::de::DeserializeOwned;

use crate::{api_error::ApiError, handler_context::HandlerContext, response::Response, role::Caller};

/// A request that has passed all checks.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) context: Arc<HandlerContext>,
    /// None if the route needs no token and there was none.
    pub(crate) caller: Option<Caller>,
    /// Values of the parameters in the route's pattern, in its order; else empty.
    pub(crate) parameters: [String; 2],
    pub(crate) head: Parts,
    pub(crate) body: Incoming,
}

/// Outcome of a handler.
pub(crate) type Reply = Result<Response, ApiError>;

impl Request {
    /// Caller on a route that requires one.
    pub(crate) fn caller(&self) -> Result<Caller, ApiError> {
        let missing = || ApiError::new(ErrorKind::Unauthorized, "the caller is unknown: send a token");
        self.caller.clone().ok_or_else(missing)
    }

    /// Text of a header; `?` if it is not ASCII.
    pub(crate) fn header(&self, name: impl AsHeaderName) -> Option<&str> {
        self.head.headers.get(name).map(|value| value.to_str().unwrap_or("?"))
    }

    /// Path as the client sent it.
    pub(crate) fn path(&self) -> &str {
        self.head.uri.path()
    }

    pub(crate) fn query_text(&self) -> &str {
        self.head.uri.query().unwrap_or_default()
    }

    /// Reads the query. Error messages contain `help`.
    pub(crate) fn query<T: DeserializeOwned>(&self, help: &str) -> Result<T, ApiError> {
        serde_urlencoded::from_str(self.query_text()).map_err(|error| {
            ApiError::new(ErrorKind::BadRequest, format!("Query deserialize error: {error}: {help}"))
        })
    }
}
