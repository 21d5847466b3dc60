//! The SQLite store against the suite of all stores, and what only a file has.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

#[path = "sqlite_store/file.rs"]
mod file;
#[path = "conformance/flavors.rs"]
mod flavors;
#[path = "sqlite_store/rate.rs"]
mod rate;
#[path = "conformance/suite.rs"]
mod suite;

use std::cell::Cell;

use orchestrator_provenance::edge::sqlite::{Options, SqliteStore, Synchronous};
use suite::Flavor;

/// Speed only: what a power cut would leave is not tested here.
const QUICK: Options = Options { synchronous: Synchronous::Normal, cache_bytes: 8 << 20 };

#[tokio::test]
async fn conforms() {
    let dir = tempfile::tempdir().unwrap();
    let opened = Cell::new(0);
    suite::run(Flavor::FULL, async || {
        opened.set(opened.get() + 1);
        SqliteStore::open_with(&dir.path().join(format!("{}.db", opened.get())), QUICK).unwrap()
    })
    .await;
}
