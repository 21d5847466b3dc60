//! Connection with its prepared statements. The connection is polled only while an answer is
//! awaited.

use std::{
    collections::HashMap,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use orchestrator_edge::{catch_panic, postgres::TargetServer};
use tokio::time::timeout;
use tokio_postgres::{Client, Error, Row, SimpleQueryMessage, Statement, types::ToSql};

use super::{
    address::Address,
    connector::{Connector, ServerConnection},
    error::{connection_error, explain, is_answer_too_long, reason},
    limits::Budget,
};
use crate::store::StoreError;

/// Time-out of connecting, including authentication and session settings.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time-out of an answer: some queries scan whole tables, and writes may wait for other programs'
/// locks.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// Session settings. Few rows meet tables of any size, so nested loops over indexes are right, even
/// with outdated statistics. One generic plan then serves for the whole connection. The resulting
/// cost estimates would start the just-in-time compiler. `synchronous_commit = off` would break
/// CONTRACT PS02.
const SESSION_SETTINGS: &str = "
SET timezone = 'UTC';
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET jit = off;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';";

/// Parameters of a statement.
pub(super) type Params<'a> = Vec<Box<dyn ToSql + Sync + 'a>>;

pub(super) struct Session {
    client: Client,
    connection: PolledConnection,
    statements: HashMap<String, Statement>,
}

/// Connection of the driver, polled while an answer is awaited.
struct PolledConnection {
    /// None once it broke.
    driver: Option<ServerConnection>,
    /// Error that the connection reported when it broke.
    lost: Option<Error>,
    budget: Arc<Budget>,
}

impl Session {
    pub(super) async fn open(dsn: &str) -> Result<Self, StoreError> {
        let address = Address::parse(dsn)?;
        let span = address.connect_timeout(CONNECT_TIMEOUT);
        let Ok(opened) = timeout(span, Self::open_first(&address)).await else {
            let seconds = span.as_secs();
            return Err(StoreError::Unavailable(format!("the database did not answer within {seconds} s")));
        };
        opened
    }

    /// Connects to the first suitable server of `address`.
    async fn open_first(address: &Address) -> Result<Self, StoreError> {
        let mut failed = StoreError::Unavailable("the address of the database names no host".to_owned());
        for target in address.target().passes() {
            match Self::open_target(address, target).await {
                Ok(session) => return Ok(session),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Connects to the first server of `address` that is a `target`.
    async fn open_target(address: &Address, target: TargetServer) -> Result<Self, StoreError> {
        let budget = Arc::<Budget>::default();
        let mut connector = Connector::new(address, budget.clone());
        let mut failed = StoreError::Unavailable("the address of the database names no host".to_owned());
        while let Some(connected) = connector.next().await {
            let (client, driver) = match connected {
                Ok(connected) => connected,
                Err(error) => {
                    failed = error;
                    continue;
                }
            };
            let connection = PolledConnection { driver: Some(driver), lost: None, budget: budget.clone() };
            let mut session = Self { client, connection, statements: HashMap::new() };
            match session.set_up(target).await {
                Ok(()) => return Ok(session),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn set_up(&mut self, target: TargetServer) -> Result<(), StoreError> {
        const ACTION: &str = "setting up the session";
        if let Some(query) = target.query() {
            let shown = self.connection.drive(ACTION, self.client.simple_query(query)).await?;
            let shown = shown.map_err(|error| self.failed(ACTION, &error))?;
            let is_yes = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("t"));
            if !shown.iter().any(is_yes) {
                return Err(StoreError::Unavailable(
                    "no server of the address is as its target_session_attrs asks for".to_owned(),
                ));
            }
        }
        self.batch(ACTION, SESSION_SETTINGS).await
    }

    /// Runs statements without parameters.
    pub(super) async fn batch(&mut self, action: &str, sql: &str) -> Result<(), StoreError> {
        let done = self.connection.drive(action, self.client.batch_execute(sql)).await?;
        done.map_err(|error| self.failed(action, &error))
    }

    /// Runs one query; each SQL text is prepared once.
    pub(super) async fn query(
        &mut self,
        action: &str,
        sql: String,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare(action, sql).await?;
        let rows = self.connection.drive(action, run(&self.client, statement, &params)).await?;
        rows.map_err(|error| match &self.connection.lost {
            // Only queries are refused for this reason.
            Some(lost) if is_answer_too_long(lost) => StoreError::Refused(reason(lost)),
            _ => self.failed(action, &error),
        })
    }

    /// Runs `opening` and `commands` in one transaction and one round trip: all is sent before the
    /// first answer is awaited. Returns the first column of each command's first row, if any.
    pub(super) async fn transaction(
        &mut self,
        action: &str,
        opening: &str,
        commands: Vec<(String, Params<'_>)>,
    ) -> Result<Vec<Option<i64>>, StoreError> {
        let mut prepared = Vec::with_capacity(commands.len());
        for (sql, params) in commands {
            prepared.push((self.prepare(action, sql).await?, params));
        }
        let begin = format!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;{opening}");
        let client = &self.client;
        let mut steps: Vec<Step<'_>> = Vec::with_capacity(prepared.len() + 2);
        steps.push(Box::pin(async { client.batch_execute(&begin).await.map(|()| None) }));
        for (statement, params) in &prepared {
            steps.push(Box::pin(async move {
                let rows = run(client, statement.clone(), params).await?;
                rows.first().map(|row| row.try_get(0)).transpose()
            }));
        }
        // After a failed step this rolls back and reports success; the failed step has the error.
        steps.push(Box::pin(async { client.batch_execute("COMMIT").await.map(|()| None) }));
        let results = self.connection.drive(action, InOrder::new(steps)).await?;
        let results: Result<Vec<_>, Error> = results.into_iter().collect();
        match results {
            // Without BEGIN and COMMIT.
            Ok(counts) => Ok(counts[1..counts.len() - 1].to_vec()),
            Err(error) => Err(self.failed(action, &error)),
        }
    }

    async fn prepare(&mut self, action: &str, sql: String) -> Result<Statement, StoreError> {
        if let Some(statement) = self.statements.get(&sql) {
            return Ok(statement.clone());
        }
        let prepared = self.connection.drive(action, self.client.prepare(&sql)).await?;
        let statement = prepared.map_err(|error| self.failed(action, &error))?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    fn failed(&mut self, action: &str, error: &Error) -> StoreError {
        // Requests of a broken connection report only that it is closed.
        let failure = match &self.connection.lost {
            Some(lost) if error.is_closed() => connection_error(action, lost),
            _ => explain(action, error),
        };
        if matches!(failure, StoreError::Unavailable(_)) {
            // Altered tables invalidate prepared statements.
            self.statements.clear();
        }
        failure
    }
}

async fn run(client: &Client, statement: Statement, params: &Params<'_>) -> Result<Vec<Row>, Error> {
    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| &**param as _).collect();
    client.query(&statement, &params).await
}

impl PolledConnection {
    /// Polls the connection until `future` is ready.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: no answer came in time, or the driver panicked. The connection is closed.
    async fn drive<F: Future>(&mut self, action: &str, future: F) -> Result<F::Output, StoreError> {
        self.budget.renew();
        let mut future = pin!(future);
        let driven = poll_fn(|cx| {
            // First the requests are written, then the connection is polled, then the answers are
            // read.
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            self.poll_connection(cx);
            future.as_mut().poll(cx)
        });
        let reason = match catch_panic(timeout(ANSWER_TIMEOUT, driven)).await {
            Ok(Ok(output)) => return Ok(output),
            Ok(Err(_)) => {
                format!("the database did not answer within {} s while {action}", ANSWER_TIMEOUT.as_secs())
            }
            Err(panic) => format!("{action}: {panic}"),
        };
        self.driver = None;
        Err(StoreError::Unavailable(reason))
    }

    fn poll_connection(&mut self, cx: &mut Context<'_>) {
        while let Some(connection) = &mut self.driver {
            match connection.poll_message(cx) {
                // A notice of the server.
                Poll::Ready(Some(Ok(_))) => {}
                // Dropping it ends every pending request.
                Poll::Ready(ended) => {
                    self.lost = ended.and_then(Result::err);
                    self.driver = None;
                }
                Poll::Pending => return,
            }
        }
    }
}

type Step<'a> = Pin<Box<dyn Future<Output = Result<Option<i64>, Error>> + 'a>>;

/// Future of all steps. The first poll polls each step once, in order, which is their order on the
/// wire.
struct InOrder<'a> {
    steps: Vec<Option<Step<'a>>>,
    results: Vec<Option<Result<Option<i64>, Error>>>,
}

impl<'a> InOrder<'a> {
    fn new(steps: Vec<Step<'a>>) -> Self {
        let results = steps.iter().map(|_| None).collect();
        Self { steps: steps.into_iter().map(Some).collect(), results }
    }
}

impl Future for InOrder<'_> {
    type Output = Vec<Result<Option<i64>, Error>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        for (step, result) in this.steps.iter_mut().zip(&mut this.results) {
            if let Some(future) = step
                && let Poll::Ready(output) = future.as_mut().poll(cx)
            {
                *result = Some(output);
                *step = None;
            }
        }
        if this.results.iter().any(Option::is_none) {
            return Poll::Pending;
        }
        Poll::Ready(this.results.drain(..).flatten().collect())
    }
}
