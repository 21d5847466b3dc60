//! Integration tests of the ingester: scans, sources, protocols, egress.

mod captures;
mod egress;
mod protocols;
mod scan;
mod sources;
mod threads;
mod toy;
