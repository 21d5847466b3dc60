//! Buffers of long frames, used again: fresh memory costs a page fault for each page, a fifth of what carrying a frame costs.

use std::{
    collections::TryReserveError,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Bytes that are kept at the most.
const KEPT_BYTES: usize = 32 << 20;

/// The buffers of one connection. They end with it, and those that are lent with whoever has them.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    free: Arc<Free>,
}

#[derive(Debug, Default)]
struct Free {
    shelf: Mutex<Shelf>,
    /// The last one that was lent has come back.
    last_back: Notify,
}

#[derive(Debug, Default)]
struct Shelf {
    kept: Vec<Vec<u8>>,
    /// Number of the last one that was lent, from 1 on.
    last: u64,
    last_is_out: bool,
}

impl Free {}

impl Buffers {
    /// An empty buffer for `len` bytes.
    ///
    /// # Errors
    /// There is no memory: which must not abort the process, since a peer says the length.
    pub(super) fn take(&self, len: usize) -> Result<Vec<u8>, TryReserveError> {
        let kept = self.free.shelf.lock().kept.pop();
        // Of other frames' lengths none is kept: they come from the same detector.
        if let Some(mut kept) = kept.filter(|kept| (len..=len.saturating_mul(2)).contains(&kept.capacity())) {
            kept.clear();
            return Ok(kept);
        }
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(len)?;
        Ok(buffer)
    }

    /// A full buffer, as what everybody else has. It comes back once the last of them has dropped it.
    pub(super) fn lend(&self, bytes: Vec<u8>) -> Bytes {
        let mut shelf = self.free.shelf.lock();
        shelf.last += 1;
        shelf.last_is_out = true;
        let number = shelf.last;
        drop(shelf);
        Bytes::from_owner(Lent { bytes, number, home: Arc::downgrade(&self.free) })
    }

    /// Waits until the one that was lent last has come back; at once if it has, or none was lent.
    pub(super) async fn last_is_back(&self) {
        loop {
            let back = self.free.last_back.notified();
            if !self.free.shelf.lock().last_is_out {
                return;
            }
            back.await;
        }
    }
}

struct Lent {
    bytes: Vec<u8>,
    number: u64,
    home: Weak<Free>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        let mut shelf = home.shelf.lock();
        let kept: usize = shelf.kept.iter().map(Vec::capacity).sum();
        if kept + self.bytes.capacity() <= KEPT_BYTES {
            shelf.kept.push(std::mem::take(&mut self.bytes));
        }
        if shelf.last == self.number {
            shelf.last_is_out = false;
            drop(shelf);
            home.last_back.notify_one();
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
    fn a_buffer_comes_back_when_the_last_of_its_readers_drops_it() {
        let buffers = Buffers::default();
        let one = full(&buffers, 1 << 20);
        let (at, slice) = (one.as_ptr(), one.slice(5..));
        drop(one);
        assert!(buffers.free.shelf.lock().kept.is_empty());
        drop(slice);
        assert_eq!(full(&buffers, 1 << 20).as_ptr(), at);
        assert_eq!(full(&buffers, 9).len(), 9, "too large a one is not kept for a small frame");
    }

    #[test]
    fn only_the_last_one_is_waited_for() {
        let buffers = Buffers::default();
        let is_back = || buffers.last_is_back().now_or_never().is_some();
        assert!(is_back(), "none was lent");
        let one = full(&buffers, 1 << 20);
        let mut waiting = pin!(buffers.last_is_back());
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
    fn no_more_is_kept_than_the_bound_and_nothing_without_the_connection() {
        let buffers = Buffers::default();
        let many: Vec<_> = (0..40).map(|_| full(&buffers, 1 << 20)).collect();
        drop(many);
        assert_eq!(buffers.free.shelf.lock().kept.len(), 32);
        drop(full(&buffers, KEPT_BYTES + 1));
        assert!(buffers.free.shelf.lock().kept.iter().all(|kept| kept.capacity() <= KEPT_BYTES));
        let last = full(&buffers, 1 << 20);
        drop(buffers);
        assert_eq!(last.len(), 1 << 20);
    }
}
