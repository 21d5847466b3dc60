//! Session with a server: prepared statements, pipelined transactions, notifications.

use std::{borrow::Cow, cell::Cell, collections::HashMap, fmt, time::Duration};

use tokio::time::timeout;
use tokio_postgres::{Client, Error, Notification, Row, SimpleQueryMessage, Statement, types::ToSql};

use super::{
    address::Address,
    advice::Login,
    connector::Connector,
    limits::Budget,
    pipeline::{Pipeline, Step},
    polled_connection::PolledConnection,
    postgres_error::PostgresError,
    target_server::TargetServer,
};
use crate::{PeerErrorKind, Sent};

/// Settings and limits of a session.
#[derive(Debug, Clone, Copy)]
pub struct SessionSettings {
    /// Statements that run first, each with its semicolon.
    pub sql: &'static [&'static str],
    /// Time-out of connecting, including authentication and `sql`. The address may have a shorter one.
    pub connect_timeout: Duration,
    /// Time-out of an answer. The connection is closed after it, but the server may go on.
    pub answer_timeout: Duration,
    /// Maximum length of a row, in bytes.
    pub row_max: u32,
    /// Maximum size of the answers to one request, in bytes.
    pub answer_max: u64,
}

impl SessionSettings {
    /// Plans for statements in which few rows meet tables of any size: nested loops over indexes are right,
    /// even with outdated statistics. One generic plan then serves for the whole session. The resulting cost
    /// estimates would start the just-in-time compiler.
    pub const PLANS_BY_INDEX: &'static str = "
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET jit = off;";
    /// Durability of commits whatever the server's configuration says: an answer is sent after its commit.
    pub const DURABLE: &'static str = "
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';";
}

/// Parameters of a statement.
pub type Params<'a> = Vec<Box<dyn ToSql + Sync + 'a>>;

/// Session with a server. It makes progress only while a call is awaited; dropping it closes the connection.
///
/// Drop it after an abandoned call other than [`Session::notified`], since the server would keep its locks
/// until the next call. Once its connection has ended, each call fails.
pub struct Session {
    client: Client,
    connection: PolledConnection,
    statements: HashMap<Cow<'static, str>, Statement>,
    login: Login,
}

impl Session {
    /// Connects to the first suitable server of `address`.
    ///
    /// # Errors
    /// No server of the address can be used; always with [`Sent::No`].
    pub async fn open(address: &Address, settings: &SessionSettings) -> Result<Self, PostgresError> {
        let span = address.connect_timeout(settings.connect_timeout);
        let Ok(opened) = timeout(span, Self::open_first(address, settings)).await else {
            let text = format!("the database did not answer within {} s", span.as_secs_f64());
            return Err(PostgresError::new(PeerErrorKind::Timeout, Sent::No, text));
        };
        opened.map_err(PostgresError::while_opening)
    }

