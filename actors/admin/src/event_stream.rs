//! The response body of `/v1/events`. Events are read from the ring buffer as fast as the client reads, so
//! that a slow client costs no memory. If events were overwritten before they were sent, a `resync` event
//! tells the client to fetch the tree again.

use std::{fmt::Write, io, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, stream};
use orchestrator_supervise::{StopToken, Tree};
use tokio::time::{Instant, sleep_until};

use crate::{event_query::EventQuery, response_limit::ResponsePermit};

/// Time without events after which a comment is sent. A client that has closed the connection resets it after
/// the first comment, so that the second one fails.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Number of events that are read from the ring buffer at once.
const PAGE: usize = 64;

/// A stream of server-sent events, until the client disconnects or the endpoint stops.
pub(crate) struct EventStream {
    tree: Tree,
    query: EventQuery,
    /// Number of the last event that was read.
    after: u64,
    stop: StopToken,
    /// First lines, sent at once so that the client sees the response.
    opening: Option<String>,
    _permit: ResponsePermit,
}

impl EventStream {
    pub(crate) fn new(tree: Tree, query: EventQuery, stop: StopToken, permit: ResponsePermit) -> Self {
        let newest = tree.event_log().newest();
        let mut opening = format!(": events after {}\nretry: 2000\n\n", query.after.unwrap_or(newest));
        let after = match query.after {
            // The number is of a former process, so all events are new.
            Some(after) if after > newest => {
                let (oldest, _) = tree.event_log().page(newest, 0);
                opening.push_str(&resync(oldest, newest));
                oldest - 1
            }
            Some(after) => after,
            None => newest,
        };
        Self { tree, query, after, stop, opening: Some(opening), _permit: permit }
    }

    /// Chunks of the body.
    pub(crate) fn chunks(self) -> impl Stream<Item = io::Result<Bytes>> {
        stream::unfold(self, |mut this| async { Some((Ok(this.next().await?.into()), this)) })
    }

    /// Waits for the next text; None once the endpoint stops.
    async fn next(&mut self) -> Option<String> {
        let comment_due = Instant::now() + KEEP_ALIVE;
        while !self.stop.is_cancelled() {
            if let Some(text) = self.opening.take().or_else(|| self.next_events()) {
                return Some(text);
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {}
                () = self.tree.event_log().wait_after(self.after) => {}
                () = sleep_until(comment_due) => return Some(": alive\n\n".to_owned()),
            }
        }
        None
    }

    /// Formats the next matching events, or returns `None` if there are none.
    fn next_events(&mut self) -> Option<String> {
        loop {
            let (oldest, events) = self.tree.event_log().page(self.after, PAGE);
            let mut text = String::new();
            if oldest > self.after + 1 {
                text.push_str(&resync(oldest, self.tree.event_log().newest()));
                self.after = oldest - 1;
            }
            let last = events.last().map(|event| event.seq);
            for event in events.iter().filter(|event| self.query.matches(event)) {
                // An event has only numbers and strings, so serialization cannot fail.
                let data = serde_json::to_string(event).unwrap_or_default();
                let _ = write!(text, "id: {}\nevent: {}\ndata: {data}\n\n", event.seq, event.kind.name());
            }
            self.after = last.unwrap_or(self.after);
            if !text.is_empty() {
                return Some(text);
            }
            last?;
        }
    }
}

/// Formats the event that reports lost events before `oldest`. Its id keeps a reconnecting client from
/// receiving it again.
fn resync(oldest: u64, newest: u64) -> String {
    let before = oldest.saturating_sub(1);
    format!("id: {before}\nevent: resync\ndata: {{\"oldest\":{oldest},\"newest\":{newest}}}\n\n")
}
