//! Pool of idle connections. The most recently used one is used next, so that surplus connections reach their idle time-out.

use std::{
    cell::RefCell,
    convert::Infallible,
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use super::connection::Connection;

/// Idle connections to one server.
#[derive(Default)]
pub struct Pool {
    idle: RefCell<Vec<Connection>>,
    waker: RefCell<Option<Waker>>,
}

impl Pool {
    /// Takes a connection that is ready for a request.
    pub fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        while let Some(mut connection) = idle.pop() {
            if connection.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    /// Returns `connection` for later requests.
    pub fn put(&self, mut connection: Connection) {
        connection.start_idle();
        self.idle.borrow_mut().push(connection);
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Closes connections that the server closed or that were idle for too long. Never returns.
    pub async fn maintain(&self) -> Infallible {
        poll_fn(|cx| self.poll_idle(cx)).await
    }

    fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<Infallible> {
        self.waker.replace(Some(cx.waker().clone()));
        self.idle.borrow_mut().retain_mut(|connection| connection.poll_idle(cx).is_pending());
        Poll::Pending
    }
}
