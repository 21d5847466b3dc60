//! RmqClient: takes rows of any method and ranges, splits them into messages, sees to it that each reaches the worker of
//! its range, and says how many are stored. Many calls go on at once. It answers operators, too.

use std::{sync::Arc, time::Duration};

use orchestrator_supervise::{
    Answer, AskError, Child, ChildCx, ConsoleError, ConsoleReply, ConsoleRequest, Exit, Handle, Message,
    Outbox, Reply, StartCx, metrics,
};
use serde_json::json;

use crate::{
    call::{CallError, Receipt, Route},
    edge::amqp::DEAD_LETTER,
    json::show,
    messages::{DeadLetterRequest, ReadRequest, Refusal},
    row::Rows,
    stopwatch::{Sample, Stopwatch},
    store::{Question, StoreError},
    verbs::{self, Addition, Bad, Group},
};

const VERBS: &str = "add, get, find-first, find-all, stats, dead-letters";
/// How long a call of the endpoint's console may take: a little less than that waits.
pub(crate) const CONSOLE_LIMIT: Duration = Duration::from_millis(1_800);
/// The methods that it has, by their names in the original's interface; `stats` is ours.
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

/// Rows of one method to be stored.
#[derive(Debug)]
pub struct AddRows {
    /// In order; repeated keys are resolved where they meet.
    pub rows: Rows,
    /// What became of them. Dropped = the client ended: add them again, which changes nothing that is stored.
    pub reply: Reply<Result<Receipt, CallError>>,
}

impl Message for AddRows {
    type Result = ();
}

metrics! {
    /// Metrics of the client.
    struct ClientMetrics {
        /// Calls of the client.
        calls: counter("calls"),
        /// Rows that callers of the client were told are stored.
        rows: counter("rows") as "acked",
        /// Calls of the client that nobody can say were stored.
        failed: counter("calls") as "failed_calls",
    }
}

/// The actor.
#[derive(Debug)]
pub(crate) struct RmqClient {
    route: Arc<Route>,
    reads: Outbox<ReadRequest>,
    /// How long an operator's call may take.
    limit: Duration,
    stopwatch: Stopwatch,
    metrics: ClientMetrics,
}

impl Child for RmqClient {
    fn started(&mut self, _cx: &mut ChildCx<'_, Self>) {
        self.time_here("open");
    }

    fn stopped(&mut self, _exit: &Exit) {
        self.time_here("close");
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
        Self {
            route,
            reads,
            limit,
            stopwatch: Stopwatch::new(&cx.vitals, statsd, METHODS),
            metrics: ClientMetrics::register(&cx.vitals),
        }
    }

    fn count(&self, stored: Result<u64, &CallError>) {
        self.metrics.calls.add(1);
        match stored {
            Ok(stored) => self.metrics.rows.add(stored),
            Err(_) => self.metrics.failed.add(1),
        }
    }

    /// Opening and closing take the publisher's time, who times them itself; without a broker they are done at once.
    fn time_here(&self, method: &'static str) {
        if self.route.is_embedded() {
            drop(self.stopwatch.start(method));
        }
    }

    /// Adds an operator's rows.
    fn add(&self, cx: &mut ChildCx<'_, Self>, addition: Addition) -> Answer<Self, ConsoleReply> {
        let Addition { groups, mut bad, batch } = addition;
        let (route, stopwatch) = (self.route.clone(), self.stopwatch.clone());
        let call = async move {
            let (mut stored, mut refused) = (0, Vec::new());
            for Group { rows, places } in groups {
                let _lap = stopwatch.start(rows.method().name());
                let receipt = route.add(rows, batch).await?;
                stored += receipt.stored;
                let named = |Refusal { index, reason }| Bad { index: places[index as usize], reason };
                refused.extend(receipt.refused.into_iter().map(named));
            }
            Ok((stored, refused))
        };
        cx.atomically(tokio::time::timeout(self.limit, call), move |client, outcome, _| {
            let outcome = outcome.unwrap_or_else(|_elapsed| Err(client.route.overdue()));
            client.count(outcome.as_ref().map(|(stored, _)| *stored));
            let (stored, refused) = outcome.map_err(|error| ConsoleError::Refused(error.to_string()))?;
            bad.extend(refused);
            bad.sort_by_key(|bad| bad.index);
            Ok(json!({ "stored": stored, "bad": bad }))
        })
    }

