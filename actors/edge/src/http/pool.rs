//! Pool of idle connections. The most recently used one is used next, so that surplus connections reach their
//! idle time-out.

use std::{
    convert::Infallible,
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

use super::connection::Connection;

/// Idle connections to one server.
#[derive(Default)]
pub struct Pool {
    idle: Mutex<Vec<Connection>>,
    waker: Mutex<Option<Waker>>,
}

impl Pool {
    /// Takes a connection that is ready for a request.
    pub fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock();
        while let Some(mut connection) = idle.pop() {
            if connection.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps `connection` for later requests.
    pub fn put(&self, mut connection: Connection) {
        connection.start_idle();
        self.idle.lock().push(connection);
        if let Some(waker) = self.waker.lock().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Closes connections that the server closed or that were idle for too long. Never returns.
    pub async fn maintain(&self) -> Infallible {
        poll_fn(|cx| self.poll_idle(cx)).await
    }

    fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<Infallible> {
        *self.waker.lock() = Some(cx.waker().clone());
        self.idle.lock().retain_mut(|connection| connection.poll_idle(cx).is_pending());
        Poll::Pending
    }
}
