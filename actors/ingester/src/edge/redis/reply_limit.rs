//! Limit of replies, which the client library buffers whole.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use orchestrator_edge::{FrameLimit, LimitError};

/// Most lines of one reply. Each value takes a line, and more memory than the shortest line.
const LINES_MAX: usize = 1 << 18;

/// Limit of the reply to the last request.
#[derive(Debug)]
pub(super) struct ReplyLimit {
    reply_max: usize,
    bytes: usize,
    lines: usize,
    over: Arc<AtomicBool>,
}

impl ReplyLimit {
    /// Limits replies to `reply_max` bytes. `over` is set after a longer one.
    pub(super) fn new(reply_max: usize, over: Arc<AtomicBool>) -> Self {
        Self { reply_max, bytes: 0, lines: 0, over }
    }
}

impl FrameLimit for ReplyLimit {
    fn received(&mut self, bytes: &mut [u8]) -> Result<usize, LimitError> {
        self.bytes += bytes.len();
        self.lines += bytes.iter().filter(|byte| **byte == b'\n').count();
        if self.bytes > self.reply_max || self.lines > LINES_MAX {
            self.over.store(true, Relaxed);
            return Err("the reply is too long".into());
        }
        Ok(bytes.len())
    }

    fn sent(&mut self) {
        (self.bytes, self.lines) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use orchestrator_edge::LimitedStream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// Reads two replies of these bytes on a connection that allows 512 KiB.
    async fn reply(bytes: &[u8]) -> (io::Result<usize>, bool) {
        let (ours, mut theirs) = duplex(1 << 20);
        let over = Arc::<AtomicBool>::default();
        let mut limited = LimitedStream::new(ours, ReplyLimit::new(1 << 19, over.clone()));
        for _ in 0..2 {
            limited.write_all(b"PING").await.expect("taken");
            theirs.write_all(bytes).await.expect("taken");
            let mut read = vec![0; bytes.len()];
            if let Err(error) = limited.read_exact(&mut read).await {
                return (Err(error), over.load(Relaxed));
            }
        }
        (Ok(bytes.len()), over.load(Relaxed))
    }

    #[tokio::test]
    async fn a_reply_over_the_limit_closes_the_connection() {
        assert!(matches!(reply(&vec![b'x'; 1 << 19]).await, (Ok(_), false)));
        assert!(matches!(reply(&vec![b'x'; (1 << 19) + 1]).await, (Err(_), true)));
        assert!(matches!(reply(&vec![b'\n'; LINES_MAX]).await, (Ok(_), false)));
        assert!(matches!(reply(&vec![b'\n'; LINES_MAX + 1]).await, (Err(_), true)));
    }
}
