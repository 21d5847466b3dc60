//! Received notifications that the caller has not taken yet.

use std::collections::VecDeque;

use tokio_postgres::Notification;

/// Maximum number of kept notifications.
const COUNT_MAX: usize = 1_024;
/// Maximum size of the kept channels and payloads, in bytes.
const BYTES_MAX: usize = 1 << 20;

/// Queue of notifications. It drops the oldest beyond its limits.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    kept: VecDeque<Notification>,
    bytes: usize,
    dropped: u64,
}

impl Notifications {
    pub(super) fn push(&mut self, notification: Notification) {
        self.bytes += size(&notification);
        self.kept.push_back(notification);
        while self.kept.len() > COUNT_MAX || self.bytes > BYTES_MAX {
            self.dropped += u64::from(self.pop().is_some());
        }
    }

    pub(super) fn pop(&mut self) -> Option<Notification> {
        let oldest = self.kept.pop_front()?;
        self.bytes -= size(&oldest);
        Some(oldest)
    }

    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

fn size(notification: &Notification) -> usize {
    notification.channel().len() + notification.payload().len()
}
