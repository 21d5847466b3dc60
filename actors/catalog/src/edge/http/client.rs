//! Execution of one request: connection, credentials, retries and classification of the answer.

use std::{convert::Infallible, fmt, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::{HeaderMap, Method, StatusCode};
use jiff::Timestamp;
use orchestrator_edge::{
    LinkState, PeerError, PeerErrorKind, RetryPolicy, Sent,
    http::{Connection, Pool, Request, Response},
};
use orchestrator_observe::{FailureKind, LinkFailure};
use orchestrator_subsystem::Secret;
use orchestrator_supervise::{StartCx, StopToken};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore, mpsc},
    time::{Instant, sleep_until},
};

use super::{
    classify::{classify, describe_answer, is_aborted, retry_after_of},
    endpoint::{CatalogEndpoint, Timeouts},
    identity::{AuthHeader, Identity},
    metrics::HttpMetrics,
    request::{login, read, write},
};
use crate::{
    edge::credentials::Source,
    request_retries::{Attempts, Failure},
    service::{AFTER_ABORT, CatalogResponse, Get, Put, RequestError},
};

/// Maximum number of concurrent reads.
pub(super) const READS: usize = 4;
/// Maximum number of concurrent writes: concurrent writes abort each other's transactions.
pub(super) const WRITES: usize = 1;

/// A write that no caller need wait for. It returns None if the incarnation ends first.
pub(super) type AnyWrite = BoxFuture<'static, Option<Result<Bytes, RequestError>>>;

const SERVER_HINT: &str = "check that it runs there, and that base is right";
const TLS_HINT: &str =
    "check that the server speaks TLS, and that ca_file has the authority of its certificate";

/// State that all requests of one incarnation share.
pub(super) struct CatalogClient {
    /// Receiver of writes whose callers have gone.
    pub(super) abandoned_writes: mpsc::UnboundedSender<AnyWrite>,
    /// Cancelled at the end of the incarnation.
    pub(super) ended: StopToken,
    /// Permits of the requests in progress.
    in_progress: Semaphore,
    endpoint: CatalogEndpoint,
    identity: Identity,
    pool: Pool,
    metrics: HttpMetrics,
    link: LinkState,
    /// Time of the next probe of an unavailable server, which keeps its link up to date.
    next_probe: Mutex<Option<Instant>>,
    became_unavailable: Notify,
    /// End of the server's `Retry-After`.
    retry_after_until: Mutex<Option<Instant>>,
    cx: StartCx,
}

impl CatalogClient {
    pub(super) fn new(
        endpoint: CatalogEndpoint,
        source: Source,
        cx: StartCx,
        abandoned_writes: mpsc::UnboundedSender<AnyWrite>,
    ) -> Self {
        Self {
            abandoned_writes,
            ended: StopToken::new(),
            in_progress: Semaphore::new(READS + WRITES),
            identity: Identity::new(source, endpoint.host()),
            link: LinkState::new(&cx, "ermrest", endpoint.url(), RetryPolicy::REMOTE),
            endpoint,
            pool: Pool::default(),
            metrics: HttpMetrics::register(&cx.vitals),
            next_probe: Mutex::default(),
            became_unavailable: Notify::new(),
            retry_after_until: Mutex::default(),
            cx,
        }
    }

