//! The actor that answers operators and pauses hand-outs. Jobs go from the store to the worker
//! socket without it.

use orchestrator_supervise::{
    Answer, Child, ChildCx, ConsoleError, ConsoleReply, ConsoleRequest, Durable, Handle, Outbox, Reply,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::messages::{self, Chore, StoreRequest};

const VERBS: &str = "ls, peek, stats, requeue, pause, resume";
/// Default and maximum number of jobs shown by `peek`.
const PEEK_DEFAULT: usize = 10;
const PEEK_MAX: usize = 1_000;

/// State of the actor: its outboxes and the pause switch.
#[derive(Debug)]
pub(crate) struct QueueConsole {
    pub(crate) requests: Outbox<StoreRequest>,
    pub(crate) chores: Outbox<Chore>,
    pub(crate) paused: Durable<bool>,
}

impl Child for QueueConsole {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        self.report_pause(cx);
    }
}

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
                    let n = args.n.unwrap_or(PEEK_DEFAULT).min(PEEK_MAX);
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
            "pause" => self.set_paused(true, cx),
            "resume" => self.set_paused(false, cx),
            _ => Answer::now(Err(ConsoleError::UnknownVerb(VERBS.to_owned()))),
        }
    }
}

impl QueueConsole {
    /// Pauses or resumes hand-outs. While paused, workers get `NOJOBS`, and their DONE lines still
    /// count.
    fn set_paused(&self, paused: bool, cx: &ChildCx<'_, Self>) -> Answer<Self, ConsoleReply> {
        self.paused.update(|value| *value = paused);
        self.report_pause(cx);
        tracing::info!(paused, "hand-outs paused or resumed");
        Answer::now(Ok(json!({ "paused": paused })))
    }

    fn report_pause(&self, cx: &ChildCx<'_, Self>) {
        if self.paused.get() {
            cx.vitals().set_blocker("paused", "an operator paused hand-outs", "orchestrator queue resume");
        } else {
            cx.vitals().clear_blocker();
        }
    }

    fn requeue(&self, cx: &mut ChildCx<'_, Self>, attr_path: String) -> Answer<Self, ConsoleReply> {
        let answer = match self.requests.request(|reply| StoreRequest::Requeue { attr_path, reply }) {
            Ok(answer) => answer,
            Err(refused) => return Answer::now(Err(ConsoleError::Refused(refused.to_string()))),
        };
        cx.atomically(answer, |_, done, _| {
            let done = done.map_err(|_| store_restarted())?;
            Ok(json!({ "requeued": done.rows, "was_in_flight": done.was_in_flight }))
        })
    }

    /// Sends a question to the housekeeper and formats its answer.
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
            let found = answer.map_err(|_| store_restarted())?;
            found.map(show).map_err(|error| ConsoleError::Refused(error.to_string()))
        })
    }
}

fn store_restarted() -> ConsoleError {
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

/// Parses the arguments, an object; null stands for no arguments.
fn arguments<T: DeserializeOwned>(args: Value) -> Result<T, ConsoleError> {
    let args = if args.is_null() { json!({}) } else { args };
    serde_json::from_value(args).map_err(|error| ConsoleError::BadArguments(error.to_string()))
}
