//! Transactions of the store's session.

use std::time::{Duration, Instant};

use futures_util::future::{FutureExt, LocalBoxFuture};
use orchestrator_edge::Sent;
use orchestrator_edge::postgres::{Params, PostgresError, Row, SqlState};
use orchestrator_queue_rules::storage::StorageError;

use super::{
    error::unanswered,
    server_session::Session,
    session::{self, Transaction, single},
    settings::Settings,
    store::PostgresStore,
};

/// Time that an answer may take once the child is asked to stop.
const LAST_ANSWER: Duration = Duration::from_millis(750);
/// Interval at which a session asks for the lock of its instance.
const LOCK_INTERVAL: Duration = Duration::from_secs(1);

impl PostgresStore {
    pub(super) fn connect(&mut self) -> Result<(), StorageError> {
        let Settings { address, schema, .. } = &self.settings;
        self.session = Some(self.within_stop(Duration::ZERO, session::open(address, schema).boxed_local())?);
        self.scan_start.of_new_session();
        Ok(())
    }

    /// Begins a transaction with further statements.
    pub(super) fn begin_with(&mut self, action: &'static str, sql: &str) -> Result<(), StorageError> {
        self.transaction = Transaction::Begun;
        self.batch(action, &format!("BEGIN; {sql}"))
    }

    /// Runs one statement of a transaction.
    pub(super) fn query(
        &mut self,
        action: &'static str,
        sql: impl Into<std::borrow::Cow<'static, str>>,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StorageError> {
        if self.transaction == Transaction::Asked {
            self.enter()?;
        }
        self.scan_start.nothing_at = None;
        let Some(mut session) = self.session.take_if(|_| self.transaction == Transaction::Begun) else {
            return Err(StorageError::no_transaction(action));
        };
        let done = self.within_stop(LAST_ANSWER, session.query(action, sql, params).boxed_local());
        self.checked(session, done)
    }

    fn batch(&mut self, action: &'static str, sql: &str) -> Result<(), StorageError> {
        let Some(mut session) = self.session.take() else {
            return Err(StorageError::no_transaction(action));
        };
        let done = self.within_stop(LAST_ANSWER, session.batch(action, sql).boxed_local());
        self.checked(session, done)
    }

    /// Awaits the server. Once the child is asked to stop, for `grace` at most. Compiled for each type of
    /// answer, not for each request.
    fn within_stop<T>(
        &self,
        grace: Duration,
        work: LocalBoxFuture<'_, Result<T, StorageError>>,
    ) -> Result<T, StorageError> {
        let stopped = async {
            self.stop.cancelled().await;
            tokio::time::sleep(grace).await;
        };
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                done = work => done,
                () = stopped => Err(unanswered()),
            }
        })
    }

    /// Keeps the session unless an error ended it, or it may only read.
    fn checked<T>(&mut self, session: Session, done: Result<T, StorageError>) -> Result<T, StorageError> {
        // Functions that nobody used for a day are dropped: the next session creates them again.
        let is_missing = |error: &PostgresError| error.state == Some(SqlState::UNDEFINED_FUNCTION);
        let keeps = |error: &PostgresError| {
            error.peer.sent == Sent::Yes && !error.is_read_only() && !is_missing(error)
        };
        if done.as_ref().err().is_none_or(|error| error.source_as().is_some_and(keeps)) {
            self.session = Some(session);
        } else {
            self.transaction = Transaction::None;
            self.scan_start.forget();
        }
        done
    }

    /// Begins the transaction that was asked for, with a new session if the former one was lost.
    fn enter(&mut self) -> Result<(), StorageError> {
        if self.session.is_none() {
            self.unknown_from = self.unknown_from.or(self.transaction_from.take());
            self.locks_at = Some(Instant::now());
            self.connect()?;
        }
        let arguments = format!("('{}', {})", self.settings.instance, self.incarnation);
        self.begin_with("beginning a transaction", &format!("SELECT enter{arguments}"))?;
        if self.locks_at.is_some_and(|at| at <= Instant::now()) {
            let kept = self.query(
                "keeping the place of the instance",
                format!("SELECT keep_instance{arguments}"),
                vec![],
            )?;
            // Somebody else may keep it for long.
            self.locks_at = (!single::<bool>(&kept)?).then(|| Instant::now() + LOCK_INTERVAL);
        }
        let Some(first) = self.unknown_from else { return Ok(()) };
        // The answers of that transaction were not sent, whether or not it was committed.
        let last = ((self.incarnation + 1) << 32) - 1;
        self.query(
            "undoing hand-outs of a lost connection",
            "SELECT undo_handouts(ARRAY(SELECT handout_id FROM in_flight WHERE handout_id BETWEEN $1 AND $2))",
            vec![Box::new(first), Box::new(last)],
        )?;
        Ok(())
    }

    pub(super) fn end_with_commit(&mut self) -> Result<(), StorageError> {
        if std::mem::replace(&mut self.transaction, Transaction::None) == Transaction::Asked {
            return Ok(());
        }
        let done = self.batch("committing", "SELECT before_commit(); COMMIT");
        match done {
            Ok(()) => (self.transaction_from, self.unknown_from) = (None, None),
            Err(_) => self.roll_back(),
        }
        done
    }

    pub(super) fn roll_back(&mut self) {
        self.scan_start.forget();
        if std::mem::replace(&mut self.transaction, Transaction::None) != Transaction::Asked
            && self.session.is_some()
        {
            match self.batch("rolling back", "ROLLBACK") {
                Ok(()) => self.transaction_from = None,
                Err(_) => self.session = None,
            }
        }
    }

    /// Sets a savepoint of the open transaction, or returns to it.
    pub(super) fn savepoint(&mut self, sql: &str) -> Result<(), StorageError> {
        if self.transaction == Transaction::Asked {
            self.enter()?;
        }
        self.batch("storing entries", sql)
    }
}
