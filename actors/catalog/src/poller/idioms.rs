//! Both idioms of the original, for other actors.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use orchestrator_supervise::StopToken;
use tokio::sync::{oneshot, watch};

use crate::{
    agent::House,
    handling::{PlanRow, Row},
    lane::Purpose,
    messages::{BlockingPoll, ChangeError, Changed, Found, LookForWork, Plan, StateChangeOnce},
    service::{Service, Trouble},
    state_change::{Outcome, StateChange, Step},
};

/// Queries of which the last answer is kept.
const KEPT: usize = 64;
/// Whoever plans answers in time.
const PLAN_TIMEOUT: Duration = Duration::from_secs(30);
/// After a conflict, the longest wait before the next look.
const CROSSED: Duration = Duration::from_millis(50);

/// What both need.
pub(super) struct Idioms<S> {
    house: House<S>,
    /// The last answers, by query and update; those in use are away.
    kept: Rc<RefCell<BTreeMap<(String, String), StateChange>>>,
    looks: watch::Sender<u64>,
}

impl<S: Service + Clone + 'static> Idioms<S> {
    pub(super) fn new(house: House<S>) -> Self {
        Self { house, kept: Rc::default(), looks: watch::Sender::new(0) }
    }

    /// Grows when there may be work.
    pub(super) fn looks(&self) -> watch::Sender<u64> {
        self.looks.clone()
    }

    /// Does it once.
    pub(super) fn state_change(&self, message: StateChangeOnce) -> impl Future<Output = ()> + use<S> {
        let (house, kept) = (self.house.clone(), self.kept.clone());
        async move {
            let StateChangeOnce { query, update, plan, idle_etag, answer } = message;
            let place = (query.clone(), update.clone());
            let change = kept.borrow_mut().remove(&place);
            let mut change = change.unwrap_or_else(|| StateChange::new(query.clone(), update, true));
            let outcome = once(&house, &mut change, plan, idle_etag).await;
            {
                let mut kept = kept.borrow_mut();
                if kept.len() >= KEPT {
                    kept.pop_first();
                }
                kept.insert(place, change);
            }
            // Nobody may be waiting any more.
            let _ = answer.send(told(outcome, &query));
        }
    }

    /// Asks again and again until it is asked to stop.
    pub(super) fn poll(&self, message: BlockingPoll, stop: StopToken) -> impl Future<Output = ()> + use<S> {
        let mut looks = self.looks.subscribe();
        async move {
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = drain(&message) => {}
                }
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    changed = looks.changed() => if changed.is_err() { return },
                }
            }
        }
    }
}

/// Asks until nothing is found any more.
async fn drain(message: &BlockingPoll) {
    loop {
        let (answer, found) = oneshot::channel();
        // A mailbox that is full has been asked before; one that is gone finds nothing.
        if message.look_for_work.tell(LookForWork { answer }).is_err() {
            return;
        }
        match found.await {
            Ok(Found::Work) => {}
            Ok(Found::Concurrent) => tokio::time::sleep(CROSSED.mul_f64(fastrand::f64())).await,
            Ok(Found::Nothing) | Err(_) => return,
        }
    }
}

async fn once<S: Service>(
    house: &House<S>,
    change: &mut StateChange,
    mut plan: Plan,
    idle: Option<String>,
) -> Result<Outcome, ChangeError> {
    let mut step = change.begin(idle);
    loop {
        step = match step {
            Step::Get(get) => change.answered(house.service.get(get).await),
            Step::Plan(rows) => {
                let mut planned = Vec::with_capacity(rows.len());
                for row in rows {
                    if let Some(update) = update(&mut plan, &row).await? {
                        planned.push((row, update));
                    }
                }
                change.planned(planned)
            }
            Step::Put(put) => {
                let _pass = house.lane.enter(Purpose::Claim, 0).await;
                change.answered(house.service.put(put).await)
            }
            Step::Done(outcome) => return Ok(outcome),
        }
    }
}

async fn update(plan: &mut Plan, row: &Row) -> Result<Option<Row>, ChangeError> {
    match plan {
        Plan::With(plan) => Ok(plan(row)),
        Plan::Ask(actor) => {
            let question = PlanRow { rule: String::new(), row: row.clone() };
            let answer = actor.ask(question, PLAN_TIMEOUT).await;
            answer.map_err(|error| ChangeError::Failed(format!("whoever plans did not answer: {error}")))
        }
    }
}

fn told(outcome: Result<Outcome, ChangeError>, query: &str) -> Result<Changed, ChangeError> {
    match outcome? {
        Outcome::Idle { etag } => Ok(Changed { etag: Some(etag), plan: Vec::new() }),
        Outcome::Nothing { etag } => Ok(Changed { etag, plan: Vec::new() }),
        Outcome::Changed(change) => {
            // The trap of spec §4: after a full batch there may be more, of which nobody will tell.
            let all = change.changed.len() + change.passed_over.len();
            let more = limit(query).is_some_and(|limit| all >= limit);
            Ok(Changed { etag: change.etag.filter(|_| !more), plan: change.changed })
        }
        Outcome::Failed(Trouble::Concurrent) => Err(ChangeError::Concurrent),
        Outcome::Failed(trouble) => Err(ChangeError::Failed(trouble.to_string())),
        Outcome::Unsettled { reason, .. } => Err(ChangeError::Unsettled(reason)),
    }
}

/// The limit of a query.
fn limit(query: &str) -> Option<usize> {
    let (_, options) = query.split_once('?')?;
    options
        .split(['&', ';'])
        .find_map(|option| option.strip_prefix("limit="))
        .and_then(|limit| limit.parse().ok())
}
