//! How one request is carried out, from the connection that it gets to the answer that it is given.

use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
    ops::RangeInclusive,
    time::Duration,
};

use hyper::{HeaderMap, StatusCode};
use jiff::Timestamp;
use orchestrator_edge::{
    Reconnect, cap_backoff,
    http::{Connection, HttpError, Pool, Request, Response},
};
use orchestrator_supervise::{Backoff, StartCx};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

use super::{
    figures::Figures,
    identity::{Identity, Who},
    meaning::{held_for, is_aborted, meaning, said},
    place::{Patience, Place},
    request::{Ask, login},
};
use crate::{
    edge::credentials::{Secret, Source},
    service::{Get, Reply, Trouble},
};

/// Between two looks at a server that is away, for the link's sake.
const RETRY: Backoff = Backoff { first: Duration::from_millis(250), max: Duration::from_secs(5) };
/// Between two tries of an aborted transaction, milliseconds: whoever it met must have ended by then, and not begin together with it.
const ABORTED_MS: RangeInclusive<u64> = 20..=200;

const RUNS: &str = "see that it runs there, and that the base is right";

/// All that requests to one catalog share.
pub(super) struct CatalogClient {
    place: Place,
    identity: Identity,
    pool: Pool,
    figures: Figures,
    link: RefCell<Reconnect>,
    /// When a server that is away is looked at again.
    again: Cell<Option<Instant>>,
    went_away: Notify,
    /// Until when the server wants to be left alone.
    held: Cell<Option<Instant>>,
    cx: StartCx,
}

impl CatalogClient {
    pub(super) fn new(place: Place, source: Source, cx: StartCx) -> Self {
        let link = cx.vitals.link("ermrest", place.endpoint());
        Self {
            identity: Identity::new(source, place.host()),
            place,
            pool: Pool::default(),
            figures: Figures::declare(&cx.vitals),
            link: RefCell::new(Reconnect::new(link, RETRY)),
            again: Cell::default(),
            went_away: Notify::new(),
            held: Cell::default(),
            cx,
        }
    }

    /// Looks after idle connections, and at a server that is away. Never ends.
    pub(super) async fn attend(&self) -> Infallible {
        tokio::select! {
            never = self.pool.maintain() => never,
            never = self.look_again() => never,
        }
    }

    /// Carries `ask` out.
    pub(super) async fn carry(&self, ask: &Ask) -> Result<Reply, Trouble> {
        let _in_hand = self.cx.vitals.begin_work(if ask.is_get() { "get" } else { "put" });
        let begun = Instant::now();
        let mut doubted = false;
        loop {
            self.left_alone().await?;
            let who = self.identity.who(async |user, password| self.log_in(user, password).await).await?;
            let answer = self.send(ask, &who).await?;
            if is_aborted(&answer) {
                self.figures.count_aborted();
                self.pause_after_abort(begun, ask).await?;
                continue;
            }
            if let Some(span) = held_for(&answer, Timestamp::now()) {
                return Err(self.hold(&answer, span, ask));
            }
            match meaning(answer, ask.is_get(), &ask.describe()) {
                Err(Trouble::Denied(_)) if !doubted => {
                    doubted = true;
                    self.identity.doubt(&who).await;
                }
                Err(Trouble::Denied(said)) => {
                    return Err(Trouble::Denied(format!("{said}: {}", self.identity.advice())));
                }
                outcome => return outcome,
            }
        }
    }

    /// Leaves the server alone for `span`, which `answer` asks for.
    fn hold(&self, answer: &Response, span: Duration, ask: &Ask) -> Trouble {
        let Patience { hold_max, away_max, .. } = self.place.patience;
        let max = if answer.status == StatusCode::TOO_MANY_REQUESTS { hold_max } else { away_max };
        let span = cap_backoff(Backoff { first: span, max: span.min(max) }).max;
        self.held.set(Some(Instant::now() + span));
        let said = said(answer, &ask.describe());
        let said = format!("{said}: nothing is asked for {} ms", span.as_millis());
        self.cx.vitals.note(said.as_str());
        Trouble::Away(said)
    }

    /// Waits until the server may be asked.
    async fn left_alone(&self) -> Result<(), Trouble> {
        while let Some(until) = self.held.get().filter(|until| *until > Instant::now()) {
            tokio::select! {
                biased;
                () = self.cx.stop.cancelled() => return Err(stopping()),
                () = sleep_until(until) => {}
            }
        }
        Ok(())
    }

    async fn pause_after_abort(&self, begun: Instant, ask: &Ask) -> Result<(), Trouble> {
        let patience = self.place.patience.aborted;
        if begun.elapsed() >= patience {
            let what = ask.describe();
            return Err(Trouble::Away(format!(
                "the server has aborted {what} for {patience:?}: too many write at once"
            )));
        }
        tokio::select! {
            biased;
            () = self.cx.stop.cancelled() => Err(stopping()),
            () = sleep(Duration::from_millis(fastrand::u64(ABORTED_MS))) => Ok(()),
        }
    }

