//! The actor QueueConsole: answers operators and holds the switch for hand-outs. Jobs pass from the worker socket straight to
//! the queue store, never through here.

use orchestrator_supervise::{
    Answer, Child, ChildCx, ConsoleError, ConsoleReply, ConsoleRequest, Durable, Handle, Outbox, Reply,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::messages::{self, Chore, StoreRequest};

const VERBS: &str = "ls, peek, stats, requeue, pause, resume";
/// Jobs shown by `peek` when nobody says how many, and at the most.
const PEEK: (usize, usize) = (10, 1_000);

/// The actor.
#[derive(Debug)]
pub(crate) struct QueueConsole {
    pub(crate) requests: Outbox<StoreRequest>,
    pub(crate) chores: Outbox<Chore>,
    pub(crate) paused: Durable<bool>,
}

impl Child for QueueConsole {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeekArgs {
    n: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequeueArgs {
    attr_path: String,
}

impl Handle<ConsoleRequest> for QueueConsole {
    fn handle(&mut self, request: ConsoleRequest, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ConsoleReply> {
        match request.verb.as_str() {
            "ls" => self.ask(cx, Chore::Runs, |runs| {
                runs.into_iter()
                    .map(|run| {
                        json!({
                            "fetcher": run.state.run.fetcher,
                            "run_started": run.state.run.started,
                            "complete": run.state.complete,
                            "deleted": run.deleted,
                            "rows": run.rows,
                        })
                    })
                    .collect()
            }),
            "peek" => match arguments::<PeekArgs>(request.args) {
                Ok(args) => {
                    let n = args.n.unwrap_or(PEEK.0).min(PEEK.1);
                    self.ask(cx, |reply| Chore::Peek(n, reply), |jobs| jobs.into_iter().map(peeked).collect())
                }
                Err(error) => Answer::now(Err(error)),
            },
            "stats" => {
                let paused = self.paused.get();
                self.ask(cx, Chore::Counts, move |counts| {
                    json!({
                        "rows": counts.rows,
                        "ready": counts.ready,
                        "held": counts.held,
                        "logged": counts.logged,
                        "in_flight": counts.in_flight,
                        "paused": paused,
                    })
                })
            }
            "requeue" => match arguments::<RequeueArgs>(request.args) {
                Ok(args) => self.requeue(cx, args.attr_path),
                Err(error) => Answer::now(Err(error)),
            },
            "pause" => self.switch(true),
            "resume" => self.switch(false),
            _ => Answer::now(Err(ConsoleError::UnknownVerb(VERBS.to_owned()))),
        }
    }
}

impl QueueConsole {
    /// While paused every worker is answered `NOJOBS`; what they report done counts as always.
    fn switch(&self, paused: bool) -> Answer<Self, ConsoleReply> {
        self.paused.update(|switch| *switch = paused);
        tracing::info!(paused, "hand-outs switched");
        Answer::now(Ok(json!({ "paused": paused })))
    }

    fn requeue(&self, cx: &mut ChildCx<'_, Self>, attr_path: String) -> Answer<Self, ConsoleReply> {
        let answer = match self.requests.request(|reply| StoreRequest::Requeue { attr_path, reply }) {
            Ok(answer) => answer,
            Err(refused) => return Answer::now(Err(ConsoleError::Refused(refused.to_string()))),
        };
        cx.atomically(answer, |_, done, _| {
            let done = done.map_err(|_| gone())?;
            Ok(json!({ "requeued": done.rows, "was_in_flight": done.was_in_flight }))
        })
    }

    /// Has the housekeeper answer a question.
    fn ask<T: 'static>(
        &self,
        cx: &mut ChildCx<'_, Self>,
        chore: impl FnOnce(Reply<messages::Answer<T>>) -> Chore,
        show: impl FnOnce(T) -> Value + 'static,
    ) -> Answer<Self, ConsoleReply> {
        let answer = match self.chores.request(chore) {
            Ok(answer) => answer,
            Err(refused) => return Answer::now(Err(ConsoleError::Refused(refused.to_string()))),
        };
        cx.atomically(answer, |_, answer, _| {
            let found = answer.map_err(|_| gone())?;
            found.map(show).map_err(|error| ConsoleError::Refused(error.to_string()))
        })
    }
}

fn gone() -> ConsoleError {
    ConsoleError::Refused("the store was restarted before it answered: ask again".to_owned())
}

fn peeked(job: crate::storage::Peeked) -> Value {
    json!({
        "attr_path": job.attr_path,
        "payload": job.payload,
        "fetcher": job.run.fetcher,
        "run_started": job.run.started,
        "last_started": job.last_started,
    })
}

/// Arguments are an object; no arguments may be null.
fn arguments<T: DeserializeOwned>(args: Value) -> Result<T, ConsoleError> {
    let args = if args.is_null() { json!({}) } else { args };
    serde_json::from_value(args).map_err(|error| ConsoleError::BadArguments(error.to_string()))
}
