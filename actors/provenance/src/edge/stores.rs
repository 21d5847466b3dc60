//! Selection of the configured store, shared by writer and reader.

use orchestrator_edge::{LinkState, RetryPolicy, without_credentials};
use orchestrator_subsystem::BackupSet;
use orchestrator_supervise::{Factory, Fault, InboxSlot, StartCx};

#[cfg(feature = "mongodb")]
use super::mongodb::MongoStore;
#[cfg(feature = "postgres")]
use super::postgres::PostgresStore;
#[cfg(feature = "sqlite")]
use super::sqlite::{SqliteReader, SqliteStore};
use super::{reader, writer};
#[cfg(feature = "mongodb")]
use crate::config::MongoConfig;
#[cfg(feature = "postgres")]
use crate::config::PostgresConfig;
#[cfg(feature = "sqlite")]
use crate::config::SqliteConfig;
use crate::{
    config::{ProvenanceConfig, Transport, WriterKind},
    error::ProvenanceError,
    messages::{DeadLetterRequest, ReadRequest, WriteRequest},
    store::{Store, StoreError, StoreReader},
};

/// Kind of store, implemented by its section of the configuration.
trait StoreBackend: Clone + Send + Sync + 'static {
    /// Name of the link.
    const NAME: &'static str;
    /// True if calls block; the children then run on threads of their own.
    const BLOCKS: bool;
    type Writer: Store;
    type Reader: StoreReader;

    /// Address without any password.
    fn endpoint(&self) -> String;
    /// Number of connections that write in parallel.
    fn write_connections(&self) -> usize;
    async fn writer(&self) -> Result<Self::Writer, StoreError>;
    async fn reader(&self) -> Result<Self::Reader, StoreError>;
}

#[cfg(feature = "sqlite")]
impl StoreBackend for SqliteConfig {
    const NAME: &'static str = "sqlite";
    const BLOCKS: bool = true;
    type Writer = SqliteStore;
    type Reader = SqliteReader;

    fn endpoint(&self) -> String {
        self.path.display().to_string()
    }

    /// SQLite allows one writer at a time.
    fn write_connections(&self) -> usize {
        1
    }

    async fn writer(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(&self.path)
    }

    async fn reader(&self) -> Result<SqliteReader, StoreError> {
        SqliteReader::open(&self.path)
    }
}

#[cfg(feature = "postgres")]
impl StoreBackend for PostgresConfig {
    const NAME: &'static str = "postgres";
    const BLOCKS: bool = false;
    type Writer = PostgresStore;
    type Reader = PostgresStore;

    fn endpoint(&self) -> String {
        self.endpoint()
    }

    fn write_connections(&self) -> usize {
        self.pool.into()
    }

    async fn writer(&self) -> Result<PostgresStore, StoreError> {
        let mut store = PostgresStore::connect(&self.target()?).await?;
        store.check_writes().await?;
        Ok(store)
    }

    async fn reader(&self) -> Result<PostgresStore, StoreError> {
        PostgresStore::connect(&self.target()?).await
    }
}

#[cfg(feature = "mongodb")]
impl StoreBackend for MongoConfig {
    const NAME: &'static str = "mongodb";
    const BLOCKS: bool = false;
    type Writer = MongoStore;
    type Reader = MongoStore;

    fn endpoint(&self) -> String {
        self.endpoint()
    }

    /// While one waits for the journals of a majority, the other works.
    fn write_connections(&self) -> usize {
        2
    }

    async fn writer(&self) -> Result<MongoStore, StoreError> {
        MongoStore::connect(&self.target()?, &self.database).await
    }

    async fn reader(&self) -> Result<MongoStore, StoreError> {
        self.writer().await
    }
}

/// Evaluates `$body` with the section of the configured store; an error in a build without that
/// store.
macro_rules! with_store {
    ($config:expr, $section:ident => $body:expr) => {
        match $config.writer.kind {
            #[cfg(feature = "sqlite")]
            WriterKind::Sqlite => {
                let $section = &$config.sqlite;
                Ok($body)
            }
            #[cfg(feature = "postgres")]
            WriterKind::Postgres => {
                let $section = &$config.postgres;
                Ok($body)
            }
            #[cfg(feature = "mongodb")]
            WriterKind::Mongodb => {
                let $section = &$config.mongodb;
                Ok($body)
            }
            #[allow(unreachable_patterns, reason = "a build with every store")]
            kind => Err(ProvenanceError::Config(format!("this build lacks the store {kind}"))),
        }
    };
}