    async fn send(&self, ask: &Ask, who: &Who) -> Result<Response, Trouble> {
        let request = ask.request(&self.place, who.as_ref())?;
        let begun = Instant::now();
        let _under_way = self.figures.begin();
        let answer = self.exchange(request, ask.is_get()).await;
        let status = answer.as_ref().ok().map(|answer| answer.status);
        self.figures.count(status, ask.is_get(), begun.elapsed());
        let what = ask.describe();
        answer.map_err(|error| match &error {
            HttpError::TooLarge(_) if ask.is_get() => {
                Trouble::Refused(format!("{what}: {}", self.explain(&error)))
            }
            _ if ask.is_get() || error.is_unsent() => {
                Trouble::Away(format!("no answer to {what}: {}", self.explain(&error)))
            }
            _ => Trouble::Unsettled(format!(
                "whether {what} was carried out is not known: {}",
                self.explain(&error)
            )),
        })
    }

    /// One request, over a connection that is there or a new one. One that the server closed while it was idle is no reason to fail.
    async fn exchange(&self, request: Request, repeatable: bool) -> Result<Response, HttpError> {
        let mut kept = self.pool.take();
        let error = loop {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => match self.connect().await {
                    Ok(connection) => connection,
                    Err(error) => break error,
                },
            };
            let fresh = !connection.is_used();
            match connection.exchange(request.clone(), self.place.limits()).await {
                Ok(answer) => {
                    self.pool.put(connection);
                    self.came_back(&answer);
                    return Ok(answer);
                }
                Err(HttpError::Unsent(_)) if !fresh => {}
                Err(HttpError::Unanswered(_)) if !fresh && repeatable => {}
                // The server is well.
                Err(error @ HttpError::TooLarge(_)) => return Err(error),
                Err(error) => break error,
            }
        };
        self.went(&self.explain(&error));
        Err(error)
    }

    async fn connect(&self) -> Result<Connection, HttpError> {
        let Patience { connect, idle, .. } = self.place.patience;
        Connection::open_keep_alive(&self.place.server, connect, idle).await
    }

    /// An error for people: which server, and what to do.
    fn explain(&self, error: &HttpError) -> String {
        let at = self.place.endpoint();
        match error {
            HttpError::Connect(_) | HttpError::ConnectTimeout(_) => {
                format!("cannot connect to {at}: {error}: {RUNS}")
            }
            HttpError::Tls(_) => format!("cannot connect to {at}: {error}"),
            HttpError::TooLarge(_) => format!("{error}: ask for fewer rows at once"),
            _ => error.to_string(),
        }
    }

    async fn log_in(&self, user: &str, password: &Secret) -> Result<HeaderMap, Trouble> {
        let answer = self.exchange(login(&self.place, user, password), false).await;
        let answer = answer
            .map_err(|error| Trouble::Away(format!("no answer to the login: {}", self.explain(&error))))?;
        let status = answer.status.as_u16();
        if answer.status.is_success() {
            return Ok(answer.headers);
        }
        let said = format!("the server answers the login with {status}");
        Err(match status {
            408 | 429 | 500..=599 => Trouble::Away(said),
            _ => Trouble::Denied(format!("{said}: {}", self.identity.advice())),
        })
    }

    /// The server is there. Only what it carried out is progress: one that refuses everything is looked at ever less often.
    fn came_back(&self, answer: &Response) {
        self.again.set(None);
        let mut link = self.link.borrow_mut();
        if answer.status.is_success() || answer.status == StatusCode::NOT_MODIFIED {
            link.succeeded();
        } else {
            link.connected();
        }
    }

    fn went(&self, reason: &str) {
        let delay = self.link.borrow_mut().failed(reason);
        self.again.set(Some(Instant::now() + delay));
        self.went_away.notify_one();
    }

    /// Asks a server that is away for the catalog itself until it answers, so that its return is seen without a request of others.
    async fn look_again(&self) -> Infallible {
        let catalog = Ask::Get(Get { path: String::new(), if_none_match: None });
        loop {
            let Some(at) = self.again.get() else {
                self.went_away.notified().await;
                continue;
            };
            // One that wants to be left alone is.
            sleep_until(self.held.get().map_or(at, |held| held.max(at))).await;
            let is_due = self.again.get().is_some_and(|again| again <= Instant::now());
            if is_due && let Ok(request) = catalog.request(&self.place, None) {
                // Who we are does not matter: any answer will do. Without one the link has been told.
                let _ = self.exchange(request, true).await;
            }
        }
    }
}

impl From<String> for Trouble {
    /// Credentials that cannot be had.
    fn from(reason: String) -> Self {
        Self::Denied(reason)
    }
}

fn stopping() -> Trouble {
    Trouble::Away("the process stops".to_owned())
}