    async fn open_first(address: &Address, settings: &SessionSettings) -> Result<Self, PostgresError> {
        let mut failed = PostgresError::of_address("names no host");
        for target in address.target().passes() {
            match Self::open_target(address, target, settings).await {
                Ok(session) => return Ok(session),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Connects to the first server of `address` that is a `target`.
    async fn open_target(
        address: &Address,
        target: TargetServer,
        settings: &SessionSettings,
    ) -> Result<Self, PostgresError> {
        let budget = Budget::new(settings.row_max, settings.answer_max);
        let mut connector = Connector::new(address, budget.clone());
        let mut failed = PostgresError::of_address("names no host");
        while let Some(connected) = connector.next().await {
            let (client, driver) = match connected {
                Ok(connected) => connected,
                Err(error) => {
                    failed = error;
                    continue;
                }
            };
            let connection = PolledConnection::new(driver, budget.clone(), settings.answer_timeout);
            let (statements, login) = (HashMap::new(), address.login());
            let mut session = Self { client, connection, statements, login };
            match session.set_up(target, &settings.sql.concat()).await {
                Ok(()) => return Ok(session),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn set_up(&mut self, target: TargetServer, sql: &str) -> Result<(), PostgresError> {
        const ACTION: &str = "setting up the session";
        if let Some(query) = target.query() {
            let shown = self.connection.drive(ACTION, self.client.simple_query(query)).await?;
            let shown = shown.map_err(|error| self.failed(ACTION, &error))?;
            let is_yes = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("t"));
            if !shown.iter().any(is_yes) {
                return Err(PostgresError::unopened(
                    "no server of the address is as its target_session_attrs asks for",
                ));
            }
        }
        self.batch(ACTION, sql).await
    }

    /// Role and database of the session, for statements that help.
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// Runs statements without parameters. `action` names the request in errors: "the database failed while
    /// ACTION".
    ///
    /// # Errors
    /// As of [`Session::query`], but without a limit on the answer that tells it from a lost connection.
    pub async fn batch(&mut self, action: &str, sql: &str) -> Result<(), PostgresError> {
        let done = self.connection.drive(action, self.client.batch_execute(sql)).await?;
        done.map_err(|error| self.failed(action, &error))
    }

    /// Runs one query. Each SQL text is prepared once and kept, so values belong in `params`.
    ///
    /// # Errors
    /// The server refuses the query, the connection ended, no answer came in time, or the answer is too long
    /// ([`PeerErrorKind::TooLarge`]). The session is still usable only after a refusal.
    pub async fn query(
        &mut self,
        action: &str,
        sql: impl Into<Cow<'static, str>>,
        params: Params<'_>,
    ) -> Result<Vec<Row>, PostgresError> {
        let statement = self.prepare(action, sql.into()).await?;
        let rows = self.connection.drive(action, run(&self.client, statement, &params)).await?;
        rows.map_err(|error| {
            let too_long = self.connection.lost().and_then(PostgresError::of_long_answer);
            too_long.unwrap_or_else(|| self.failed(action, &error))
        })
    }

    /// Runs `opening`, statements that end with a semicolon, and `commands` in one transaction at the level
    /// READ COMMITTED and in one round trip: all is sent before the first answer is awaited. Each SQL text of
    /// `commands` is prepared once and kept. Returns the rows of each command.
    ///
    /// # Errors
    /// As of [`Session::batch`]. Nothing is committed, except perhaps with [`Sent::Maybe`].
    pub async fn transaction(
        &mut self,
        action: &str,
        opening: &str,
        commands: Vec<(Cow<'static, str>, Params<'_>)>,
    ) -> Result<Vec<Vec<Row>>, PostgresError> {
        let mut prepared = Vec::with_capacity(commands.len());
        for (sql, params) in commands {
            prepared.push((self.prepare(action, sql).await?, params));
        }
        let begin = format!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;{opening}");
        let client = &self.client;
        // Parameters that cannot be encoded fail a command before it is sent, unseen by the server.
        let is_failed = Cell::new(false);
        let mut steps: Vec<Step<'_>> = Vec::with_capacity(prepared.len() + 2);
        steps.push(Box::pin(async { client.batch_execute(&begin).await.map(|()| Vec::new()) }));
        for (statement, params) in &prepared {
            steps.push(Box::pin(async {
                let rows = run(client, statement.clone(), params).await;
                is_failed.set(is_failed.get() || rows.is_err());
                rows
            }));
        }
        // After a failed step, COMMIT rolls back and reports success; the failed step has the error.
        steps.push(Box::pin(async {
            let end = if is_failed.get() { "ROLLBACK" } else { "COMMIT" };
            client.batch_execute(end).await.map(|()| Vec::new())
        }));
        let results = self.connection.drive(action, Pipeline::new(steps)).await?;
        let results: Result<Vec<_>, Error> = results.into_iter().collect();
        match results {
            // Without BEGIN and COMMIT.
            Ok(rows) => Ok(rows.into_iter().skip(1).take(prepared.len()).collect()),
            Err(error) => Err(self.failed(action, &error)),
        }
    }

    /// Waits at most `span` for the next notification of the channels that the session listens to (`LISTEN`);
    /// None after that time. Notifications that arrive during other calls are kept, up to 1,024 or 1 MiB: see
    /// [`Session::take_dropped`]. The future may be dropped without losing one.
    ///
    /// A session that listens should wait often: more than 1 MiB of notifications during another call ends
    /// the connection.
    ///
    /// # Errors
    /// The connection ended; kept notifications are returned first.
    pub async fn notified(&mut self, span: Duration) -> Result<Option<Notification>, PostgresError> {
        self.connection.notified(span).await
    }

    /// Number of notifications that were dropped since the last call because too many waited, the oldest
    /// first. Look at what they are about.
    pub fn take_dropped(&mut self) -> u64 {
        self.connection.take_dropped()
    }

    /// Checks that the database can store every text.
    ///
    /// # Errors
    /// Its encoding is not UTF8; as of [`Session::query`].
    pub async fn check_encoding(&mut self) -> Result<(), PostgresError> {
        let sql = "SELECT format('the database %I has the encoding %s: create one with ENCODING ''UTF8'' TEMPLATE template0',
                 current_database(), current_setting('server_encoding'))
             WHERE current_setting('server_encoding') <> 'UTF8'";
        self.check("reading its encoding", sql, Vec::new()).await
    }

    /// Checks that the server has a major version of at least `least`.
    ///
    /// # Errors
    /// It is older; as of [`Session::query`].
    pub async fn check_version(&mut self, least: i32) -> Result<(), PostgresError> {
        let sql = "SELECT format('the server is PostgreSQL %s: use %s or later', current_setting('server_version'), $1::integer)
             WHERE current_setting('server_version_num')::integer < $1::integer * 10000";
        self.check("reading its version", sql, vec![Box::new(least)]).await
    }

    /// Fails with the text that `sql` selects, if it selects one.
    async fn check(
        &mut self,
        action: &str,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<(), PostgresError> {
        let found = self.query(action, sql, params).await?;
        let refused = found.first().map(|row| row.try_get(0)).transpose();
        match refused.map_err(|error| self.failed(action, &error))? {
            Some::<String>(refused) => Err(PostgresError::unopened(refused)),
            None => Ok(()),
        }
    }

    async fn prepare(&mut self, action: &str, sql: Cow<'static, str>) -> Result<Statement, PostgresError> {
        if let Some(statement) = self.statements.get(&sql) {
            return Ok(statement.clone());
        }
        let prepared = self.connection.drive(action, self.client.prepare(&sql)).await;
        let prepared = prepared.and_then(|prepared| prepared.map_err(|error| self.failed(action, &error)));
        let statement = prepared.map_err(|error| match error.peer.sent {
            // Preparing is no part of the request.
            Sent::Maybe => error.unsent(),
            Sent::No | Sent::Yes => error,
        })?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    fn failed(&mut self, action: &str, error: &Error) -> PostgresError {
        // Requests of a broken connection report only that it is closed.
        let failure = match self.connection.lost() {
            Some(lost) if error.is_closed() => PostgresError::of_connection(action, lost),
            _ => PostgresError::of_request(action, error, &self.login),
        };
        if !failure.is_invalid_data() {
            // Altered tables invalidate prepared statements.
            self.statements.clear();
        }
        failure
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

async fn run(client: &Client, statement: Statement, params: &Params<'_>) -> Result<Vec<Row>, Error> {
    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| &**param as _).collect();
    client.query(&statement, &params).await
}
