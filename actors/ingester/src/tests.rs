//! Integration tests of the ingester: scans, sources, protocols, egress.

mod captures;
mod egress;
mod explain;
mod protocols;
mod scan;
pub(crate) mod sources;
mod threads;
mod toy;