    /// Maintains idle connections and probes an unavailable server. Never ends.
    pub(super) async fn run_background(&self) -> Infallible {
        tokio::select! {
            never = self.pool.maintain() => never,
            never = self.probe_until_up() => never,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.cx.stop.is_cancelled()
    }

    /// Waits for a stop and the end of all requests in progress.
    pub(super) async fn drained(&self) {
        self.cx.stop.cancelled().await;
        // No requests begin any more. The semaphore is never closed.
        let _ = self.in_progress.acquire_many((READS + WRITES) as u32).await;
    }

    /// Carries out a request. Returns None if the incarnation ends before.
    pub(super) async fn carry_out<T>(&self, request: impl Future<Output = T>) -> Option<T> {
        let _in_progress = self.in_progress.acquire().await;
        self.ended.run_until_cancelled(request).await
    }

    /// Reads rows. `what` describes the request, here and below.
    pub(super) async fn get(&self, get: &Get, what: &str) -> Result<CatalogResponse, RequestError> {
        self.execute(&read(&self.endpoint, get)?, what, false).await.map(CatalogResponse::from)
    }

    /// Writes rows. An aborted claim is not repeated; its agent polls again.
    pub(super) async fn put(&self, put: &Put, what: &str, is_claim: bool) -> Result<Bytes, RequestError> {
        Ok(self.execute(&write(&self.endpoint, put)?, what, is_claim).await?.body)
    }

    async fn execute(&self, request: &Request, what: &str, is_claim: bool) -> Result<Response, RequestError> {
        let is_get = request.method() == Method::GET;
        let _work = self.cx.vitals.begin_work(if is_get { "get" } else { "put" });
        let begun = Instant::now();
        let (mut reloaded, mut attempts) = (false, Attempts::default());
        loop {
            self.wait_for_retry_after().await?;
            let auth = self.identity.auth_header(|user, password| self.log_in(user, password)).await?;
            let answer = match self.send(request, what, &auth).await {
                Ok(answer) => answer,
                Err((error, failure)) => {
                    self.pause_before_retry(&mut attempts, failure, begun, error).await?;
                    continue;
                }
            };
            if is_aborted(&answer) {
                self.metrics.count_aborted();
                if is_claim {
                    // Another agent probably has the rows now.
                    return Err(RequestError::Aborted);
                }
                self.pause_after_abort(begun, what).await?;
                continue;
            }
            if let Some(span) = retry_after_of(&answer, Timestamp::now()) {
                return Err(self.apply_retry_after(&answer, span, what));
            }
            let is_listed = self.endpoint.retries.lists(answer.status.as_u16());
            match classify(answer, is_get, what) {
                Err(error) if is_listed => {
                    let (error, failure) = listed(error, is_get);
                    self.pause_before_retry(&mut attempts, failure, begun, error).await?;
                }
                Err(RequestError::Unauthorized(_)) if !reloaded => {
                    reloaded = true;
                    self.identity.invalidate(&auth).await;
                }
                Err(RequestError::Unauthorized(failure)) if failure.help.is_none() => {
                    return Err(RequestError::Unauthorized(failure.with_help(self.identity.advice())));
                }
                outcome => return outcome,
            }
        }
    }

    /// Pauses all requests for `span`, which the server asks for in `answer`.
    fn apply_retry_after(&self, answer: &Response, span: Duration, what: &str) -> RequestError {
        let Timeouts { too_many_requests_max, unavailable_max, .. } = self.endpoint.timeouts;
        let max = if answer.status == StatusCode::TOO_MANY_REQUESTS {
            too_many_requests_max
        } else {
            unavailable_max
        };
        let span = span.min(max).min(self.cx.vitals.link_retry_max());
        *self.retry_after_until.lock() = Some(Instant::now() + span);
        let text = describe_answer(answer, what);
        let text = format!("{text}: no request is sent for {} ms", span.as_millis());
        self.cx.vitals.note(text.as_str());
        RequestError::Unavailable(text)
    }

    /// Waits for the end of `Retry-After`.
    async fn wait_for_retry_after(&self) -> Result<(), RequestError> {
        loop {
            let until = *self.retry_after_until.lock();
            let Some(until) = until.filter(|until| *until > Instant::now()) else { return Ok(()) };
            self.wait(until - Instant::now()).await?;
        }
    }

    async fn wait(&self, span: Duration) -> Result<(), RequestError> {
        if self.link.wait(span).await { Ok(()) } else { Err(stopping()) }
    }

    async fn pause_after_abort(&self, begun: Instant, what: &str) -> Result<(), RequestError> {
        let limit = self.endpoint.timeouts.aborted;
        if begun.elapsed() >= limit {
            return Err(RequestError::Unavailable(format!(
                "the server has aborted {what} for {limit:?}: too many concurrent writes"
            )));
        }
        self.wait(AFTER_ABORT.spread()).await
    }

    /// Waits before another attempt. Fails if there is none: by `error`, or because the process ends.
    async fn pause_before_retry(
        &self,
        attempts: &mut Attempts,
        failure: Option<Failure>,
        begun: Instant,
        error: RequestError,
    ) -> Result<(), RequestError> {
        let retries = &self.endpoint.retries;
        let delay = failure.and_then(|failure| attempts.failed(failure, retries, begun.elapsed()));
        let Some(delay) = delay else { return Err(error) };
        self.wait(delay).await
    }

    /// Sends the request once. An error comes with the kind of failure if the request may be repeated.
    async fn send(
        &self,
        request: &Request,
        what: &str,
        auth: &AuthHeader,
    ) -> Result<Response, (RequestError, Option<Failure>)> {
        let is_get = request.method() == Method::GET;
        let mut request = request.clone();
        request.headers_mut().extend(auth.clone());
        let begun = Instant::now();
        let _in_flight = self.metrics.begin();
        let answer = self.exchange(request, is_get).await;
        let status = answer.as_ref().ok().map(|answer| answer.status);
        self.metrics.count(status, is_get, begun.elapsed());
        answer.map_err(|error| match error.sent {
            _ if error.kind == PeerErrorKind::TooLarge && is_get => {
                (RequestError::Rejected(format!("{what}: {}", self.explain(&error))), None)
            }
            sent if is_get || sent == Sent::No => {
                let failure = if sent == Sent::No { Failure::Connect } else { Failure::Read };
                let text = format!("no answer to {what}: {}", self.explain(&error));
                (RequestError::Unavailable(text), Some(failure))
            }
            _ => {
                let text = format!("whether {what} was carried out is not known: {}", self.explain(&error));
                (RequestError::OutcomeUnknown(text), None)
            }
        })
    }

    /// Sends one request over a kept or a new connection. A kept connection that the server closed
    /// is replaced.
    async fn exchange(&self, request: Request, repeatable: bool) -> Result<Response, PeerError> {
        let (mut kept, pending) = (self.pool.take(), self.link.request());
        let error = loop {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => match self.connect().await {
                    Ok(connection) => connection,
                    Err(error) => break error,
                },
            };
            let fresh = !connection.is_used();
            match connection.exchange(request.clone(), self.endpoint.limits()).await {
                Ok(answer) => {
                    self.pool.put(connection);
                    drop(pending);
                    self.report_available(&answer);
                    return Ok(answer);
                }
                // The server closed the kept connection.
                Err(PeerError { kind: PeerErrorKind::Lost, sent, .. })
                    if !fresh && (sent == Sent::No || sent == Sent::Maybe && repeatable) => {}
                // The server works, so the link stays up.
                Err(error) if error.kind == PeerErrorKind::TooLarge => return Err(error),
                Err(error) => break error,
            }
        };
        drop(pending);
        self.report_unavailable(&error.clone().map_text(|_| self.explain(&error)));
        Err(error)
    }

