//! Limit on bytes before the end of a response's head.
//!
//! The HTTP library limits one head, but reads any number of interim responses (1xx) in one poll. A server
//! that sends only those would block the thread.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use crate::{FrameLimit, LimitError};

/// Most bytes read before a head has ended, including the beginning of the body.
const HEAD_MAX: usize = 2 << 20;

/// Value without a limit.
const UNLIMITED: usize = usize::MAX;

/// Bytes that may still be read, or [`UNLIMITED`]. Clones share the limit.
#[derive(Debug, Clone)]
pub(super) struct HeadLimit(Arc<AtomicUsize>);

impl HeadLimit {
    pub(super) fn unlimited() -> Self {
        Self(Arc::new(AtomicUsize::new(UNLIMITED)))
    }

    /// Starts the limit when a request is sent.
    pub(super) fn start(&self) {
        self.0.store(HEAD_MAX, Relaxed);
    }

    /// Lifts the limit when the head of the response has ended.
    pub(super) fn lift(&self) {
        self.0.store(UNLIMITED, Relaxed);
    }
}

impl FrameLimit for HeadLimit {
    fn received(&mut self, bytes: &mut [u8]) -> Result<usize, LimitError> {
        let left = self.0.load(Relaxed);
        if left != UNLIMITED {
            let left = left.saturating_sub(bytes.len());
            self.0.store(left, Relaxed);
            if left == 0 {
                let text =
                    format!("the response's head has more than {HEAD_MAX} bytes, interim responses included");
                return Err(text.into());
            }
        }
        Ok(bytes.len())
    }
}
