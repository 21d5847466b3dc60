//! The lease of an instance: a thread that renews it on a session of its own, and ends the leases of others that are over.
//!
//! The lease decides nothing for its own instance: each transaction of the store checks that no other process has taken its place. It tells
//! the others when they may take back what was not delivered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use orchestrator_edge::{
    LinkState, RetryPolicy,
    postgres::{Session, SessionSettings},
};
use orchestrator_supervise::{Fault, Outbox, StartCx, block_on};

use super::{
    session::first,
    settings::{Settings, runtime},
};
use crate::{config::QueueConfig, messages::ReadCommand, storage::StorageError};

/// Duration of a lease from its last renewal, by the database's clock.
pub(super) const LEASE: Duration = Duration::from_secs(15);
/// Interval of renewals.
const RENEWAL: Duration = Duration::from_secs(3);
/// Interval of the upkeep of attempts, which have a partition for each day.
const UPKEEP: Duration = Duration::from_secs(3_600);
/// Interval at which the lease looks whether the store has taken the place.
const BEFORE_PLACE: Duration = Duration::from_millis(50);

/// Session of the lease. Its commits wait for no standby: one that is away would leave a session at the server at each try. What they change
/// is lost at a fail-over only together with all later commits.
const SESSION: SessionSettings = SessionSettings {
    sql: &["SET statement_timeout = '3s'; SET lock_timeout = '2s'; SET synchronous_commit = local;"],
    connect_timeout: Duration::from_secs(3),
    answer_timeout: Duration::from_secs(4),
    row_max: 64 << 10,
    answer_max: 1 << 20,
};

/// Number of the process that has the place of this instance; 0 before the store has taken it. Set by the store, read by the lease.
pub(crate) type OwnIncarnation = Arc<AtomicI64>;

/// The child: configuration of all incarnations of the thread.
pub(crate) struct Lease {
    pub(crate) config: QueueConfig,
    pub(crate) incarnation: OwnIncarnation,
    /// Tells the reader that a fetcher was moved.
    pub(crate) commands: Outbox<ReadCommand>,
}

impl Lease {
    /// Runs one incarnation of the thread.
    pub(crate) fn run(&self, cx: &StartCx) -> Result<(), Fault> {
        let link = LinkState::new(cx, "postgres", self.config.postgres.endpoint(), RetryPolicy::REMOTE);
        let runtime = runtime().map_err(|error| Fault::from_error(&error))?;
        let settings = loop {
            match Settings::read(&self.config) {
                Ok(settings) => break settings,
                Err(error) if link.retry_blocking(Fault::from_error(&error).to_string()) => {}
                Err(_) => return Ok(()),
            }
        };
        let mut session = None;
        let mut upkeep_at = Instant::now();
        let (mut live, mut moves) = (0, None);
        loop {
            let turn = async {
                tokio::select! {
                    done = work(&mut session, &settings, self.incarnation.load(Relaxed), &mut upkeep_at) => Some(done),
                    () = cx.stop.cancelled() => None,
                }
            };
            match runtime.block_on(turn) {
                None => return Ok(()),
                Some(Ok(renewed)) => {
                    if session.is_some() {
                        link.succeeded();
                    }
                    if live != renewed.live {
                        live = renewed.live;
                        cx.vitals
                            .note(format!("instance {}; instances with a lease: {live}", settings.instance));
                    }
                    // A move before the first renewal may have come after the first listing.
                    if moves != renewed.moves && self.commands.tell(ReadCommand::Moved).is_ok() {
                        moves = renewed.moves;
                    }
                    for instance in renewed.taken_back {
                        tracing::warn!(
                            instance,
                            "the lease of an instance is over: its jobs without a recorded delivery are available again"
                        );
                    }
                    let wait = if session.is_some() { RENEWAL } else { BEFORE_PLACE };
                    if block_on(Some(Instant::now() + wait), cx.stop.cancelled()).is_some() {
                        return Ok(());
                    }
                }
                Some(Err(error)) => {
                    session = None;
                    if !link.retry_blocking(Fault::from_error(&error).to_string()) {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Result of a renewal.
#[derive(Default)]
struct Renewed {
    /// Instances whose leases ended.
    taken_back: Vec<String>,
    /// Number of instances with a lease.
    live: i64,
    /// Number of moves of fetchers; None if there was none.
    moves: Option<String>,
}

/// Renews the lease, and keeps the tables if that is due.
async fn work(
    session: &mut Option<Session>,
    settings: &Settings,
    incarnation: i64,
    upkeep_at: &mut Instant,
) -> Result<Renewed, StorageError> {
    let renewed = renew(session, settings, incarnation).await?;
    if let Some(session) = session.as_mut().filter(|_| *upkeep_at <= Instant::now()) {
        let sql = "SELECT keep_attempts(floor(extract(epoch FROM clock_timestamp()))::bigint,
                       coalesce((SELECT (value::jsonb ->> 'attempts')::bigint FROM property WHERE name = 'rules'), 0))";
        session.query("keeping the attempts", sql, vec![]).await?;
        *upkeep_at = Instant::now() + UPKEEP;
    }
    Ok(renewed)
}

/// Renews the lease, and ends the leases of other instances that are over.
async fn renew(
    session: &mut Option<Session>,
    settings: &Settings,
    incarnation: i64,
) -> Result<Renewed, StorageError> {
    if incarnation == 0 {
        return Ok(Renewed::default());
    }
    let session = match session {
        Some(session) => session,
        None => {
            let mut opened = Session::open(&settings.address, &SESSION).await?;
            opened.batch("choosing the schema", &format!("SET search_path = {}", settings.schema)).await?;
            session.insert(opened)
        }
    };
    let rows = session
        .query(
            "renewing the lease",
            "SELECT name FROM renew_lease($1, $2, make_interval(secs => $3)) AS name",
            vec![Box::new(settings.instance.clone()), Box::new(incarnation), Box::new(LEASE.as_secs_f64())],
        )
        .await?;
    let count = "SELECT count(*), (SELECT value FROM property WHERE name = 'moves') FROM instance WHERE lease_until > clock_timestamp()";
    let counted = session.query("counting the leases", count, vec![]).await?;
    Ok(Renewed {
        taken_back: rows.iter().map(|row| row.get(0)).collect(),
        live: first(&counted).unwrap_or_default(),
        moves: counted.first().and_then(|row| row.get(1)),
    })
}
