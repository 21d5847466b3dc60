//! The lease of an instance: a thread that renews it on a session of its own, and ends the leases of others
//! that are over.
//!
//! The lease decides nothing for its own instance: each transaction of the store checks that no other process
//! has taken the instance. It tells the others when they may take back what was not delivered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use orchestrator_edge::{LinkState, Reconnecting, RetryPolicy, postgres::SessionSettings};
use orchestrator_queue_rules::storage::StorageError;
use orchestrator_supervise::{Fault, StartCx};
use tokio::time::sleep;

use super::{
    error::Lost,
    scan_start::AddedKeys,
    schema,
    server_session::Session,
    session::{first_column, get},
    settings::{Settings, runtime},
};
use crate::InstanceConfig;

/// Duration of a lease from its last renewal, by the database's clock.
pub(super) const LEASE: Duration = Duration::from_secs(15);
/// Interval of renewals.
const RENEWAL: Duration = Duration::from_secs(3);
/// Interval of the upkeep of attempts, which have a partition for each day.
const UPKEEP: Duration = Duration::from_secs(3_600);
/// Interval at which the lease looks whether the store has taken the instance.
const TAKEN_CHECK: Duration = Duration::from_millis(50);

/// Session of the lease. Its commits wait for no standby: one that is away would leave a session at the
/// server at each try. A fail-over loses their changes only together with all later commits.
const SESSION: SessionSettings = SessionSettings {
    sql: &["SET statement_timeout = '3s'; SET lock_timeout = '2s'; SET synchronous_commit = local;"],
    connect_timeout: Duration::from_secs(3),
    answer_timeout: Duration::from_secs(4),
    row_max: 64 << 10,
    answer_max: 1 << 20,
};

/// Number of the process that has this instance; 0 before the store has taken it. Set by the
/// store, read by the lease.
pub type OwnIncarnation = Arc<AtomicI64>;

/// The child: configuration of all incarnations of the thread.
pub(crate) struct Lease {
    pub(crate) config: InstanceConfig,
    pub(crate) incarnation: OwnIncarnation,
    /// Tells the store to look for what was taken back. If no worker waits, no notification comes.
    pub(crate) added: AddedKeys,
    /// Tells the reader that a fetcher was moved.
    pub(super) fetchers_moved: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Lease {
    /// Runs one incarnation of the thread.
    pub(crate) fn run(&self, cx: &StartCx) -> Result<(), Fault> {
        let link = LinkState::new(cx, "postgres", self.config.postgres.endpoint(), RetryPolicy::REMOTE);
        let runtime = runtime().map_err(|error| Fault::from_error(&error))?;
        let mut renewals = Renewals { lease: self, cx, upkeep_at: Instant::now(), live: 0, moves: None };
        runtime.block_on(async {
            // Before, there is nothing to connect for.
            while self.incarnation.load(Relaxed) == 0 {
                if !link.wait(TAKEN_CHECK).await {
                    return;
                }
            }
            renewals.run(&link).await;
        });
        Ok(())
    }
}

/// State of the thread.
struct Renewals<'a> {
    lease: &'a Lease,
    cx: &'a StartCx,
    upkeep_at: Instant,
    /// Number of instances with a lease at the last renewal.
    live: i64,
    /// Number of moves of fetchers that the reader knows; None if there was none.
    moves: Option<String>,
}

impl Reconnecting for Renewals<'_> {
    /// Session, and name of the instance.
    type Connection = (Session, String);
    type Error = Lost;

    async fn connect(&mut self) -> Result<(Session, String), Lost> {
        let settings = Settings::read(&self.lease.config)?;
        let mut session = Session::open(&settings.address, &SESSION).await?;
        schema::select(&mut session, &settings.schema).await?;
        Ok((session, settings.instance))
    }

    async fn serve(&mut self, connection: (Session, String), link: &LinkState) -> Result<(), Lost> {
        let (mut session, instance) = connection;
        tokio::select! {
            biased;
            () = link.stopped() => Ok(()),
            ended = self.renew_again(&mut session, &instance, link) => Ok(ended?),
        }
    }
}

impl Renewals<'_> {
    /// Renews the lease until that fails. A store that begins again has no instance for a while.
    async fn renew_again(
        &mut self,
        session: &mut Session,
        instance: &str,
        link: &LinkState,
    ) -> Result<(), StorageError> {
        loop {
            let incarnation = self.lease.incarnation.load(Relaxed);
            if incarnation == 0 {
                sleep(TAKEN_CHECK).await;
                continue;
            }
            self.renew(session, instance, incarnation).await?;
            if self.upkeep_at <= Instant::now() {
                let sql = "SELECT keep_attempts(floor(extract(epoch FROM clock_timestamp()))::bigint,
                     coalesce((SELECT (value::jsonb ->> 'attempts')::bigint FROM property WHERE name = 'rules'), 0))";
                session.query("keeping the attempts", sql, vec![]).await?;
                self.upkeep_at = Instant::now() + UPKEEP;
                let sql = "SELECT drop_former_functions()";
                if let Err(error) = session.query("dropping functions of former programs", sql, vec![]).await
                {
                    tracing::warn!(%error, "functions of former programs are kept for another hour");
                }
            }
            link.succeeded();
            sleep(RENEWAL).await;
        }
    }

    /// Renews the lease, and ends the leases of other instances that are over.
    async fn renew(
        &mut self,
        session: &mut Session,
        instance: &str,
        incarnation: i64,
    ) -> Result<(), StorageError> {
        let taken_back = session
            .query(
                "renewing the lease",
                "SELECT name FROM renew_lease($1, $2, make_interval(secs => $3)) AS name",
                vec![Box::new(instance.to_owned()), Box::new(incarnation), Box::new(LEASE.as_secs_f64())],
            )
            .await?;
        if !taken_back.is_empty() {
            self.lease.added.add_unknown();
        }
        for instance in first_column::<String>(&taken_back)? {
            tracing::warn!(
                instance,
                "the lease of an instance is over: its jobs without a recorded delivery are available again"
            );
        }
        let sql = "SELECT count(*), (SELECT value FROM property WHERE name = 'moves') FROM instance WHERE lease_until > clock_timestamp()";
        let counted = session.query("counting the leases", sql, vec![]).await?;
        let Some(counted) = counted.first() else { return Ok(()) };
        let (live, moves): (i64, Option<String>) = (get(counted, 0)?, get(counted, 1)?);
        if self.live != live {
            self.live = live;
            self.cx.vitals.note(format!("instance {instance}; instances with a lease: {live}"));
        }
        // A move before the first renewal may have come after the first listing.
        if self.moves != moves && (self.lease.fetchers_moved)() {
            self.moves = moves;
        }
        Ok(())
    }
}
