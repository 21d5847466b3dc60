//! The response body of `/v1/events`. Events are read from the ring buffer as fast as the client reads, so
//! that a slow client costs no memory. If events were overwritten before they were sent, a `resync` event
//! tells the client to fetch the tree again.

use std::{
    convert::Infallible,
    fmt::Write,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::Stream;
use orchestrator_supervise::{StopToken, Tree};
use tokio::time::Instant;

use crate::{event_query::EventQuery, response_limit::ResponsePermit};

/// Time without events after which a comment is sent, so that both sides notice a dead connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Time to the next comment if the client may have closed the connection.
const PROBE: Duration = Duration::from_millis(200);
/// Comments that are needed to detect a closed connection: the peer resets it after the first, so the second
/// fails.
const PROBES: u32 = 2;
/// Number of events that are read from the ring buffer at once.
const PAGE: usize = 64;

/// Reason why the stream was woken.
enum Wake {
    EventArrived,
    CommentDue,
    Stopped,
}

/// A stream of server-sent events, until the client disconnects or the endpoint stops.
pub(crate) struct EventStream {
    tree: Tree,
    query: EventQuery,
    /// Number of the last event that was read.
    after: u64,
    stop: StopToken,
    /// Time of the next comment.
    comment_due: Instant,
    probes_left: u32,
    waiting: Option<Pin<Box<dyn Future<Output = Wake>>>>,
    /// First lines, sent at once so that the client sees the response.
    opening: Option<String>,
    ended: bool,
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
        Self {
            tree,
            query,
            after,
            stop,
            comment_due: Instant::now() + KEEP_ALIVE,
            probes_left: 0,
            waiting: None,
            opening: Some(opening),
            ended: false,
            _permit: permit,
        }
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

    fn wait(&self) -> Pin<Box<dyn Future<Output = Wake>>> {
        let (tree, after, due, stop) = (self.tree.clone(), self.after, self.comment_due, self.stop.clone());
        Box::pin(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => Wake::Stopped,
                () = tree.event_log().wait_after(after) => Wake::EventArrived,
                () = tokio::time::sleep_until(due) => Wake::CommentDue,
            }
        })
    }

    /// Schedules probes. A poll without a wake-up of this stream means that the state of the connection has
    /// changed. Only a failed write shows that the client has closed it, since a half-closed connection is
    /// still served.
    fn schedule_probes(&mut self) {
        if self.probes_left == 0 {
            self.probes_left = PROBES;
            self.comment_due = self.comment_due.min(Instant::now() + PROBE);
            self.waiting = None;
        }
    }

    fn comment(&mut self) -> String {
        self.probes_left = self.probes_left.saturating_sub(1);
        self.comment_due = Instant::now() + if self.probes_left > 0 { PROBE } else { KEEP_ALIVE };
        ": alive\n\n".to_owned()
    }
}

impl Stream for EventStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let send = |text: String| Poll::Ready(Some(Ok(Bytes::from(text))));
        if this.ended || this.stop.is_cancelled() {
            return Poll::Ready(None);
        }
        if let Some(opening) = this.opening.take() {
            return send(opening);
        }
        let mut is_spurious = this.waiting.is_some();
        loop {
            if let Some(waiting) = &mut this.waiting {
                let Poll::Ready(wake) = waiting.as_mut().poll(cx) else {
                    if !std::mem::take(&mut is_spurious) {
                        return Poll::Pending;
                    }
                    this.schedule_probes();
                    if this.waiting.is_some() {
                        return Poll::Pending;
                    }
                    continue;
                };
                this.waiting = None;
                is_spurious = false;
                match wake {
                    Wake::EventArrived => {}
                    Wake::CommentDue => return send(this.comment()),
                    Wake::Stopped => {
                        this.ended = true;
                        return Poll::Ready(None);
                    }
                }
            }
            if let Some(text) = this.next_events() {
                if this.probes_left == 0 {
                    this.comment_due = Instant::now() + KEEP_ALIVE;
                }
                return send(text);
            }
            this.waiting = Some(this.wait());
        }
    }
}

/// Formats the event that reports lost events before `oldest`. Its id keeps a reconnecting client from
/// receiving it again.
fn resync(oldest: u64, newest: u64) -> String {
    let before = oldest.saturating_sub(1);
    format!("id: {before}\nevent: resync\ndata: {{\"oldest\":{oldest},\"newest\":{newest}}}\n\n")
}
