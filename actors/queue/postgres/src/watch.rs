//! Looks at the server for what holds the queue up, and for jobs that wait. Causes are transactions that keep
//! vacuum from removing rows, locks of other sessions, a standby that does not confirm, and dead instances. A
//! thread with sessions of its own, so that no look delays a hand-out.
//!
//! A look that fails is repeated: the links of the store and of the lease tell of a server that is away.

mod dead_instances;
mod finding;
mod lock_waits;
mod unconfirmed;
mod vacuum_holders;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use orchestrator_edge::postgres::SessionSettings;
use orchestrator_observe::metrics;
use orchestrator_queue_rules::storage::{StorageError, Waiting};
use orchestrator_queue_store::{LastRequest, unix_time};
use orchestrator_supervise::{Fault, StartCx, Vitals, block_on};
use parking_lot::Mutex;

use self::{finding::Finding, lock_waits::LockWaits, vacuum_holders::VacuumHolders};
use super::{
    inspect::PostgresInspector,
    server_session::Session,
    session::first,
    settings::{Settings, runtime},
};
use crate::InstanceConfig;

/// Interval of looks for what holds the queue up.
const INTERVAL: Duration = Duration::from_secs(2);
/// Interval of looks at the jobs that wait.
const WAITING_INTERVAL: Duration = Duration::from_secs(1);
/// A look at the jobs that wait is followed by this many times its duration without one: it reads all rows
/// that somebody's transaction keeps.
const WAITING_PAUSE: u32 = 20;
const SESSION: SessionSettings = SessionSettings {
    sql: &["SET statement_timeout = '1s'; SET lock_timeout = '500ms';"],
    connect_timeout: Duration::from_secs(3),
    answer_timeout: Duration::from_millis(1_500),
    row_max: 64 << 10,
    answer_max: 1 << 20,
};

/// The child: configuration of all incarnations of the thread.
pub(crate) struct ServerWatch {
    pub(crate) config: InstanceConfig,
    pub(crate) waiting: WaitingJobs,
    pub(crate) last_request: LastRequest,
}

/// Jobs that wait, as last seen by the thread.
#[derive(Debug, Clone)]
pub(crate) struct WaitingJobs(Arc<Mutex<Waiting>>);

impl Default for WaitingJobs {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Waiting::Nothing)))
    }
}

impl WaitingJobs {
    pub(crate) fn get(&self) -> Waiting {
        self.0.lock().clone()
    }
}

metrics! {
    /// Metrics of the looks at the server.
    struct WatchMetrics {
        /// Instances of a shared queue whose lease is over although nobody stopped them.
        dead_instances: gauge("instances"),
    }
}

/// State between looks.
struct Looks {
    session: Option<Session>,
    /// Schema of the tables.
    schema: String,
    metrics: WatchMetrics,
    /// Message about the sessions that the role may not see, with the missing grant; None if it sees all.
    hidden: Option<String>,
    vacuum_holders: VacuumHolders,
    lock_waits: LockWaits,
}

impl ServerWatch {
    /// Runs one incarnation of the thread.
    pub(crate) fn run(&self, cx: &StartCx) -> Result<(), Fault> {
        let runtime = runtime().map_err(|error| Fault::from_error(&error))?;
        let mut looks = Looks::new(&cx.vitals);
        let mut inspector = PostgresInspector::new(&self.config, SESSION.answer_timeout, cx.stop.clone());
        let (mut look_at, mut waiting_at) = (Instant::now(), Instant::now());
        loop {
            if waiting_at <= Instant::now() {
                let begun = Instant::now();
                match self.waiting(&mut inspector) {
                    Ok(waiting) => *self.waiting.0.lock() = waiting,
                    Err(error) => tracing::debug!(%error, "cannot read the waiting jobs"),
                }
                waiting_at = Instant::now() + WAITING_INTERVAL.max(begun.elapsed() * WAITING_PAUSE);
            }
            if look_at <= Instant::now() {
                let look = async {
                    tokio::select! {
                        found = looks.look(&self.config) => Some(found),
                        () = cx.stop.cancelled() => None,
                    }
                };
                match runtime.block_on(look) {
                    None => return Ok(()),
                    Some(Ok(found)) => report(&cx.vitals, found),
                    Some(Err(error)) => {
                        tracing::debug!(%error, "cannot look at the server");
                        looks.session = None;
                        cx.vitals.clear_blocker();
                    }
                }
                look_at = Instant::now() + INTERVAL;
            }
            if block_on(Some(look_at.min(waiting_at)), cx.stop.cancelled()).is_some() {
                return Ok(());
            }
        }
    }
}

