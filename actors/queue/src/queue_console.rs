//! The actor that answers operators and pauses hand-outs. Jobs go from the store to the worker
//! socket without it.

mod answers;

use std::fmt::Display;

use orchestrator_supervise::{
    Answer, Child, ChildCx, ConsoleError, ConsoleReply, ConsoleRequest, Durable, Fault, Handle, Outbox,
    Reply, sanitize,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    edge::unix_time::unix_time,
    messages::{self, Chore, StoreRequest},
    refused_links::RefusedLinks,
    storage::{Bumped, FailedAttempts},
};

const VERBS: &str = "ls, peek, stats, show, in-flight, failed, stale, bump, requeue, pause, resume";
/// Verbs that change nothing.
pub(crate) const READS: &[&str] = &["ls", "peek", "stats", "show", "in-flight", "failed", "stale"];
/// Default number of jobs shown by `peek`.
const PEEK_DEFAULT: usize = 10;
/// Default number of rows of other lists.
const LIST_DEFAULT: usize = 100;
/// Default number of attempts shown by `show`.
const SHOW_DEFAULT: usize = 20;
/// Maximum number of rows of an answer.
const ROWS_MAX: usize = 1_000;
/// Default number of days of `stale`.
const STALE_DAYS: u32 = 30;
const SECONDS_PER_DAY: i64 = 86_400;

/// State of the actor: its outboxes and the pause switch.
#[derive(Debug, Clone)]
pub(crate) struct QueueConsole {
    pub(crate) requests: Outbox<StoreRequest>,
    pub(crate) chores: Outbox<Chore>,
    pub(crate) paused: Durable<bool>,
    pub(crate) refused_links: RefusedLinks,
}

/// Answer to a verb, or the reason why it is refused.
type Answered = Result<Answer<QueueConsole, ConsoleReply>, ConsoleError>;

impl Child for QueueConsole {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        self.report_pause(cx);
    }
}

