//! Which store is used: what each kind is called, where it runs and how it is connected to, said once for writer and reader.

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{Factory, Fault, InboxSlot, StartCx};

use super::{
    RETRY,
    mongodb::MongoStore,
    postgres::PostgresStore,
    reader,
    sqlite::{SqliteReader, SqliteStore},
    writer,
};
use crate::{
    config::{MongoConfig, PostgresConfig, ProvenanceConfig, SqliteConfig, WriterKind},
    messages::{ReadRequest, WriteRequest},
    store::{Ask, Store, StoreError},
};

/// A kind of store, by its section of the configuration.
trait Kind: Clone + Send + Sync + 'static {
    /// What the link is called.
    const NAME: &'static str;
    /// Do its calls block? Then it has threads of its own.
    const BLOCKS: bool;
    type Writer: Store;
    type Reader: Ask;

    /// What the link leads to.
    fn endpoint(&self) -> String;
    /// How many stores write at once.
    fn lanes(&self) -> usize;
    async fn writer(&self) -> Result<Self::Writer, StoreError>;
    async fn reader(&self) -> Result<Self::Reader, StoreError>;
}

impl Kind for SqliteConfig {
    const NAME: &'static str = "sqlite";
    const BLOCKS: bool = true;
    type Writer = SqliteStore;
    type Reader = SqliteReader;

    fn endpoint(&self) -> String {
        self.path.display().to_string()
    }

    /// A file has one writer at a time.
    fn lanes(&self) -> usize {
        1
    }

    async fn writer(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(&self.path)
    }

    async fn reader(&self) -> Result<SqliteReader, StoreError> {
        SqliteReader::open(&self.path)
    }
}

impl Kind for PostgresConfig {
    const NAME: &'static str = "postgres";
    const BLOCKS: bool = false;
    type Writer = PostgresStore;
    type Reader = PostgresStore;

    fn endpoint(&self) -> String {
        self.endpoint()
    }

    fn lanes(&self) -> usize {
        self.pool.into()
    }

    async fn writer(&self) -> Result<PostgresStore, StoreError> {
        PostgresStore::connect(&self.target()?).await
    }

    async fn reader(&self) -> Result<PostgresStore, StoreError> {
        self.writer().await
    }
}

impl Kind for MongoConfig {
    const NAME: &'static str = "mongodb";
    const BLOCKS: bool = false;
    type Writer = MongoStore;
    type Reader = MongoStore;

    fn endpoint(&self) -> String {
        self.endpoint()
    }

    /// While one waits for the disks of a majority, the other works.
    fn lanes(&self) -> usize {
        2
    }

    async fn writer(&self) -> Result<MongoStore, StoreError> {
        MongoStore::connect(&self.target()?, &self.database).await
    }

    async fn reader(&self) -> Result<MongoStore, StoreError> {
        self.writer().await
    }
}

/// The child that writes.
pub(crate) fn writer(config: &ProvenanceConfig, slot: &InboxSlot<WriteRequest>) -> Factory {
    match config.writer.kind {
        WriterKind::Sqlite => writer_of(&config.sqlite, slot),
        WriterKind::Postgres => writer_of(&config.postgres, slot),
        WriterKind::Mongodb => writer_of(&config.mongodb, slot),
    }
}

/// The child that answers questions.
pub(crate) fn reader(config: &ProvenanceConfig, slot: &InboxSlot<ReadRequest>) -> Factory {
    match config.writer.kind {
        WriterKind::Sqlite => reader_of(&config.sqlite, slot),
        WriterKind::Postgres => reader_of(&config.postgres, slot),
        WriterKind::Mongodb => reader_of(&config.mongodb, slot),
    }
}

fn writer_of<K: Kind>(kind: &K, slot: &InboxSlot<WriteRequest>) -> Factory {
    let writer = factory(kind, slot, async |kind: K, requests, cx| {
        let (tries, lanes) = (tries(&kind, &cx), kind.lanes());
        writer::run(&cx, &requests, tries, lanes, async || kind.writer().await).await
    });
    writer.with_inbox("writes", slot)
}

fn reader_of<K: Kind>(kind: &K, slot: &InboxSlot<ReadRequest>) -> Factory {
    let reader = factory(kind, slot, async |kind: K, requests, cx| {
        let tries = tries(&kind, &cx);
        reader::run(&cx, &requests, tries, async || kind.reader().await).await
    });
    reader.with_inbox("questions", slot)
}

/// `run` at every start, with what it works on, on a thread or on the arbiter.
fn factory<K, T, Fut>(
    kind: &K,
    slot: &InboxSlot<T>,
    run: impl Fn(K, InboxSlot<T>, StartCx) -> Fut + Send + Sync + 'static,
) -> Factory
where
    K: Kind,
    T: Send + 'static,
    Fut: Future<Output = Result<(), Fault>> + 'static,
{
    let (kind, slot) = (kind.clone(), slot.clone());
    let run = move |cx| run(kind.clone(), slot.clone(), cx);
    if K::BLOCKS { Factory::thread(move |cx| timed(run(cx))) } else { Factory::task(run) }
}

fn tries<K: Kind>(kind: &K, cx: &StartCx) -> Reconnect {
    Reconnect::new(cx.vitals.link(K::NAME, kind.endpoint()), RETRY)
}

/// Runs a future on this thread, with timers.
pub(super) fn timed(future: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime
        .map_err(|error| Fault::new(format!("cannot start the thread's timers: {error}")))?
        .block_on(future)
}
