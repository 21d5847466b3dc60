//! Writes of the lease, each on condition that it is as it was read.

use mongodb::bson::{Document, doc};

use super::{
    layout::{CONFIG, long},
    session::Session,
};
use orchestrator_producer_rules::lease::Lease;

use crate::store::StoreError;

/// Replaces the lease `seen` with `lease`. Returns false if it has changed.
pub(super) async fn take(
    session: &Session,
    stencils: &str,
    seen: Option<&Lease>,
    lease: &Lease,
) -> Result<bool, StoreError> {
    let mut filter = doc! { "_id": CONFIG };
    match seen {
        None => {
            filter.insert("orchestrator.lease", doc! { "$exists": false });
        }
        Some(seen) => {
            filter.insert("orchestrator.lease.holder", seen.holder.as_str());
            filter.insert("orchestrator.lease.epoch", long(seen.epoch));
            // A renewed lease is not free.
            filter.insert("orchestrator.lease.until_ms", seen.until_ms);
        }
    }
    session
        .set_lease("taking the lease", stencils, filter, doc! { "orchestrator.lease": layout(lease) })
        .await
}

/// Sets the end of the lease of `epoch`. Returns false if the lease has another epoch.
pub(super) async fn renew(
    session: &Session,
    stencils: &str,
    epoch: u64,
    ttl_ms: u64,
) -> Result<bool, StoreError> {
    let until_ms = match ttl_ms {
        0 => 0,
        _ => session.clock_ms().await?.saturating_add_unsigned(ttl_ms),
    };
    let filter = doc! { "_id": CONFIG, "orchestrator.lease.epoch": long(epoch) };
    session
        .set_lease("renewing the lease", stencils, filter, doc! { "orchestrator.lease.until_ms": until_ms })
        .await
}

fn layout(lease: &Lease) -> Document {
    doc! { "holder": lease.holder.as_str(), "epoch": long(lease.epoch), "until_ms": lease.until_ms }
}