    fn list_dead_letters(&self, cx: &mut ChildCx<'_, Self>, limit: u32) -> Answer<Self, ConsoleReply> {
        let Some(letters) = self.route.letters() else {
            let text = format!("the broker keeps them: see its queue {DEAD_LETTER}");
            return Answer::now(Err(ConsoleError::Refused(text)));
        };
        let (letters, timeout) = (letters.clone(), self.limit);
        let asked =
            async move { letters.ask(|reply| DeadLetterRequest::List { limit, reply }, timeout).await };
        cx.atomically(asked, |_, answer, _| {
            answered(answer, "the file of dead letters", "keeper of dead letters")
                .map(|letters| json!(letters))
        })
    }

    fn ask(&self, cx: &mut ChildCx<'_, Self>, question: Question) -> Answer<Self, ConsoleReply> {
        let lap = self.stopwatch.start(question.method());
        let (reads, timeout) = (self.reads.clone(), self.limit);
        let asked = async move { reads.ask(|reply| ReadRequest { question, reply }, timeout).await };
        cx.atomically(asked, |_, answer, _| {
            drop(lap);
            answered(answer, "the store", "reader").map(show)
        })
    }
}

/// What `child` answered about `what`, or why it did not.
fn answered<T>(
    answer: Result<Result<T, StoreError>, AskError>,
    what: &str,
    child: &str,
) -> Result<T, ConsoleError> {
    let answer = answer.map_err(|error| match error {
        AskError::TimedOut(_) => format!("{what} did not answer in time: ask again, or for less"),
        AskError::Lost => format!("the {child} was restarted before it answered: ask again"),
        AskError::Full(_) => error.to_string(),
    });
    answer.and_then(|answer| answer.map_err(|error| error.to_string())).map_err(ConsoleError::Refused)
}

impl Handle<AddRows> for RmqClient {
    fn handle(&mut self, AddRows { rows, reply }: AddRows, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        let (route, lap) = (self.route.clone(), self.stopwatch.start(rows.method().name()));
        let call = async move {
            let _lap = lap;
            route.add(rows, None).await
        };
        cx.spawn(call, move |client, outcome, _| {
            client.count(outcome.as_ref().map(|receipt| receipt.stored));
            // Whoever asked may have given up.
            let _ = reply.send(outcome);
        });
        Answer::done()
    }
}

impl Handle<ConsoleRequest> for RmqClient {
    fn handle(&mut self, request: ConsoleRequest, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ConsoleReply> {
        let args = request.args;
        let asked = match request.verb.as_str() {
            "add" => {
                return match verbs::add(args) {
                    Ok(addition) => self.add(cx, addition),
                    Err(error) => Answer::now(Err(error)),
                };
            }
            "get" => verbs::get(args),
            "find-first" => verbs::find(args).map(|(id, _)| Question::FindFirst(id)),
            "find-all" => verbs::find(args).map(|(id, limit)| Question::FindAll { id, limit }),
            "stats" => Ok(Question::Counts),
            "dead-letters" => {
                return match verbs::dead_letters(args) {
                    Ok(limit) => self.list_dead_letters(cx, limit),
                    Err(error) => Answer::now(Err(error)),
                };
            }
            _ => Err(ConsoleError::UnknownVerb(VERBS.to_owned())),
        };
        match asked {
            Ok(question) => self.ask(cx, question),
            Err(error) => Answer::now(Err(error)),
        }
    }
}