/// Returns the factory of the writer.
///
/// # Errors
/// This build lacks the store.
pub(crate) fn writer(
    config: &ProvenanceConfig,
    slot: &InboxSlot<WriteRequest>,
) -> Result<Factory, ProvenanceError> {
    with_store!(config, section => writer_of(section, slot))
}

/// Returns the factory of the reader.
///
/// # Errors
/// This build lacks the store.
pub(crate) fn reader(
    config: &ProvenanceConfig,
    slot: &InboxSlot<ReadRequest>,
) -> Result<Factory, ProvenanceError> {
    with_store!(config, section => reader_of(section, slot))
}

/// Returns the factory of the child that stores dead letters.
///
/// # Errors
/// This build lacks SQLite.
pub(crate) fn dead_letters(
    config: &ProvenanceConfig,
    slot: &InboxSlot<DeadLetterRequest>,
) -> Result<Factory, ProvenanceError> {
    #[cfg(feature = "sqlite")]
    let factory = Ok(super::dead_letters::factory(&config.dead_letters, slot));
    #[cfg(not(feature = "sqlite"))]
    let factory = {
        let (_, path) = (slot, config.dead_letters.display());
        Err(ProvenanceError::Config(format!("this build lacks SQLite for {path}: set transport = \"amqp\"")))
    };
    factory
}

/// Returns the files of the store and of the dead letters, and what is kept in servers.
pub(crate) fn files_to_back_up(config: &ProvenanceConfig) -> BackupSet {
    let (mut set, amqp) = (BackupSet::default(), &config.amqp);
    #[cfg(feature = "sqlite")]
    {
        use orchestrator_edge::sqlite::{check, copy};
        if config.writer.kind == WriterKind::Sqlite {
            set = set.database("rows", &config.sqlite.path, copy, check);
        }
        if config.transport == Transport::Embedded {
            set = set.database("dead_letters", &config.dead_letters, copy, check);
        }
    }
    if config.writer.kind != WriterKind::Sqlite {
        set = set.elsewhere(format!("rows, in {} at {}", config.writer.kind, endpoint(config)));
    }
    if config.transport == Transport::Amqp {
        let file = amqp.url_file.as_ref().map(|file| file.display().to_string());
        let at = file.or_else(|| without_credentials(amqp.url.expose())).unwrap_or_default();
        set = set.elsewhere(format!("waiting and refused rows, in RabbitMQ at {at}"));
    }
    set
}

/// Address without any password.
pub(crate) fn endpoint(config: &ProvenanceConfig) -> String {
    with_store!(config, section => section.endpoint()).unwrap_or_else(|error| error.to_string())
}

fn writer_of<B: StoreBackend>(backend: &B, slot: &InboxSlot<WriteRequest>) -> Factory {
    let writer = factory(backend, slot, async |backend: B, requests, cx| {
        let (link, write_connections) = (link(&backend, &cx), backend.write_connections());
        writer::run(&cx, &requests, link, write_connections, async || backend.writer().await).await
    });
    writer.with_inbox("writes", slot)
}

fn reader_of<B: StoreBackend>(backend: &B, slot: &InboxSlot<ReadRequest>) -> Factory {
    let reader = factory(backend, slot, async |backend: B, requests, cx| {
        reader::run(&cx, &requests, link(&backend, &cx), async || backend.reader().await).await
    });
    reader.with_inbox("queries", slot)
}

/// Calls `run` at each start, on a thread if the backend blocks.
fn factory<B, T, Fut>(
    backend: &B,
    slot: &InboxSlot<T>,
    run: impl Fn(B, InboxSlot<T>, StartCx) -> Fut + Send + Sync + 'static,
) -> Factory
where
    B: StoreBackend,
    T: Send + 'static,
    Fut: Future<Output = Result<(), Fault>> + 'static,
{
    let (backend, slot) = (backend.clone(), slot.clone());
    let run = move |cx| run(backend.clone(), slot.clone(), cx);
    if B::BLOCKS { Factory::thread(move |cx| orchestrator_edge::timed(run(cx))) } else { Factory::task(run) }
}

/// State of the link to the store, which is tried again as CONTRACT PE11 says.
fn link<B: StoreBackend>(backend: &B, cx: &StartCx) -> LinkState {
    let policy = if B::BLOCKS { RetryPolicy::LOCAL } else { RetryPolicy::REMOTE };
    LinkState::new(cx, B::NAME, backend.endpoint(), policy)
}
