//! Reusable buffers of long frames. Page faults of fresh memory take a fifth of the time for
//! carrying a frame.

use std::{
    collections::TryReserveError,
    future::poll_fn,
    sync::{Arc, Weak},
    task::{Poll, Waker},
};

use bytes::Bytes;
use parking_lot::Mutex;

/// Most bytes of free buffers.
const KEPT_BYTES: usize = 32 << 20;

/// Buffers of one connection. Lent buffers may outlive it.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pool: Arc<BufferPool>,
}

#[derive(Debug, Default)]
struct BufferPool {
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    kept: Vec<Vec<u8>>,
    /// Number of the last lent buffer, from 1.
    last: u64,
    last_is_lent: bool,
    /// Waits until the last lent buffer has returned.
    waiting: Option<Waker>,
}

impl Buffers {
    /// An empty buffer for `len` bytes.
    ///
    /// # Errors
    /// There is no memory. It must not abort the process, since the peer chooses the length.
    pub(super) fn take(&self, len: usize) -> Result<Vec<u8>, TryReserveError> {
        let kept = self.pool.state.lock().kept.pop();
        // A buffer of another size is dropped: a detector's frames have equal lengths.
        if let Some(mut kept) = kept.filter(|kept| (len..=len.saturating_mul(2)).contains(&kept.capacity())) {
            kept.clear();
            return Ok(kept);
        }
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(len)?;
        Ok(buffer)
    }

    /// Lends a full buffer as shared bytes. It returns to the pool after the last reference is
    /// dropped.
    pub(super) fn lend(&self, bytes: Vec<u8>) -> Bytes {
        let mut state = self.pool.state.lock();
        state.last += 1;
        state.last_is_lent = true;
        let number = state.last;
        drop(state);
        Bytes::from_owner(Lent { bytes, number, pool: Arc::downgrade(&self.pool) })
    }

    /// Waits until the last lent buffer has returned. One caller at a time may wait.
    pub(super) async fn last_returned(&self) {
        poll_fn(|cx| {
            let mut state = self.pool.state.lock();
            if !state.last_is_lent {
                return Poll::Ready(());
            }
            state.waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

struct Lent {
    bytes: Vec<u8>,
    number: u64,
    pool: Weak<BufferPool>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else { return };
        let mut state = pool.state.lock();
        let kept: usize = state.kept.iter().map(Vec::capacity).sum();
        if kept + self.bytes.capacity() <= KEPT_BYTES {
            state.kept.push(std::mem::take(&mut self.bytes));
        }
        if state.last == self.number {
            state.last_is_lent = false;
            let waiting = state.waiting.take();
            drop(state);
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    fn full(buffers: &Buffers, len: usize) -> Bytes {
        let mut buffer = buffers.take(len).expect("memory");
        assert_eq!(buffer.len(), 0);
        buffer.resize(len, 7);
        buffers.lend(buffer)
    }

    #[test]
    fn a_buffer_returns_when_its_last_reader_drops_it() {
        let buffers = Buffers::default();
        let one = full(&buffers, 1 << 20);
        let (at, slice) = (one.as_ptr(), one.slice(5..));
        drop(one);
        assert!(buffers.pool.state.lock().kept.is_empty());
        drop(slice);
        assert_eq!(full(&buffers, 1 << 20).as_ptr(), at);
        assert_eq!(full(&buffers, 1 << 19).as_ptr(), at, "twice as large");
        assert_eq!(full(&buffers, 9).len(), 9, "too large a one is not kept for a small frame");
    }

    #[test]
    fn only_the_last_buffer_is_awaited() {
        let buffers = Buffers::default();
        let is_back = || buffers.last_returned().now_or_never().is_some();
        assert!(is_back(), "none was lent");
        let one = full(&buffers, 1 << 20);
        let mut waiting = pin!(buffers.last_returned());
        assert!(waiting.as_mut().now_or_never().is_none());
        let two = full(&buffers, 1 << 20);
        let part = two.slice(9..);
        drop(two);
        drop(one);
        assert!(!is_back(), "a part of the second is out");
        drop(part);
        assert!(waiting.now_or_never().is_some(), "who waits is told");
        assert!(is_back());
    }

    #[test]
    fn free_buffers_are_bounded_and_end_with_the_connection() {
        let buffers = Buffers::default();
        let many: Vec<_> = (0..40).map(|_| full(&buffers, 1 << 20)).collect();
        drop(many);
        assert_eq!(buffers.pool.state.lock().kept.len(), 32);
        drop(full(&buffers, KEPT_BYTES + 1));
        assert!(buffers.pool.state.lock().kept.iter().all(|kept| kept.capacity() <= KEPT_BYTES));
        let last = full(&buffers, 1 << 20);
        drop(buffers);
        assert_eq!(last.len(), 1 << 20);
    }
}
