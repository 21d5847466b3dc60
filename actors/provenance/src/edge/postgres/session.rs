//! One connection and its statements: drives the connection while somebody waits for an answer, so nothing outlives it.

use std::{
    collections::HashMap,
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use tokio_postgres::{
    Client, Config, Connection, Error, NoTls, Row, Socket, Statement, tls::NoTlsStream, types::ToSql,
};

use super::error::{explain, is_fatal};
use crate::store::StoreError;

/// How long a connection may take, greeting and password included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long sent bytes may go unacknowledged before the connection counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Small sets of rows against tables of any size: nested loops over indexes are right, also when the statistics were taken
/// of an empty table. With other ways made unattractive one plan serves for the life of the connection.
/// The costs that this shows would start the just-in-time compiler. A commit that does not wait for the disk would break the
/// promise of a write.
const SETTINGS: &str = "
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
    /// None once it broke.
    wire: Option<Connection<Socket, NoTlsStream>>,
    statements: HashMap<String, Statement>,
    broken: bool,
}

impl Session {
    pub(super) async fn open(dsn: &str) -> Result<Self, StoreError> {
        let mut config: Config = dsn
            .parse()
            .map_err(|error| StoreError::Refused(format!("correct the address of the database: {error}")))?;
        config.connect_timeout(CONNECT_TIMEOUT).keepalives_idle(SILENCE_MAX);
        config.tcp_user_timeout(SILENCE_MAX);
        if config.get_application_name().is_none() {
            config.application_name("orchestrator provenance");
        }
        let Ok(connected) = tokio::time::timeout(CONNECT_TIMEOUT, config.connect(NoTls)).await else {
            return Err(StoreError::Away(format!(
                "the database did not answer within {} s",
                CONNECT_TIMEOUT.as_secs()
            )));
        };
        let (client, wire) = connected.map_err(|error| explain("connecting", &error))?;
        let mut session = Self { client, wire: Some(wire), statements: HashMap::new(), broken: false };
        session.batch("setting up the session", SETTINGS).await?;
        Ok(session)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.broken || self.wire.is_none() || self.client.is_closed()
    }

    /// Runs statements without parameters.
    pub(super) async fn batch(&mut self, action: &str, sql: &str) -> Result<(), StoreError> {
        let done = drive(&mut self.wire, self.client.batch_execute(sql)).await;
        done.map_err(|error| self.failed(action, &error))
    }

    /// Runs one query; it is prepared once.
    pub(super) async fn query(
        &mut self,
        action: &str,
        sql: String,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare(action, sql).await?;
        let rows = drive(&mut self.wire, run(&self.client, statement, &params)).await;
        rows.map_err(|error| self.failed(action, &error))
    }

    /// Runs `commands` in one transaction and one round trip: all is sent before the first answer is awaited. `opening` goes
    /// before them. Gives the
    /// first column of each one's first row, if it has any.
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
        // After a failed step this rolls back, and says that it succeeded: the step tells.
        steps.push(Box::pin(async { client.batch_execute("COMMIT").await.map(|()| None) }));
        let results = drive(&mut self.wire, InOrder::new(steps)).await;
        let results: Result<Vec<_>, Error> = results.into_iter().collect();
        match results {
            // Without those of the first and the last step.
            Ok(figures) => Ok(figures[1..figures.len() - 1].to_vec()),
            Err(error) => Err(self.failed(action, &error)),
        }
    }

    async fn prepare(&mut self, action: &str, sql: String) -> Result<Statement, StoreError> {
        if let Some(statement) = self.statements.get(&sql) {
            return Ok(statement.clone());
        }
        let prepared = drive(&mut self.wire, self.client.prepare(&sql)).await;
        let statement = prepared.map_err(|error| self.failed(action, &error))?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    fn failed(&mut self, action: &str, error: &Error) -> StoreError {
        self.broken |= is_fatal(error);
        let told = explain(action, error);
        if matches!(told, StoreError::Away(_)) {
            // Tables that were altered make old statements useless.
            self.statements.clear();
        }
        told
    }
}

async fn run(client: &Client, statement: Statement, params: &Params<'_>) -> Result<Vec<Row>, Error> {
    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| &**param as _).collect();
    client.query(&statement, &params).await
}

/// Polls the connection for as long as `future` needs it.
async fn drive<F: Future>(wire: &mut Option<Connection<Socket, NoTlsStream>>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        // First what is to be sent, then the wire, then what came.
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(output);
        }
        turn(wire, cx);
        future.as_mut().poll(cx)
    })
    .await
}

fn turn(wire: &mut Option<Connection<Socket, NoTlsStream>>, cx: &mut Context<'_>) {
    while let Some(connection) = wire {
        match connection.poll_message(cx) {
            // A notice of the server.
            Poll::Ready(Some(Ok(_))) => {}
            // Dropped, it ends every request that waits.
            Poll::Ready(None | Some(Err(_))) => *wire = None,
            Poll::Pending => return,
        }
    }
}

type Step<'a> = Pin<Box<dyn Future<Output = Result<Option<i64>, Error>> + 'a>>;

/// All of some futures. The first poll polls every one, in order: that order is the order on the wire.
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
