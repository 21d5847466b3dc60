//! Connections between two requests. The one used last is used next, so that those which are not needed grow old and are closed.

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
    attendant: RefCell<Option<Waker>>,
}

impl Pool {
    /// One that may take a request now.
    pub fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        while let Some(mut connection) = idle.pop() {
            if connection.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps `connection` for the next request.
    pub fn put(&self, mut connection: Connection) {
        connection.begin_rest();
        self.idle.borrow_mut().push(connection);
        if let Some(attendant) = self.attendant.borrow().as_ref() {
            attendant.wake_by_ref();
        }
    }

    /// Has those that the server closes, or that nobody needs, closed at once. Never ends.
    pub async fn maintain(&self) -> Infallible {
        poll_fn(|cx| self.look(cx)).await
    }

    fn look(&self, cx: &mut Context<'_>) -> Poll<Infallible> {
        self.attendant.replace(Some(cx.waker().clone()));
        self.idle.borrow_mut().retain_mut(|connection| connection.poll_idle(cx).is_pending());
        Poll::Pending
    }
}
