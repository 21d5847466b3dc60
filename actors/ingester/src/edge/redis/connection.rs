//! Connection to Redis for one request at a time. Replies stay untyped: a failed conversion by the
//! client library would repeat the whole reply in its error.

use std::{
    fmt::{self, Display, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::{Either, Fuse, FutureExt, LocalBoxFuture, select};
use orchestrator_edge::{LimitedStream, PeerError, Transport, catch_panic, tls::TlsClient};
use orchestrator_supervise::{TEXT_MAX, sanitize};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue, Pipeline,
    RedisError, RedisResult, ScriptInvocation, Value, aio::MultiplexedConnection,
};
use tokio::{
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::reply_limit::ReplyLimit;

/// Time-out for connecting, and for commands that do not block.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Failure of a connection or a request. The text is bounded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestError {
    /// The connection failed, or the reply was malformed.
    #[error("{0}")]
    Failed(String),
    /// The server does not speak TLS, or its certificate is invalid.
    #[error("TLS: {0}")]
    Tls(String),
    /// Redis refused the command, e.g. wrong type of key, no permission, or no memory.
    #[error("{0}")]
    Refused(String),
    /// The reply was longer than the limit; the connection is closed.
    #[error("the reply is longer than {} KiB or has too many values", .0 / 1024)]
    TooLong(usize),
    /// The reply has another type than the command returns.
    #[error("the reply has {found} instead of {wanted}")]
    Unexpected {
        /// Type of the reply.
        found: &'static str,
        /// Type that the command returns.
        wanted: &'static str,
    },
    /// Only entries that were read before, or entries without an id; reading on would not end.
    #[error("the reply has only entries up to {0}, which were read before")]
    Stale(String),
    /// No reply within the time-out.
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
}

impl From<RedisError> for RequestError {
    fn from(error: RedisError) -> Self {
        let text = truncated(&error);
        match error.kind() {
            ErrorKind::Server(_) | ErrorKind::Extension => Self::Refused(text),
            _ => Self::Failed(text),
        }
    }
}

impl From<PeerError> for RequestError {
    fn from(panic: PeerError) -> Self {
        Self::Failed(panic.to_string())
    }
}

impl RequestError {
    pub(super) fn unexpected(found: &Value, wanted: &'static str) -> Self {
        let found = match found {
            Value::Nil => "nothing",
            Value::Int(_) => "an integer",
            Value::BulkString(_) | Value::SimpleString(_) | Value::VerbatimString { .. } | Value::Okay => {
                "a string"
            }
            Value::Array(_) | Value::Set(_) => "an array",
            Value::Map(_) => "a map",
            _ => "another type",
        };
        Self::Unexpected { found, wanted }
    }
}

/// A connection to Redis.
pub(super) struct Connection {
    redis: MultiplexedConnection,
    /// Transfers requests and replies; polled only during a request.
    driver: Fuse<LocalBoxFuture<'static, ()>>,
    reply_max: usize,
    too_long: Arc<AtomicBool>,
}

impl Connection {
    /// Connects to `info`, over TLS with `tls`. A command may block for `blocking`; a reply may have
    /// `reply_max` bytes.
    pub(super) async fn open(
        info: &ConnectionInfo,
        tls: Option<&TlsClient>,
        blocking: Duration,
        reply_max: usize,
    ) -> Result<Self, RequestError> {
        let opening = async {
            let stream = Self::dial(info.addr(), tls).await?;
            Self::greet(stream, info, blocking, reply_max).await
        };
        timeout(TIMEOUT, opening).await.map_err(|_| RequestError::TimedOut(TIMEOUT))?
    }

    async fn dial(
        address: &ConnectionAddr,
        tls: Option<&TlsClient>,
    ) -> Result<Box<dyn Transport>, RequestError> {
        let (host, port) = match address {
            ConnectionAddr::Tcp(host, port) => (host.as_str(), *port),
            ConnectionAddr::Unix(path) => {
                return Ok(Box::new(UnixStream::connect(path).await.map_err(RedisError::from)?));
            }
            other => return Err(RequestError::Failed(format!("{other} is not supported"))),
        };
        let stream = TcpStream::connect((host, port)).await.map_err(RedisError::from)?;
        stream.set_nodelay(true).map_err(RedisError::from)?;
        let Some(tls) = tls else { return Ok(Box::new(stream)) };
        let stream = tls.connect(stream).await;
        Ok(Box::new(stream.map_err(|error| RequestError::Tls(truncated(&error)))?))
    }

    async fn greet(
        stream: Box<dyn Transport>,
        info: &ConnectionInfo,
        blocking: Duration,
        reply_max: usize,
    ) -> Result<Self, RequestError> {
        let too_long = Arc::<AtomicBool>::default();
        let limited = LimitedStream::new(stream, ReplyLimit::new(reply_max, too_long.clone()));
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT + blocking));
        let opened =
            catch_panic(MultiplexedConnection::new_with_config(info.redis_settings(), limited, config))
                .await?;
        let (redis, driver) = match opened {
            Ok(opened) => opened,
            Err(_) if too_long.load(Relaxed) => return Err(RequestError::TooLong(reply_max)),
            Err(error) => return Err(error.into()),
        };
        Ok(Self { redis, driver: driver.boxed_local().fuse(), reply_max, too_long })
    }

    /// Reply to one command.
    pub(super) async fn ask(&mut self, command: &Cmd) -> Result<Value, RequestError> {
        let mut redis = self.redis.clone();
        self.drive(command.query_async(&mut redis)).await
    }

    /// Replies to several commands.
    pub(super) async fn ask_all(&mut self, commands: &Pipeline) -> Result<Vec<Value>, RequestError> {
        let mut redis = self.redis.clone();
        self.drive(commands.query_async(&mut redis)).await
    }

    /// Reply to a script.
    pub(super) async fn run(&mut self, script: &ScriptInvocation<'_>) -> Result<Value, RequestError> {
        let mut redis = self.redis.clone();
        self.drive(script.invoke_async(&mut redis)).await
    }

    async fn drive<T: FromRedisValue>(
        &mut self,
        request: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, RequestError> {
        let driven = async {
            let request = std::pin::pin!(request);
            match select(request, &mut self.driver).await {
                Either::Left((outcome, _)) => outcome,
                // The connection has ended; the request returns its error.
                Either::Right(((), request)) => request.await,
            }
        };
        let outcome = match catch_panic(driven).await {
            Ok(outcome) => outcome,
            Err(panic) => {
                // A future that panicked must not be polled again.
                self.driver = Fuse::terminated();
                return Err(panic.into());
            }
        };
        outcome.map_err(|error| {
            if self.too_long.load(Relaxed) { RequestError::TooLong(self.reply_max) } else { error.into() }
        })
    }
}

/// Text as [`sanitize`] returns it, formatted only up to its limit, since the text may repeat a
/// whole reply.
pub(super) fn truncated(text: &impl Display) -> String {
    let mut out = Truncated(String::new());
    // An error means that the rest is cut.
    let _ = write!(out, "{text}");
    sanitize(out.0)
}

/// Writer that stops after the shown length.
struct Truncated(String);

impl Write for Truncated {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = (TEXT_MAX + 1).saturating_sub(self.0.len());
        self.0.push_str(&text[..text.floor_char_boundary(room)]);
        if text.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
