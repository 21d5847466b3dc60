//! Messages of a consumer.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{Stream, StreamExt};
use lapin::{Consumer, message::Delivery};
use orchestrator_text::sanitize;

use crate::catch_panic_now;

/// Messages of a consumer; it ends when the broker cancels the consumer.
#[derive(Debug)]
pub struct Deliveries(Consumer);

impl Deliveries {
    /// Wraps `consumer`.
    pub fn new(consumer: Consumer) -> Self {
        Self(consumer)
    }
}

impl Stream for Deliveries {
    /// A message, or the reason why the channel failed.
    type Item = Result<Delivery, String>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match catch_panic_now(|| self.0.poll_next_unpin(cx)) {
            Ok(next) => next.map(|next| next.map(|next| next.map_err(|error| sanitize(error.to_string())))),
            Err(panic) => Poll::Ready(Some(Err(panic.to_string()))),
        }
    }
}
