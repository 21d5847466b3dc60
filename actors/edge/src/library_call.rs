//! Calls of client libraries. A panic inside one is a failed call and a lost connection, not a crash of the
//! child.

use std::{future::poll_fn, pin::pin, task::Poll};

use orchestrator_supervise::catch_foreign_panic;

use crate::PeerError;

/// Calls `code` of a client library.
///
/// # Errors
/// It panicked; what it changed must be dropped.
pub fn catch_panic_now<T>(code: impl FnOnce() -> T) -> Result<T, PeerError> {
    catch_foreign_panic(code).map_err(|panic| library_panic(&panic))
}

/// Error of a panic with its source position. The connection is unusable.
pub(crate) fn library_panic(panic: &str) -> PeerError {
    PeerError::lost(format!(
        "the client library panicked: {panic}: check that the peer is the intended server"
    ))
}

/// Waits for `call` of a client library.
///
/// # Errors
/// It panicked; its connection must be dropped.
pub async fn catch_panic<T>(call: impl Future<Output = T>) -> Result<T, PeerError> {
    let mut call = pin!(call);
    poll_fn(|cx| match catch_panic_now(|| call.as_mut().poll(cx)) {
        Ok(polled) => polled.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_with_its_position() {
        assert_eq!(catch_panic(async { 5 }).await, Ok(5));
        let panicking = async {
            tokio::task::yield_now().await;
            assert_eq!(1, 2, "a reply that is wrong");
        };
        let text = catch_panic(panicking).await.expect_err("a panic").to_string();
        assert!(text.contains("a reply that is wrong") && text.contains("library_call.rs:"), "{text}");
    }
}
