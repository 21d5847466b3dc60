//! Limit on bytes before the end of a response's head.
//!
//! The HTTP library limits one head, but reads any number of interim responses (1xx) in one poll. A server that sends only those would
//! block the thread.

use std::{cell::Cell, rc::Rc};

use crate::{FrameLimit, LimitError};

/// Most bytes read before a head has ended, including the beginning of the body.
const HEAD_MAX: usize = 2 << 20;

/// Bytes that may still be read; None if unlimited. Clones share the limit.
#[derive(Debug, Clone, Default)]
pub(super) struct HeadLimit(Rc<Cell<Option<usize>>>);

impl HeadLimit {
    /// Starts the limit when a request is sent.
    pub(super) fn start(&self) {
        self.0.set(Some(HEAD_MAX));
    }

    /// Lifts the limit when the head of the response has ended.
    pub(super) fn lift(&self) {
        self.0.set(None);
    }
}

impl FrameLimit for HeadLimit {
    fn received(&mut self, bytes: &mut [u8]) -> Result<usize, LimitError> {
        if let Some(left) = self.0.get() {
            let left = left.saturating_sub(bytes.len());
            self.0.set(Some(left));
            if left == 0 {
                let text =
                    format!("the response's head has more than {HEAD_MAX} bytes, interim responses included");
                return Err(text.into());
            }
        }
        Ok(bytes.len())
    }
}
