//! Requests of an agent and their results.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use orchestrator_catalog_rules::rows::Row;
use tokio::time::Instant;

use super::{poll_request::Poll, unconfirmed_claim::UnconfirmedClaim};
use crate::{claimed_rows::Batch, handler::Outcome, service::RequestError, state_change::ChangeResult};

/// Result of a request to the server.
pub(super) enum RequestResult {
    Polled(Box<Poll>, ChangeResult),
    /// With the time at which the write began.
    Settled(Batch, Result<Bytes, RequestError>, Instant),
    Renewed(Batch, Result<Bytes, RequestError>, Instant),
    Confirmed(UnconfirmedClaim, Result<Vec<Row>, RequestError>),
    Checked(Vec<u64>, Result<Vec<Row>, RequestError>),
}

impl RequestResult {
    pub(super) fn wrote(&self) -> bool {
        match self {
            Self::Polled(_, result) => matches!(result, ChangeResult::Changed(_)),
            Self::Settled(_, answer, _) | Self::Renewed(_, answer, _) => answer.is_ok(),
            Self::Confirmed(..) | Self::Checked(..) => false,
        }
    }
}

/// Next step of an agent.
pub(super) enum Next {
    /// Send this request.
    Request(LocalBoxFuture<'static, RequestResult>),
    /// Wait, at most until this time.
    Wait(Option<Instant>),
    /// End: there is nothing left to do.
    Finished,
}

pub(super) type HandlerRun = LocalBoxFuture<'static, (u64, Option<Outcome>, Duration)>;
