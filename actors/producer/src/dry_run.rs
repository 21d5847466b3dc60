//! Dry run of `orchestrator producer plan`, directly over the database.

use orchestrator_producer_rules::{
    id::Id,
    job::{Jid, Job, JobWriter},
    pair::Pair,
};

use crate::{
    Compat, ProducerConfig,
    edge::mongodb::MongoStore,
    plan::{Plan, plan},
    store::StoreError,
};

/// Returns the plan and the missing indexes, as JSON. With `ensure_indexes` those are created first; nothing
/// else is written.
///
/// # Errors
/// The database is unavailable, or the configuration document is invalid. The text says what to do.
pub async fn dry_run(config: &ProducerConfig, ensure_indexes: bool) -> Result<(Plan, Vec<String>), String> {
    let uri = config.mongodb.target()?;
    let strict = config.compat == Compat::Strict;
    let text = |error: StoreError| error.to_string();
    let store = MongoStore::open(&uri, config.mongodb.collections(), strict, None).await.map_err(text)?;
    if ensure_indexes {
        store.ensure_indexes().await.map_err(text)?;
    }
    let missing = store.missing_indexes().await.map_err(text)?;
    let plan = plan(&store, config.page_size, job_bytes(config)?).await.map_err(text)?;
    Ok((plan, missing))
}

/// Size of a typical job with its separator.
fn job_bytes(config: &ProducerConfig) -> Result<u64, String> {
    let writer = JobWriter::new(&config.job_options()?)?;
    let (id, tcn) = (Id([0; 12]), 10);
    let pair = Pair { root_id: id, root_tcn: tcn, scion_id: id, scion_tcn: tcn, page_size: config.page_size };
    let mut job = Vec::new();
    let keyed = config.compat == Compat::Default;
    writer.write(&Job { jid: Jid::derived(&pair, 0, 0), pair, keyed }, &mut job);
    Ok(job.len() as u64 + 1)
}
