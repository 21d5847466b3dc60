//! Which store is used: the factories of writer and reader for each kind.

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{Factory, Fault, InboxSlot, StartCx};

use super::{
    RETRY,
    postgres::PostgresStore,
    reader,
    sqlite::{SqliteReader, SqliteStore},
    writer,
};
use crate::{
    config::{ProvenanceConfig, WriterKind},
    messages::{ReadRequest, WriteRequest},
};

/// The child that writes.
pub(crate) fn writer(config: &ProvenanceConfig, slot: &InboxSlot<WriteRequest>) -> Factory {
    let requests = slot.clone();
    let factory = match config.writer.kind {
        WriterKind::Sqlite => {
            let path = config.sqlite.path.clone();
            Factory::thread(move |cx| {
                let tries = tries(&cx, "sqlite", path.display().to_string());
                timed(writer::run(&cx, &requests, tries, 1, async || SqliteStore::open(&path)))
            })
        }
        WriterKind::Postgres => {
            let postgres = config.postgres.clone();
            Factory::task(move |cx| {
                let (postgres, requests) = (postgres.clone(), requests.clone());
                async move {
                    let tries = tries(&cx, "postgres", postgres.endpoint());
                    let lanes = postgres.pool as usize;
                    writer::run(&cx, &requests, tries, lanes, async || {
                        PostgresStore::connect(&postgres.target()?).await
                    })
                    .await
                }
            })
        }
    };
    factory.with_inbox("writes", slot)
}

/// The child that answers questions.
pub(crate) fn reader(config: &ProvenanceConfig, slot: &InboxSlot<ReadRequest>) -> Factory {
    let requests = slot.clone();
    let factory = match config.writer.kind {
        WriterKind::Sqlite => {
            let path = config.sqlite.path.clone();
            Factory::thread(move |cx| {
                let tries = tries(&cx, "sqlite", path.display().to_string());
                timed(reader::run(&cx, &requests, tries, async || SqliteReader::open(&path)))
            })
        }
        WriterKind::Postgres => {
            let postgres = config.postgres.clone();
            Factory::task(move |cx| {
                let (postgres, requests) = (postgres.clone(), requests.clone());
                async move {
                    let tries = tries(&cx, "postgres", postgres.endpoint());
                    reader::run(&cx, &requests, tries, async || {
                        PostgresStore::connect(&postgres.target()?).await
                    })
                    .await
                }
            })
        }
    };
    factory.with_inbox("questions", slot)
}

fn tries(cx: &StartCx, kind: &'static str, endpoint: String) -> Reconnect {
    Reconnect::new(cx.vitals.link(kind, endpoint), RETRY)
}

/// Runs a future on this thread, with timers.
pub(super) fn timed(future: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime
        .map_err(|error| Fault::new(format!("cannot start the thread's timers: {error}")))?
        .block_on(future)
}
