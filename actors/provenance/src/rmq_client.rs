//! RmqClient: takes rows of any method and ranges, splits them into messages, sees to it that each reaches the worker of
//! its range, and says how many are stored. Many calls go on at once. It answers operators, too.

use std::{sync::Arc, time::Duration};

use orchestrator_supervise::{
    Answer, Child, ChildCx, ConsoleError, ConsoleReply, ConsoleRequest, Figure, FigureKind, Handle, Message,
    Outbox, StartCx,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::{
    call::{CallError, Receipt, Route},
    json::{JsonRow, show},
    messages::ReadRequest,
    method::Entity,
    row::{Rows, Sha1Git},
    store::{Found, Question, StoreError, check},
};

const VERBS: &str = "add, get, find-first, find-all, stats";
/// How long an operator's call may take: a little less than the console waits.
const CONSOLE_LIMIT: Duration = Duration::from_millis(1_800);
/// Identifiers in one `get`.
const IDS_MAX: usize = 1_000;

/// Rows of one method to be stored.
#[derive(Debug)]
pub struct AddRows {
    /// In order; repeated keys are resolved where they meet.
    pub rows: Rows,
    /// What became of them. Dropped = the client ended: add them again, which changes nothing that is stored.
    pub reply: oneshot::Sender<Result<Receipt, CallError>>,
}

impl Message for AddRows {
    type Result = ();
}

/// The actor.
#[derive(Debug)]
pub(crate) struct RmqClient {
    route: Arc<Route>,
    reads: Outbox<ReadRequest>,
    calls: Figure,
    rows: Figure,
    failed: Figure,
}

impl Child for RmqClient {}

impl RmqClient {
    pub(crate) fn new(route: Arc<Route>, reads: Outbox<ReadRequest>, cx: &StartCx) -> Self {
        let declare = |name, unit| cx.vitals.declare(name, unit, FigureKind::Counter);
        Self {
            route,
            reads,
            calls: declare("calls", "calls"),
            rows: declare("acked", "rows"),
            failed: declare("failed_calls", "calls"),
        }
    }

    fn count(&self, outcome: &Result<Receipt, CallError>) {
        self.calls.add(1);
        match outcome {
            Ok(receipt) => self.rows.add(receipt.stored),
            Err(_) => self.failed.add(1),
        }
    }

    /// Adds an operator's rows: origins first, relations last, since a row is dropped that names what is not there.
    fn add(
        &self,
        cx: &mut ChildCx<'_, Self>,
        rows: Vec<Rows>,
        mut bad: Vec<Bad>,
    ) -> Answer<Self, ConsoleReply> {
        let route = self.route.clone();
        let call = async move {
            let mut total = Receipt::default();
            for rows in rows {
                total.add(route.add(rows).await?);
            }
            Ok(total)
        };
        cx.atomically(tokio::time::timeout(CONSOLE_LIMIT, call), move |client, outcome, _| {
            let outcome = outcome.unwrap_or(Err(CallError::TimedOut));
            client.count(&outcome);
            let receipt = outcome.map_err(|error| ConsoleError::Refused(error.to_string()))?;
            bad.extend(receipt.refused.into_iter().map(|reason| Bad { index: None, reason }));
            Ok(json!({ "stored": receipt.stored, "bad": bad }))
        })
    }

    fn ask(&self, cx: &mut ChildCx<'_, Self>, question: Question) -> Answer<Self, ConsoleReply> {
        let (reply, answer) = oneshot::channel();
        if let Err(refused) = self.reads.tell(ReadRequest { question, reply }) {
            return Answer::now(Err(ConsoleError::Refused(refused.to_string())));
        }
        cx.atomically(tokio::time::timeout(CONSOLE_LIMIT, answer), |_, answer, _| found(answer).map(show))
    }
}

type Asked =
    Result<Result<Result<Found, StoreError>, oneshot::error::RecvError>, tokio::time::error::Elapsed>;

fn found(answer: Asked) -> Result<Found, ConsoleError> {
    let refused = |text: &str| ConsoleError::Refused(text.to_owned());
    answer
        .map_err(|_| refused("the store did not answer in time: ask again, or for less"))?
        .map_err(|_| refused("the reader was restarted before it answered: ask again"))?
        .map_err(|error| refused(&error.to_string()))
}

impl Handle<AddRows> for RmqClient {
    fn handle(&mut self, AddRows { rows, reply }: AddRows, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        let route = self.route.clone();
        cx.spawn(async move { route.add(rows).await }, move |client, outcome, _| {
            client.count(&outcome);
            // Whoever asked may have given up.
            let _ = reply.send(outcome);
        });
        Answer::done()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddArgs {
    rows: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetArgs {
    kind: String,
    ids: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindArgs {
    id: String,
    limit: Option<u64>,
}

impl Handle<ConsoleRequest> for RmqClient {
    fn handle(&mut self, request: ConsoleRequest, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ConsoleReply> {
        let args = request.args;
        let asked = match request.verb.as_str() {
            "add" => {
                return match rows(args) {
                    Ok((rows, bad)) => self.add(cx, rows, bad),
                    Err(error) => Answer::now(Err(error)),
                };
            }
            "get" => get(args),
            "find-first" => find(args).map(|(id, _)| Question::FindFirst(id)),
            "find-all" => find(args).map(|(id, limit)| Question::FindAll { id, limit }),
            "stats" => Ok(Question::Counts),
            _ => Err(ConsoleError::UnknownVerb(VERBS.to_owned())),
        };
        match asked {
            Ok(question) => self.ask(cx, question),
            Err(error) => Answer::now(Err(error)),
        }
    }
}

fn bad(text: impl ToString) -> ConsoleError {
    ConsoleError::BadArguments(text.to_string())
}

fn arguments<T: DeserializeOwned>(args: Value) -> Result<T, ConsoleError> {
    serde_json::from_value(args).map_err(bad)
}

/// A row that is left out, by its position where that is known.
#[derive(Debug, Serialize)]
struct Bad {
    index: Option<usize>,
    reason: String,
}

/// Rows by method, in the order in which methods need each other, and those that cannot be read or stored.
fn rows(args: Value) -> Result<(Vec<Rows>, Vec<Bad>), ConsoleError> {
    let (mut groups, mut bad) = (Vec::<Rows>::new(), Vec::new());
    for (index, value) in arguments::<AddArgs>(args)?.rows.into_iter().enumerate() {
        let checked = |row: Rows| check(&row).map(|()| row).map_err(|error| error.to_string());
        match JsonRow::read(value).and_then(JsonRow::into_rows).and_then(checked) {
            Err(reason) => bad.push(Bad { index: Some(index), reason }),
            Ok(row) => match groups.iter_mut().find(|group| group.method() == row.method()) {
                // The methods are the same, so there is nothing to be given back.
                Some(group) => drop(group.append(row)),
                None => groups.push(row),
            },
        }
    }
    groups.sort_by_key(|rows| match rows {
        Rows::Origins(_) => 0,
        Rows::Relations(..) => 2,
        _ => 1,
    });
    Ok((groups, bad))
}

fn get(args: Value) -> Result<Question, ConsoleError> {
    let GetArgs { kind, ids } = arguments(args)?;
    if ids.len() > IDS_MAX {
        return Err(bad(format!("{} identifiers: ask for {IDS_MAX} at most", ids.len())));
    }
    let ids = ids.iter().map(|id| id.parse().map_err(|error| bad(format!("{id}: {error}"))));
    let ids: Vec<Sha1Git> = ids.collect::<Result<_, _>>()?;
    let entity = Entity::ALL.into_iter().find(|entity| entity.value() == kind);
    match entity
        .ok_or_else(|| bad(format!("{kind} is no kind: use content, directory, revision or origin")))?
    {
        Entity::Content => Ok(Question::Contents(ids)),
        Entity::Directory => Ok(Question::Directories(ids)),
        Entity::Revision => Ok(Question::Revisions(ids)),
        Entity::Origin => Ok(Question::Origins(ids)),
    }
}

fn find(args: Value) -> Result<(Sha1Git, Option<u64>), ConsoleError> {
    let FindArgs { id, limit } = arguments(args)?;
    Ok((id.parse().map_err(|error| bad(format!("{id}: {error}")))?, limit))
}
