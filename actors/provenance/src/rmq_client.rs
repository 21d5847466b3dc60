//! Client actor: splits rows of one method into messages by range, delivers each to its worker, and
//! reports how many rows are stored. Calls run concurrently. The actor also answers the console.

mod explain;

use std::{sync::Arc, time::Duration};

use crate::{
    call::{CallError, Route},
    call_timers::{CallTimers, Sample},
    edge::amqp::DEAD_LETTER,
    json::{Attributes, OccurrenceRow},
    messages::{DeadLetterRequest, Outcome, ReadRequest, Refusal},
    pending_calls::PendingCalls,
    row::Rows,
    store::{Query, QueryResult, StoreError},
    verbs::{
        self, Add, AddArguments, Added, FindAll, FindFirst, Get, ListDeadLetters, MethodRows, Stats,
        WaitAdded,
    },
};
use orchestrator_observe::metrics;
use orchestrator_subsystem::{Answered, ConsoleError, ConsoleReply};
use orchestrator_supervise::{
    AskError, Child, ChildCx, Exit, Handle, Handled, Message, Outbox, Reply, StartCx, StopToken, Vitals,
};

/// Time-out of a console call; the admin endpoint waits slightly longer.
pub(crate) const CONSOLE_LIMIT: Duration = Duration::from_millis(1_800);
/// Time for which a stop waits for the answer to a console call.
const STOP_GRACE: Duration = Duration::from_millis(300);
/// Timed methods, by their names in the original's interface; `stats` is an addition.
const METHODS: [&str; 13] = [
    "content_add",
    "directory_add",
    "revision_add",
    "origin_add",
    "location_add",
    "relation_add",
    "content_get",
    "directory_get",
    "revision_get",
    "origin_get",
    "content_find_first",
    "content_find_all",
    "stats",
];

/// Request to store rows of one method.
#[derive(Debug)]
pub(crate) struct AddRows {
    /// Rows in order; keys may repeat.
    pub rows: Rows,
    /// Receives the result. A dropped reply means that the client ended: add the rows again, which
    /// changes nothing that is stored.
    pub reply: Reply<Result<Outcome, CallError>>,
}

impl Message for AddRows {
    type Result = ();
}

metrics! {
    /// Metrics of the client.
    struct ClientMetrics {
        /// Calls of the client.
        calls: counter("calls"),
        /// Rows that the client reported to its callers as stored.
        rows: counter("rows") as "acked",
        /// Calls of the client that failed, so that it is unknown whether their rows are stored.
        failed: counter("calls") as "failed_calls",
    }
}

#[derive(Debug)]
pub(crate) struct RmqClient {
    route: Arc<Route>,
    reads: Outbox<ReadRequest>,
    /// Time-out of a console call.
    limit: Duration,
    call_timers: CallTimers,
    /// Calls of `add` that were answered before their rows were stored.
    pending_calls: PendingCalls,
    metrics: ClientMetrics,
    vitals: Arc<Vitals>,
    stop: StopToken,
}

impl Child for RmqClient {
    fn started(&mut self, _cx: &mut ChildCx<'_, Self>) {
        self.time_embedded("open");
    }

    fn stopped(&mut self, _exit: &Exit) {
        self.time_embedded("close");
    }
}

impl RmqClient {
    pub(crate) fn new(
        route: Arc<Route>,
        reads: Outbox<ReadRequest>,
        limit: Duration,
        statsd: Option<Outbox<Sample>>,
        cx: &StartCx,
    ) -> Self {
        cx.vitals.set_work_unit("row");
        Self {
            route,
            reads,
            limit,
            call_timers: CallTimers::new(&cx.vitals, statsd, METHODS),
            pending_calls: PendingCalls::default(),
            metrics: ClientMetrics::register(&cx.vitals),
            vitals: cx.vitals.clone(),
            stop: cx.stop.clone(),
        }
    }

    fn count(&self, stored: Result<u64, &CallError>) {
        self.metrics.calls.add(1);
        match stored {
            Ok(stored) => {
                self.metrics.rows.add(stored);
                self.vitals.record_work();
            }
            Err(_) => self.metrics.failed.add(1),
        }
    }

    /// Waits for `asked`; None if there is no answer shortly after a stop.
    fn unless_stopped<T, F: Future<Output = T>>(
        &self,
        asked: F,
    ) -> impl Future<Output = Option<T>> + use<T, F> {
        let stop = self.stop.clone();
        async move {
            let stopped = async {
                stop.cancelled().await;
                tokio::time::sleep(STOP_GRACE).await;
            };
            tokio::select! {
                biased;
                answer = asked => Some(answer),
                () = stopped => None,
            }
        }
    }

