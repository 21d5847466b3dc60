//! Connection to Redis for one request at a time. Replies stay untyped: a failed conversion by the
//! client library would repeat the whole reply in its error.

use std::{
    fmt::{self, Display, Write},
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::{Either, Fuse, FutureExt, LocalBoxFuture, select};
use orchestrator_edge::{
    HostPort, LimitedStream, PeerError, PeerErrorKind, Sent, Transport, catch_panic, dial, tls::TlsClient,
};
use orchestrator_text::{TEXT_MAX, sanitize};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue, Pipeline,
    RedisError, RedisResult, ScriptInvocation, Value, aio::MultiplexedConnection,
};
use tokio::{net::UnixStream, time::timeout};

use super::reply_limit::ReplyLimit;

/// Time-out for connecting, and for commands that do not block.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Advice for operators, by the code of the server's error.
const ADVICE: [(&str, &str); 8] = [
    ("LOADING", "wait until Redis has loaded its file: redis-cli INFO persistence"),
    (
        "MISCONF",
        "redis-cli INFO persistence shows why the last save failed; free its disk, then redis-cli BGSAVE",
    ),
    (
        "NOAUTH",
        "write redis://:PASSWORD@HOST:PORT into a file, set redis_url_file to its path in place of redis_url, and restart",
    ),
    (
        "NOPERM",
        "redis-cli ACL LIST, as an administrator; ACL SETUSER USER ~dranspose:* +@all permits what is used",
    ),
    ("OOM", "redis-cli INFO memory; CONFIG SET maxmemory to more, or delete keys"),
    ("READONLY", "redis-cli ROLE; name the master in redis_url"),
    ("WRONGPASS", "correct user and password in redis_url and restart; redis-cli ACL LIST shows the users"),
    ("WRONGTYPE", "redis-cli TYPE KEY; delete the key that another program wrote with another type"),
];

/// The text is bounded.
fn peer_error(error: RedisError) -> PeerError {
    let kind = error.kind();
    let shown = truncated(&error);
    // The first one of a pipeline.
    let said = error.into_server_errors().and_then(|errors| Some(errors.first()?.1.clone()));
    match (said, kind) {
        // For example a wrong type of key, no permission, or no memory. In the server's words: the library
        // has texts of its own.
        (Some(said), _) => {
            let text = truncated(&format_args!("{} {}", said.code(), said.details().unwrap_or_default()));
            PeerError::new(PeerErrorKind::Refused, Sent::Yes, text).with_advice(advice(said.code()))
        }
        (None, ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::AuthenticationFailed) => {
            let wrong_password = kind == ErrorKind::AuthenticationFailed;
            PeerError::new(PeerErrorKind::Refused, Sent::Yes, shown)
                .with_advice(wrong_password.then(|| advice("WRONGPASS")).flatten())
        }
        (None, ErrorKind::Parse | ErrorKind::UnexpectedReturnType) => malformed(shown),
        (None, _) => PeerError::lost(shown),
    }
}

fn advice(code: &str) -> Option<String> {
    ADVICE.iter().find(|(known, _)| *known == code).map(|(_, advice)| (*advice).to_owned())
}

/// The reply has another type than the command returns.
pub(super) fn unexpected(found: &Value, wanted: &str) -> PeerError {
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
    malformed(format!("the reply has {found} instead of {wanted}"))
}

/// The reply cannot be one to its command.
pub(super) fn malformed(text: String) -> PeerError {
    PeerError::new(PeerErrorKind::Malformed, Sent::Yes, text)
}

/// The reply exceeds `limit`, in bytes; the connection is closed.
fn too_large(limit: usize) -> PeerError {
    let text = format!("the reply is longer than {} KiB or has too many values", limit / 1024);
    PeerError::new(PeerErrorKind::TooLarge, Sent::Yes, text)
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
    ) -> Result<Self, PeerError> {
        let opening = async {
            let stream = Self::dial(info.addr(), tls).await?;
            Self::greet(stream, info, blocking, reply_max).await
        };
        timeout(TIMEOUT, opening).await.unwrap_or_else(|_| {
            let text = format!("no answer within {} ms", TIMEOUT.as_millis());
            Err(PeerError::new(PeerErrorKind::Timeout, Sent::No, text))
        })
    }

    async fn dial(
        address: &ConnectionAddr,
        tls: Option<&TlsClient>,
    ) -> Result<Box<dyn Transport>, PeerError> {
        let failed = |error: io::Error| PeerError::unconnected(&error);
        let (host, port) = match address {
            ConnectionAddr::Tcp(host, port) => (host.as_str(), *port),
            ConnectionAddr::Unix(path) => {
                return Ok(Box::new(UnixStream::connect(path).await.map_err(failed)?));
            }
            other => return Err(PeerError::lost(format!("{other} is not supported"))),
        };
        let stream = dial(host, port).await?;
        stream.set_nodelay(true).map_err(failed)?;
        let Some(tls) = tls else { return Ok(Box::new(stream)) };
        let stream = tls.secure(stream, HostPort { host: host.to_owned(), port }).await;
        Ok(Box::new(stream.map_err(|error| error.map_text(|text| truncated(&text)))?))
    }

    async fn greet(
        stream: Box<dyn Transport>,
        info: &ConnectionInfo,
        blocking: Duration,
        reply_max: usize,
    ) -> Result<Self, PeerError> {
        let too_long = Arc::<AtomicBool>::default();
        let limited = LimitedStream::new(stream, ReplyLimit::new(reply_max, too_long.clone()));
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT + blocking));
        let opened =
            catch_panic(MultiplexedConnection::new_with_config(info.redis_settings(), limited, config))
                .await?;
        let (redis, driver) = match opened {
            Ok(opened) => opened,
            Err(_) if too_long.load(Relaxed) => return Err(too_large(reply_max)),
            Err(error) => {
                let error = peer_error(error);
                return Err(match error.kind {
                    PeerErrorKind::Lost => error.map_text(|text| {
                        format!("it ends the connection at the first request: is it Redis? ({text})")
                    }),
                    _ => error,
                });
            }
        };
        Ok(Self { redis, driver: driver.boxed_local().fuse(), reply_max, too_long })
    }

    pub(super) async fn ask(&mut self, command: &Cmd) -> Result<Value, PeerError> {
        let mut redis = self.redis.clone();
        self.drive(command.query_async(&mut redis)).await
    }

    pub(super) async fn ask_all(&mut self, commands: &Pipeline) -> Result<Vec<Value>, PeerError> {
        let mut redis = self.redis.clone();
        self.drive(commands.query_async(&mut redis)).await
    }

    /// Reply to a script.
    pub(super) async fn run(&mut self, script: &ScriptInvocation<'_>) -> Result<Value, PeerError> {
        let mut redis = self.redis.clone();
        self.drive(script.invoke_async(&mut redis)).await
    }

    async fn drive<T: FromRedisValue>(
        &mut self,
        request: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, PeerError> {
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
                return Err(panic);
            }
        };
        outcome.map_err(|error| {
            if self.too_long.load(Relaxed) { too_large(self.reply_max) } else { peer_error(error) }
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
