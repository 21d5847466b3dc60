//! One connection, for one request at a time. Replies come back as they are: what a peer of another kind answers must not fail in a
//! conversion that repeats all of it.

use std::{
    fmt::{self, Display, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::{Either, Fuse, FutureExt, LocalBoxFuture, select};
use orchestrator_edge::LimitedStream;
use orchestrator_supervise::{TEXT_MAX, sanitize};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue, Pipeline,
    RedisError, RedisResult, ScriptInvocation, Value, aio::MultiplexedConnection,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::reply_limit::ReplyLimit;

/// How long a connection may take to be made, and a command that does not wait to be answered.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why there is no connection, or no reply that can be used. The text is limited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestError {
    /// The connection failed, or the reply was none.
    #[error("{0}")]
    Failed(String),
    /// Redis refuses the command: the key is of another type, the user may not, the memory is full.
    #[error("{0}")]
    Refused(String),
    /// The reply was longer than the connection allows. The connection is gone.
    #[error("the reply is longer than {} KiB or has too many values", .0 / 1024)]
    TooLong(usize),
    /// The reply is not of the command's form.
    #[error("the reply has {found}, where {wanted} is expected")]
    Odd {
        /// The type that came.
        found: &'static str,
        /// The type that the command gives.
        wanted: &'static str,
    },
    /// The same entries again, or entries without an id: reading on would not end.
    #[error("the reply has only entries from before {0}")]
    Stale(String),
    /// Nothing came in time.
    #[error("no answer within {} ms", .0.as_millis())]
    Silent(Duration),
}

impl From<RedisError> for RequestError {
    fn from(error: RedisError) -> Self {
        let text = shortened(&error);
        match error.kind() {
            ErrorKind::Server(_) | ErrorKind::Extension => Self::Refused(text),
            _ => Self::Failed(text),
        }
    }
}

impl RequestError {
    pub(super) fn odd(found: &Value, wanted: &'static str) -> Self {
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
        Self::Odd { found, wanted }
    }
}

/// A connection to Redis.
pub(super) struct Connection {
    redis: MultiplexedConnection,
    /// Moves requests and replies; runs only while one is under way.
    driver: Fuse<LocalBoxFuture<'static, ()>>,
    reply_max: usize,
    over: Arc<AtomicBool>,
}

impl Connection {
    /// Connects to `info`. A command may block for `blocking`, and no reply may be longer than `reply_max` bytes.
    pub(super) async fn open(
        info: &ConnectionInfo,
        blocking: Duration,
        reply_max: usize,
    ) -> Result<Self, RequestError> {
        let opening = async {
            match info.addr() {
                ConnectionAddr::Tcp(host, port) => {
                    let stream =
                        TcpStream::connect((host.as_str(), *port)).await.map_err(RedisError::from)?;
                    stream.set_nodelay(true).map_err(RedisError::from)?;
                    Self::over(stream, info, blocking, reply_max).await
                }
                ConnectionAddr::Unix(path) => {
                    let stream = UnixStream::connect(path).await.map_err(RedisError::from)?;
                    Self::over(stream, info, blocking, reply_max).await
                }
                _ => Err(RequestError::Failed("TLS is not built in".to_owned())),
            }
        };
        timeout(PATIENCE, opening).await.map_err(|_| RequestError::Silent(PATIENCE))?
    }

    async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        info: &ConnectionInfo,
        blocking: Duration,
        reply_max: usize,
    ) -> Result<Self, RequestError> {
        let over = Arc::<AtomicBool>::default();
        let limited = LimitedStream::new(stream, ReplyLimit::new(reply_max, over.clone()));
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE + blocking));
        let opened = MultiplexedConnection::new_with_config(info.redis_settings(), limited, config).await;
        let (redis, driver) = match opened {
            Ok(opened) => opened,
            Err(_) if over.load(Relaxed) => return Err(RequestError::TooLong(reply_max)),
            Err(error) => return Err(error.into()),
        };
        Ok(Self { redis, driver: driver.boxed_local().fuse(), reply_max, over })
    }

    /// The reply to one command.
    pub(super) async fn ask(&mut self, command: &Cmd) -> Result<Value, RequestError> {
        let mut redis = self.redis.clone();
        self.drive(command.query_async(&mut redis)).await
    }

    /// The replies to several.
    pub(super) async fn ask_all(&mut self, commands: &Pipeline) -> Result<Vec<Value>, RequestError> {
        let mut redis = self.redis.clone();
        self.drive(commands.query_async(&mut redis)).await
    }

    /// The reply to a script.
    pub(super) async fn run(&mut self, script: &ScriptInvocation<'_>) -> Result<Value, RequestError> {
        let mut redis = self.redis.clone();
        self.drive(script.invoke_async(&mut redis)).await
    }

    async fn drive<T: FromRedisValue>(
        &mut self,
        request: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, RequestError> {
        let request = std::pin::pin!(request);
        let outcome = match select(request, &mut self.driver).await {
            Either::Left((outcome, _)) => outcome,
            // The connection has ended: that is the outcome.
            Either::Right(((), request)) => request.await,
        };
        outcome.map_err(|error| {
            if self.over.load(Relaxed) { RequestError::TooLong(self.reply_max) } else { error.into() }
        })
    }
}

/// `text` as [`sanitize`] gives it, without writing out more of it than that: it may repeat a whole reply.
pub(super) fn shortened(text: &impl Display) -> String {
    let mut out = Short(String::new());
    // An error means that the rest is left out.
    let _ = write!(out, "{text}");
    sanitize(out.0)
}

/// Takes a little more than is shown.
struct Short(String);

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = (TEXT_MAX + 1).saturating_sub(self.0.len());
        self.0.push_str(&text[..text.floor_char_boundary(room)]);
        if text.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
