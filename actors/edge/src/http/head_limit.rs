//! Upper bound of what is read before the head of an answer has ended. The HTTP library limits one head, but reads interim answers (1xx)
//! without end, many in one poll: a server that sends nothing else would keep the whole thread busy.

use std::{cell::Cell, rc::Rc};

use crate::{FrameLimit, LimitError};

/// Bytes that are read before a head has ended, beginnings of the body included.
const HEAD_MAX: usize = 2 << 20;

/// Bytes that may still be read; None: as many as there are. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct HeadLimit(Rc<Cell<Option<usize>>>);

impl HeadLimit {
    /// A request is sent.
    pub(super) fn begin(&self) {
        self.0.set(Some(HEAD_MAX));
    }

    /// The head of its answer has ended.
    pub(super) fn end(&self) {
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
                    format!("the answer's head has more than {HEAD_MAX} bytes, interim answers included");
                return Err(text.into());
            }
        }
        Ok(bytes.len())
    }
}
