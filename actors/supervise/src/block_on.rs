//! Blocking wait of a thread child for a channel or a token.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake},
    thread,
    time::Instant,
};

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks the thread until `future` is ready, or returns None at `deadline`. The future must not use I/O or
/// timers of a runtime.
pub fn block_on<F: Future>(deadline: Option<Instant>, future: F) -> Option<F::Output> {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut task = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut task) {
            return Some(output);
        }
        match deadline {
            None => thread::park(),
            Some(at) => match at.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => thread::park_timeout(left),
                _ => return None,
            },
        }
    }
}
