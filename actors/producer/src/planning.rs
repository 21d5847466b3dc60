//! What `orchestrator producer plan` does: opens the database, looks, and goes. It needs no running instance.

use crate::{
    Compat, ProducerConfig,
    edge::mongodb::MongoStore,
    id::Id,
    job::{Jid, Job, JobWriter},
    pair::Pair,
    plan::{Plan, plan},
    store::StoreError,
};

/// What is left to be pushed by what is in the database now, and the indexes that pages need and that are missing, as JSON.
/// `ensure_indexes` makes those first; nothing else is written.
///
/// # Errors
/// The database is away, or a document that everything hangs on cannot be read; says what to do.
pub async fn dry_run(config: &ProducerConfig, ensure_indexes: bool) -> Result<(Plan, Vec<String>), String> {
    let uri = config.mongodb.target()?;
    let strict = config.compat == Compat::Strict;
    let text = |error: StoreError| error.to_string();
    let store = MongoStore::open(&uri, config.mongodb.place(), strict).await.map_err(text)?;
    if ensure_indexes {
        store.ensure_indexes().await.map_err(text)?;
    }
    let missing = store.missing_indexes().await.map_err(text)?;
    let plan = plan(&store, config.page_size, job_bytes(config)?).await.map_err(text)?;
    Ok((plan, missing))
}

/// Bytes of a job on the wire with what parts it from the next; jobs differ by some digits only.
fn job_bytes(config: &ProducerConfig) -> Result<u64, String> {
    let writer = JobWriter::new(&config.terms())?;
    let (id, tcn) = (Id([0; 12]), 10);
    let pair = Pair { root_id: id, root_tcn: tcn, scion_id: id, scion_tcn: tcn, page_size: config.page_size };
    let mut job = Vec::new();
    let keyed = config.compat == Compat::Default;
    writer.write(&Job { jid: Jid::derived(&pair, 0, 0), pair, keyed }, &mut job);
    Ok(job.len() as u64 + 1)
}