/// Arguments of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    n: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShowArgs {
    attr_path: String,
    n: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailedArgs {
    code: Option<i64>,
    /// Unix time, in seconds.
    since: Option<i64>,
    n: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StaleArgs {
    days: Option<u32>,
    n: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AttrArgs {
    attr_path: String,
}

impl Handle<ConsoleRequest> for QueueConsole {
    fn handle(&mut self, request: ConsoleRequest, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ConsoleReply> {
        self.execute(request, cx).unwrap_or_else(|error| Answer::now(Err(error)))
    }
}

impl QueueConsole {
    fn execute(&self, request: ConsoleRequest, cx: &mut ChildCx<'_, Self>) -> Answered {
        let args = request.args;
        match request.verb.as_str() {
            "ls" => {
                let refused = self.refused_links.rows();
                self.ask(cx, Chore::Runs, |runs| runs.iter().map(|run| json!(run)).chain(refused).collect())
            }
            "peek" => {
                let n = rows(arguments::<ListArgs>(args)?.n, PEEK_DEFAULT);
                self.ask(cx, |reply| Chore::Peek(n, reply), |jobs| json!(jobs))
            }
            "stats" => {
                let paused = self.paused.get();
                self.ask(cx, Chore::Counts, move |counts| answers::counts(&counts, paused))
            }
            "show" => {
                let ShowArgs { attr_path, n } = arguments(args)?;
                let (asked, n) = (attr_path.clone(), rows(n, SHOW_DEFAULT));
                self.ask(
                    cx,
                    |reply| Chore::Attr(asked, n, reply),
                    move |found| answers::attr(&attr_path, found),
                )
            }
            "in-flight" => {
                let n = rows(arguments::<ListArgs>(args)?.n, LIST_DEFAULT);
                self.ask(cx, |reply| Chore::InFlight(n, reply), |jobs| answers::in_flight(jobs, unix_time()))
            }
            "failed" => {
                let FailedArgs { code, since, n } = arguments(args)?;
                let which = FailedAttempts { exit_code: code, since, limit: rows(n, LIST_DEFAULT) };
                self.ask(cx, |reply| Chore::Failed(which, reply), answers::attempts)
            }
            "stale" => {
                let StaleArgs { days, n } = arguments(args)?;
                let age = i64::from(days.unwrap_or(STALE_DAYS)) * SECONDS_PER_DAY;
                let (before, n) = (unix_time() - age, rows(n, LIST_DEFAULT));
                self.ask(cx, |reply| Chore::Stale(before, n, reply), |groups| json!(groups))
            }
            "bump" => self.bump(cx, arguments::<AttrArgs>(args)?.attr_path),
            "requeue" => self.requeue(cx, arguments::<AttrArgs>(args)?.attr_path),
            "pause" => self.set_paused(true, cx),
            "resume" => self.set_paused(false, cx),
            _ => Err(ConsoleError::UnknownVerb(VERBS.to_owned())),
        }
    }

    /// Pauses or resumes hand-outs, also for later starts. While paused, workers get `NOJOBS`, and
    /// their DONE lines still count.
    fn set_paused(&self, paused: bool, cx: &mut ChildCx<'_, Self>) -> Answered {
        let recorded = self.chores.request(|reply| Chore::RecordPause(paused, reply)).map_err(refused)?;
        Ok(cx.atomically(recorded, move |console, recorded, cx| {
            let recorded = recorded.map_err(|_| restarted("housekeeper"))?;
            recorded.map_err(|error| refused(Fault::from_error(&error)))?;
            console.paused.update(|value| *value = paused);
            console.report_pause(cx);
            tracing::info!(paused, "hand-outs paused or resumed");
            Ok(json!({ "paused": paused }))
        }))
    }

    fn report_pause(&self, cx: &ChildCx<'_, Self>) {
        if self.paused.get() {
            cx.vitals().set_blocker("paused", "an operator paused hand-outs", "orchestrator queue resume");
        } else {
            cx.vitals().clear_blocker();
        }
    }

    fn requeue(&self, cx: &mut ChildCx<'_, Self>, attr_path: String) -> Answered {
        let answer =
            self.requests.request(|reply| StoreRequest::Requeue { attr_path, reply }).map_err(refused)?;
        Ok(cx.atomically(answer, |_, done, _| {
            let done = done.map_err(|_| restarted("store"))?;
            Ok(json!({ "requeued": done.rows, "was_in_flight": done.was_in_flight }))
        }))
    }

    fn bump(&self, cx: &mut ChildCx<'_, Self>, attr_path: String) -> Answered {
        let asked = attr_path.clone();
        let answer =
            self.requests.request(|reply| StoreRequest::Bump { attr_path: asked, reply }).map_err(refused)?;
        Ok(cx.atomically(answer, move |_, done, _| match done.map_err(|_| restarted("store"))? {
            Bumped::Done => Ok(json!({ "bumped": true })),
            Bumped::NothingWaits => Err(refused(format_args!(
                "no job of {} waits: see orchestrator queue show, or requeue it",
                sanitize(&attr_path)
            ))),
            Bumped::TooMany => Err(refused("too many jobs are bumped: wait until they are handed out")),
        }))
    }

    /// Sends a question to the housekeeper and formats its answer.
    fn ask<T: 'static>(
        &self,
        cx: &mut ChildCx<'_, Self>,
        chore: impl FnOnce(Reply<messages::Answer<T>>) -> Chore,
        show: impl FnOnce(T) -> Value + 'static,
    ) -> Answered {
        let answer = self.chores.request(chore).map_err(refused)?;
        Ok(cx.atomically(answer, |_, answer, _| {
            answer.map_err(|_| restarted("housekeeper"))?.map(show).map_err(refused)
        }))
    }
}

fn refused(reason: impl Display) -> ConsoleError {
    ConsoleError::Refused(reason.to_string())
}

fn restarted(child: &str) -> ConsoleError {
    refused(format_args!("the {child} was restarted before it answered: ask again"))
}

/// Returns the number of rows asked for, within the limit.
fn rows(asked: Option<usize>, default: usize) -> usize {
    asked.unwrap_or(default).min(ROWS_MAX)
}

/// Parses the arguments, an object; null stands for no arguments.
fn arguments<T: DeserializeOwned>(args: Value) -> Result<T, ConsoleError> {
    let args = if args.is_null() { json!({}) } else { args };
    serde_json::from_value(args).map_err(|error| ConsoleError::BadArguments(error.to_string()))
}
