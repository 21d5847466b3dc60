//! Loop of an edge that does everything over one connection.

use orchestrator_observe::LinkFailure;
use tokio::time::sleep;

use crate::LinkState;

/// An edge that does everything over one connection, on a task or on a thread with timers.
#[allow(async_fn_in_trait, reason = "an edge stays on its thread")]
pub trait Reconnecting {
    /// Open connection.
    type Connection;
    /// Reason why there is no connection.
    type Error;

    /// Opens a connection. A stop drops the future.
    async fn connect(&mut self) -> Result<Self::Connection, Self::Error>;

    /// Works over `connection` until it is lost. Returns without an error after a stop.
    async fn serve(&mut self, connection: Self::Connection, link: &LinkState) -> Result<(), Self::Error>;

    /// Answers requests with `error` until the next attempt, which drops the future. Returns after a stop.
    async fn refuse(&mut self, _error: &Self::Error, link: &LinkState) {
        link.stopped().await;
    }

    /// Connects and serves until a stop, and reports each connection and failure to `link`.
    async fn run(&mut self, link: &LinkState)
    where
        for<'a> LinkFailure: From<&'a Self::Error>,
    {
        loop {
            let attempt = link.request();
            let connected = tokio::select! {
                biased;
                connected = self.connect() => connected,
                () = link.stopped() => return,
            };
            drop(attempt);
            let served = match connected {
                Ok(connection) => {
                    link.connected();
                    self.serve(connection, link).await
                }
                Err(error) => Err(error),
            };
            let Err(error) = served else { return };
            let delay = link.failed(&error);
            tokio::select! {
                biased;
                () = self.refuse(&error, link) => return,
                () = sleep(delay) => {}
            }
        }
    }
}
