//! Requests of an agent and their results.

use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tokio::time::Instant;

use super::{poll_request::PollResult, unconfirmed_claim::UnconfirmedClaim};
use crate::{
    claimed_rows::Batch,
    handler::{Outcome, Row},
    service::{CatalogResponse, RequestError},
    state_change::ChangeResult,
};

/// Result of a request to the server.
pub(super) enum RequestResult {
    Polled(Box<PollResult>),
    Settled(BatchResult),
    Renewed(BatchResult, Instant),
    Confirmed(UnconfirmedClaim, Result<Vec<Row>, RequestError>),
    Checked(Vec<u64>, Result<Vec<Row>, RequestError>),
}

impl RequestResult {
    /// Returns true if the server has carried out a write.
    pub(super) fn wrote(&self) -> bool {
        match self {
            Self::Polled(poll) => matches!(poll.result, ChangeResult::Changed(_)),
            Self::Settled(settled) | Self::Renewed(settled, _) => {
                matches!(settled.answer, Ok(CatalogResponse::Rows { .. }))
            }
            Self::Confirmed(..) | Self::Checked(..) => false,
        }
    }
}

/// A written batch with its response.
pub(super) struct BatchResult {
    pub(super) batch: Batch,
    pub(super) answer: Result<CatalogResponse, RequestError>,
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