    /// Times `open` and `close` for the embedded transport, where they end at once; the publisher
    /// times them otherwise.
    fn time_embedded(&self, method: &'static str) {
        if self.route.is_embedded() {
            drop(self.call_timers.start(method));
        }
    }

    /// Adds the rows of the console verb `add`. Returns the number of stored rows, and the refused ones.
    fn call(
        &self,
        AddArguments { groups, mut bad, batch }: AddArguments,
    ) -> impl Future<Output = Result<Added, CallError>> + use<> {
        let (route, call_timers) = (self.route.clone(), self.call_timers.clone());
        async move {
            let mut stored = 0;
            for MethodRows { rows, positions } in groups {
                let _timer = call_timers.start(rows.method().name());
                let outcome = route.add(rows, batch).await?;
                stored += outcome.stored;
                let named = |Refusal { index, reason }| Refusal { index: positions[index as usize], reason };
                bad.extend(outcome.refused.into_iter().map(named));
            }
            Refusal::sort(&mut bad);
            Ok(Added { stored, bad, pending: None })
        }
    }

    /// Answers once the rows are stored, or with an error.
    fn add(&self, cx: &mut ChildCx<'_, Self>, arguments: AddArguments) -> Handled<Self, Answered<Add>> {
        let call = tokio::time::timeout(self.limit, self.call(arguments));
        cx.atomically(self.unless_stopped(call), move |client, outcome, _| {
            let outcome = outcome.and_then(Result::ok);
            let outcome = outcome.unwrap_or_else(|| Err(client.route.timeout_error()));
            client.count(outcome.as_ref().map(|added| added.stored));
            outcome.map_err(|error| ConsoleError::Refused(error.to_string()))
        })
    }

    /// Answers once the rows are stored, or with the number of the call.
    fn add_waiting(
        &mut self,
        cx: &mut ChildCx<'_, Self>,
        arguments: AddArguments,
    ) -> Handled<Self, Answered<Add>> {
        let Some((call, ended)) = self.pending_calls.add() else {
            return Handled::now(Err(ConsoleError::Refused("too many calls wait: try again".to_owned())));
        };
        cx.spawn(self.call(arguments), move |client, outcome, _| {
            client.count(outcome.as_ref().map(|added| added.stored));
            // Nobody may wait any more.
            let _ = ended.send(Some(outcome.map_err(|error| error.to_string())));
        });
        self.wait_added(cx, call)
    }

    /// Waits for the end of a call, but only for the time of a console call.
    fn wait_added(&mut self, cx: &mut ChildCx<'_, Self>, call: u64) -> Handled<Self, Answered<Add>> {
        let Some(mut ended) = self.pending_calls.get(call) else {
            let text = format!("there is no call {call}: add the rows again");
            return Handled::now(Err(ConsoleError::BadArguments(text)));
        };
        let (reply, answer) = Handled::later();
        let limit = self.limit;
        let waited = async move {
            let ended = tokio::time::timeout(limit, ended.wait_for(Option::is_some)).await;
            ended.ok()?.ok()?.clone()
        };
        cx.spawn(waited, move |client, outcome, _| {
            let answer = match outcome {
                None => Ok(Added { stored: 0, bad: Vec::new(), pending: Some(call) }),
                Some(outcome) => outcome.map_err(ConsoleError::Refused),
            };
            let is_pending = answer.as_ref().is_ok_and(|added| added.pending.is_some());
            // An answer that nobody takes is asked for again.
            if reply.send(answer).is_ok() && !is_pending {
                client.pending_calls.remove(call);
            }
        });
        answer
    }

    fn list_dead_letters(
        &self,
        cx: &mut ChildCx<'_, Self>,
        limit: u32,
    ) -> Handled<Self, Answered<ListDeadLetters>> {
        let Some(letters) = self.route.letters() else {
            let text = format!("dead letters are in the broker's queue {DEAD_LETTER}");
            return Handled::now(Err(ConsoleError::Refused(text)));
        };
        let (letters, timeout) = (letters.clone(), self.limit);
        let asked =
            async move { letters.ask(|reply| DeadLetterRequest::List { limit, reply }, timeout).await };
        cx.atomically(self.unless_stopped(asked), |_, answer, _| {
            let answer = answer.unwrap_or(Err(AskError::Lost));
            answered(answer, "the file of dead letters", "child `dead_letters`")
        })
    }

