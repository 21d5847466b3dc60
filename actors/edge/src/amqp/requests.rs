//! Requests to a broker: their time-out, and their errors as operators read them.

use std::{fmt, time::Duration};

use lapin::{ErrorKind, protocol::AMQPSoftError};
use tokio::time::timeout;

use super::broker_error::{peer_error, request_advice};
use crate::{PeerError, PeerErrorKind, Sent, catch_panic};

/// Time that the broker may take to answer a request, such as declare, consume or confirm.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for the broker's answer to `request`, at most for [`REPLY_TIMEOUT`].
///
/// # Errors
/// The broker refused the request, or did not answer it; `what` describes it and completes "cannot".
pub async fn with_timeout<T>(
    what: &str,
    request: impl Future<Output = lapin::Result<T>>,
) -> Result<T, PeerError> {
    let failure = match catch_panic(timeout(REPLY_TIMEOUT, request)).await {
        Ok(Ok(Ok(value))) => return Ok(value),
        Ok(Ok(Err(error))) => peer_error(&error).with_advice(request_advice(&error)),
        Ok(Err(_)) => {
            let text = format!("no answer from the broker within {REPLY_TIMEOUT:?}");
            PeerError::new(PeerErrorKind::Timeout, Sent::Maybe, text)
        }
        Err(panic) => panic,
    };
    Err(failure.map_text(|reason| format!("cannot {what}: {reason}")))
}

/// Waits like [`with_timeout`] for a declaration; None if what it declares exists with other properties. The
/// broker has then closed the channel.
///
/// # Errors
/// As of [`with_timeout`].
pub async fn unless_different<T>(
    what: &str,
    declaration: impl Future<Output = lapin::Result<T>>,
) -> Result<Option<T>, PeerError> {
    let differs = AMQPSoftError::PRECONDITIONFAILED.get_id();
    with_timeout(what, async {
        match declaration.await {
            Err(error) if matches!(error.kind(), ErrorKind::ProtocolError(refusal) if refusal.get_id() == differs) => Ok(None),
            declared => declared.map(Some),
        }
    })
    .await
}

/// Error of a request that the broker refused; `what` describes it and completes "cannot".
pub fn refused(what: &str, reason: impl fmt::Display) -> PeerError {
    PeerError::new(PeerErrorKind::Refused, Sent::Maybe, format!("cannot {what}: {reason}"))
}

/// Error of a connection that was lost.
pub fn connection_lost(reason: impl fmt::Display) -> PeerError {
    PeerError::lost(format!("the connection to the broker is lost: {reason}"))
}