impl ServerWatch {
    fn waiting(&self, inspector: &mut PostgresInspector) -> Result<Waiting, StorageError> {
        let (now, is_present) = (unix_time(), self.last_request.is_recent());
        let are_others = inspector.share_presence(is_present)?;
        let waiting = inspector.waiting(now)?;
        if waiting != Waiting::Ready || is_present || are_others {
            return Ok(waiting);
        }
        let unserved = inspector.unserved(now, self.last_request.unix_time())?;
        Ok(unserved.map_or(waiting, Waiting::Unserved))
    }
}

impl Looks {
    fn new(vitals: &Arc<Vitals>) -> Self {
        let metrics = WatchMetrics::register(vitals);
        let (schema, vacuum_holders, lock_waits) = Default::default();
        Self { session: None, schema, metrics, hidden: None, vacuum_holders, lock_waits }
    }

    /// Returns the cause with the largest effect.
    async fn look(&mut self, config: &InstanceConfig) -> Result<Option<Finding>, StorageError> {
        let session = match &mut self.session {
            Some(session) => session,
            none => {
                let Settings { address, schema, .. } = Settings::read(config)?;
                self.schema = schema;
                let session = none.insert(Session::open(&address, &SESSION).await?);
                self.hidden = hidden(session).await?;
                unconfirmed::warn_of_loss(session).await?;
                session
            }
        };
        let endpoint = config.postgres.endpoint();
        let unconfirmed = unconfirmed::look(session, &endpoint).await?;
        let lock_wait = self.lock_waits.look(session, &endpoint).await?;
        let vacuum_holder = self.vacuum_holders.look(session, Instant::now()).await?;
        let mut found = unconfirmed.or(lock_wait);
        if found.is_none() {
            // The tables may be locked since a moment, or may not exist yet. The next look tells.
            match dead_instances::look(session, &self.schema).await {
                Ok(dead) => {
                    self.metrics.dead_instances.set(dead.count);
                    found = dead.finding;
                }
                Err(error) => tracing::debug!(%error, "cannot look for dead instances"),
            }
        }
        let found = found.or(vacuum_holder);
        Ok(found.map(|found| Finding {
            evidence: found.evidence.into_iter().chain(self.hidden.clone()).collect(),
            ..found
        }))
    }
}

fn report(vitals: &Vitals, found: Option<Finding>) {
    match found {
        None => vitals.clear_blocker(),
        Some(Finding { kind, fault_of: Some(of), text, evidence, help }) => {
            vitals.set_fault(kind, &of, text, &evidence, help);
        }
        Some(Finding { kind, fault_of: None, text, evidence, help }) => {
            vitals.set_blocker_with(kind, text, &evidence, help);
        }
    }
}

/// Returns what the role may not see of other roles' sessions.
async fn hidden(session: &mut Session) -> Result<Option<String>, StorageError> {
    let sql = "SELECT current_user::text WHERE NOT pg_has_role('pg_read_all_stats', 'USAGE')";
    let roles = session.query("reading the rights of the role", sql, vec![]).await?;
    let role: Option<String> = first(&roles)?;
    Ok(role.map(|role| {
        format!("the role {role} may not see others' sessions: GRANT pg_read_all_stats TO {role}")
    }))
}