    async fn connect(&self) -> Result<Connection, PeerError> {
        let Timeouts { connect, idle, .. } = self.endpoint.timeouts;
        Connection::open_keep_alive(&self.endpoint.server, connect, idle).await
    }

    /// Describes an error for operators: which server, and what to do.
    fn explain(&self, error: &PeerError) -> String {
        let at = self.endpoint.url();
        match (error.kind, error.sent) {
            (PeerErrorKind::Connect, _) | (PeerErrorKind::Timeout, Sent::No) => {
                format!("cannot connect to {at}: {}: {SERVER_HINT}", error.text)
            }
            (PeerErrorKind::Tls, _) => format!("cannot connect to {at}: {}: {TLS_HINT}", error.text),
            (PeerErrorKind::TooLarge, _) => format!("{}: ask for fewer rows at once", error.text),
            _ => error.text.clone(),
        }
    }

    async fn log_in(&self, user: String, password: Secret) -> Result<HeaderMap, RequestError> {
        let answer = self.exchange(login(&self.endpoint, &user, &password), false).await;
        let answer = answer.map_err(|error| {
            RequestError::Unavailable(format!("no answer to the login: {}", self.explain(&error)))
        })?;
        let status = answer.status.as_u16();
        if answer.status.is_success() {
            return Ok(answer.headers);
        }
        let text = format!("the server answers the login with {status}");
        Err(match status {
            408 | 429 | 500..=599 => RequestError::Unavailable(text),
            _ => RequestError::Unauthorized(LinkFailure::refused(text, self.identity.advice())),
        })
    }

    /// Marks the link as up. Only a successful answer counts as progress: a server that refuses
    /// everything is probed less and less often.
    fn report_available(&self, answer: &Response) {
        *self.next_probe.lock() = None;
        if answer.status.is_success() || answer.status == StatusCode::NOT_MODIFIED {
            self.link.succeeded();
        } else {
            self.link.connected();
        }
    }

    /// Shows the outage of a rule. A server that is away is shown by the link itself.
    pub(super) fn show_outage(&self, rule: &str, outage: Option<(LinkFailure, Duration)>) {
        let link = self.link.reporter();
        match outage {
            Some((failure, retry_in)) => {
                let reason = format!("rule {rule}: {}", failure.reason);
                link.refused(rule, LinkFailure { reason, kind: FailureKind::Refused, ..failure }, retry_in);
            }
            None => link.accepted(rule),
        }
    }

    fn report_unavailable(&self, error: &PeerError) {
        let delay = self.link.failed(error);
        *self.next_probe.lock() = Some(Instant::now() + delay);
        self.became_unavailable.notify_one();
    }

    /// Requests the catalog itself until an unavailable server answers, so that its return shows
    /// without other requests.
    async fn probe_until_up(&self) -> Infallible {
        let catalog = Get { path: String::new(), if_none_match: None };
        loop {
            let next_probe = || *self.next_probe.lock();
            let Some(at) = next_probe() else {
                self.became_unavailable.notified().await;
                continue;
            };
            // `Retry-After` delays probes, too.
            let retry_after_until = *self.retry_after_until.lock();
            sleep_until(retry_after_until.map_or(at, |until| until.max(at))).await;
            let is_due = next_probe().is_some_and(|next_probe| next_probe <= Instant::now());
            if is_due && let Ok(request) = read(&self.endpoint, &catalog) {
                // Any answer will do, so no credentials are needed. A failure updates the link.
                let _ = self.exchange(request, true).await;
            }
        }
    }
}

impl fmt::Debug for CatalogClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogClient").field("url", &self.endpoint.url()).finish_non_exhaustive()
    }
}

impl From<String> for RequestError {
    /// Missing or unusable credentials.
    fn from(reason: String) -> Self {
        Self::Unauthorized(LinkFailure::new(FailureKind::Unusable, reason))
    }
}

/// A listed status means that the request may succeed later. Only reads are repeated at once, since the
/// progress of a write is unknown.
fn listed(error: RequestError, is_get: bool) -> (RequestError, Option<Failure>) {
    let error = match error {
        RequestError::Rejected(text) | RequestError::NotFound(text) => RequestError::Unavailable(text),
        error => error,
    };
    (error, is_get.then_some(Failure::Status))
}

fn stopping() -> RequestError {
    RequestError::Unavailable("the process is stopping".to_owned())
}