    /// Asks the reader; `read` takes the answer out of the result, which fits the query.
    fn ask<T: Send + 'static>(
        &self,
        cx: &mut ChildCx<'_, Self>,
        query: ConsoleReply<Query>,
        read: fn(QueryResult) -> Option<T>,
    ) -> Handled<Self, ConsoleReply<T>> {
        let query = match query {
            Ok(query) => query,
            Err(error) => return Handled::now(Err(error)),
        };
        let timer = self.call_timers.start(query.method());
        let (reads, timeout) = (self.reads.clone(), self.limit);
        let asked = async move { reads.ask(|reply| ReadRequest { query, reply }, timeout).await };
        cx.atomically(self.unless_stopped(asked), move |_, answer, _| {
            drop(timer);
            let answer = answer.unwrap_or(Err(AskError::Lost));
            let unexpected = || ConsoleError::Refused("the store answered another query".to_owned());
            read(answered(answer, "the store", "reader")?).ok_or_else(unexpected)
        })
    }
}

/// Returns the answer of `child` about `what`, or the reason why there is none.
fn answered<T>(
    answer: Result<Result<T, StoreError>, AskError>,
    what: &str,
    child: &str,
) -> Result<T, ConsoleError> {
    let answer = answer.map_err(|error| match error {
        AskError::TimedOut(_) => {
            format!("{what} did not answer in time: repeat the command, or ask for less")
        }
        AskError::Lost => format!("the {child} was restarted before it answered: repeat the command"),
        AskError::Full(_) => error.to_string(),
    });
    answer.and_then(|answer| answer.map_err(|error| error.to_string())).map_err(ConsoleError::Refused)
}

impl Handle<AddRows> for RmqClient {
    fn handle(&mut self, AddRows { rows, reply }: AddRows, cx: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        let (route, timer) = (self.route.clone(), self.call_timers.start(rows.method().name()));
        let call = async move {
            let _timer = timer;
            route.add(rows, None).await
        };
        cx.spawn(call, move |client, outcome, _| {
            client.count(outcome.as_ref().map(|outcome| outcome.stored));
            // The caller may have given up.
            let _ = reply.send(outcome);
        });
        Handled::done()
    }
}

impl Handle<Add> for RmqClient {
    fn handle(&mut self, add: Add, cx: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Add>> {
        let wait = add.wait;
        match verbs::add(add) {
            Ok(arguments) if wait => self.add_waiting(cx, arguments),
            Ok(arguments) => self.add(cx, arguments),
            Err(error) => Handled::now(Err(error)),
        }
    }
}

impl Handle<WaitAdded> for RmqClient {
    fn handle(
        &mut self,
        WaitAdded { call }: WaitAdded,
        cx: &mut ChildCx<'_, Self>,
    ) -> Handled<Self, Answered<WaitAdded>> {
        self.wait_added(cx, call)
    }
}

impl Handle<Get> for RmqClient {
    fn handle(&mut self, get: Get, cx: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Get>> {
        self.ask(cx, verbs::get(get), Attributes::of)
    }
}

impl Handle<FindFirst> for RmqClient {
    fn handle(&mut self, find: FindFirst, cx: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<FindFirst>> {
        self.ask(cx, verbs::content(&find.id).map(Query::FindFirst), OccurrenceRow::all_of)
    }
}

impl Handle<FindAll> for RmqClient {
    fn handle(&mut self, find: FindAll, cx: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<FindAll>> {
        let query = verbs::content(&find.id).map(|id| Query::FindAll { id, limit: find.limit });
        self.ask(cx, query, OccurrenceRow::all_of)
    }
}

impl Handle<Stats> for RmqClient {
    fn handle(&mut self, _: Stats, cx: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Stats>> {
        self.ask(cx, Ok(Query::Counts), |found| match found {
            QueryResult::Counts(counts) => Some(counts),
            _ => None,
        })
    }
}

impl Handle<ListDeadLetters> for RmqClient {
    fn handle(
        &mut self,
        list: ListDeadLetters,
        cx: &mut ChildCx<'_, Self>,
    ) -> Handled<Self, Answered<ListDeadLetters>> {
        match verbs::letters(list.limit) {
            Ok(limit) => self.list_dead_letters(cx, limit),
            Err(error) => Handled::now(Err(error)),
        }
    }
}
