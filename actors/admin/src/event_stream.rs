//! The body of `/v1/events`: pulled from the ring as fast as its client reads, so that a slow client costs no memory. What
//! left the ring before it was read shows as a `resync`: the client fetches the tree anew and goes on.

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

use crate::{event_query::EventQuery, seats::Seat};

/// A silent connection is given a comment so often, to be known as alive, and to be noticed as dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Time to the next comment when the connection may just have been closed.
const PROBE: Duration = Duration::from_millis(200);
/// Comments in a row that tell: a peer that is gone answers the first with a reset, so that the next fails.
const PROBES: u32 = 2;
/// Events taken from the ring at a time.
const PAGE: usize = 64;

/// What the stream waits for.
enum Woken {
    Moved,
    Due,
    Stopped,
}

/// Events as server-sent events, until the client leaves or the endpoint stops.
pub(crate) struct EventStream {
    tree: Tree,
    query: EventQuery,
    /// The last event that was looked at.
    after: u64,
    stop: StopToken,
    /// When to send a comment.
    due: Instant,
    probes_left: u32,
    waiting: Option<Pin<Box<dyn Future<Output = Woken>>>>,
    /// Opens the stream, so that the client sees it is one.
    greeting: Option<String>,
    ended: bool,
    _seat: Seat,
}

impl EventStream {
    pub(crate) fn new(tree: Tree, query: EventQuery, stop: StopToken, seat: Seat) -> Self {
        let newest = tree.event_log().newest();
        let mut greeting = format!(": events after {}\nretry: 2000\n\n", query.after.unwrap_or(newest));
        let after = match query.after {
            // Numbers of a former process: everything is new.
            Some(after) if after > newest => {
                let (oldest, _) = tree.event_log().page(newest, 0);
                greeting.push_str(&resync(oldest, newest));
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
            due: Instant::now() + KEEP_ALIVE,
            probes_left: 0,
            waiting: None,
            greeting: Some(greeting),
            ended: false,
            _seat: seat,
        }
    }

    /// What there is to say of the events that have happened; none when nothing is.
    fn news(&mut self) -> Option<String> {
        loop {
            let (oldest, events) = self.tree.event_log().page(self.after, PAGE);
            let mut text = String::new();
            if oldest > self.after + 1 {
                text.push_str(&resync(oldest, self.tree.event_log().newest()));
                self.after = oldest - 1;
            }
            let last = events.last().map(|event| event.seq);
            for event in events.iter().filter(|event| self.query.wants(event)) {
                // An event is numbers and strings: it can always be written as JSON.
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

    fn wait(&self) -> Pin<Box<dyn Future<Output = Woken>>> {
        let (tree, after, due, stop) = (self.tree.clone(), self.after, self.due, self.stop.clone());
        Box::pin(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => Woken::Stopped,
                () = tree.event_log().wait_after(after) => Woken::Moved,
                () = tokio::time::sleep_until(due) => Woken::Due,
            }
        })
    }

    /// The server asks though nothing of ours has happened: something did on the connection. If its client closed it,
    /// a write shows that, and only a write does: half closed it is still to be served.
    fn suspect(&mut self) {
        if self.probes_left == 0 {
            self.probes_left = PROBES;
            self.due = self.due.min(Instant::now() + PROBE);
            self.waiting = None;
        }
    }

    fn comment(&mut self) -> String {
        self.probes_left = self.probes_left.saturating_sub(1);
        self.due = Instant::now() + if self.probes_left > 0 { PROBE } else { KEEP_ALIVE };
        ": alive\n\n".to_owned()
    }
}

impl Stream for EventStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let give = |text: String| Poll::Ready(Some(Ok(Bytes::from(text))));
        if this.ended || this.stop.is_cancelled() {
            return Poll::Ready(None);
        }
        if let Some(greeting) = this.greeting.take() {
            return give(greeting);
        }
        let mut asked_for_nothing = this.waiting.is_some();
        loop {
            if let Some(waiting) = &mut this.waiting {
                let Poll::Ready(woken) = waiting.as_mut().poll(cx) else {
                    if !std::mem::take(&mut asked_for_nothing) {
                        return Poll::Pending;
                    }
                    this.suspect();
                    if this.waiting.is_some() {
                        return Poll::Pending;
                    }
                    continue;
                };
                this.waiting = None;
                asked_for_nothing = false;
                match woken {
                    Woken::Moved => {}
                    Woken::Due => return give(this.comment()),
                    Woken::Stopped => {
                        this.ended = true;
                        return Poll::Ready(None);
                    }
                }
            }
            if let Some(text) = this.news() {
                if this.probes_left == 0 {
                    this.due = Instant::now() + KEEP_ALIVE;
                }
                return give(text);
            }
            this.waiting = Some(this.wait());
        }
    }
}

/// Says that what lies before `oldest` is not to be had. Its id keeps a client that comes back from being told again.
fn resync(oldest: u64, newest: u64) -> String {
    let before = oldest.saturating_sub(1);
    format!("id: {before}\nevent: resync\ndata: {{\"oldest\":{oldest},\"newest\":{newest}}}\n\n")
}
