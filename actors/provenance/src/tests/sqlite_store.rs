//! SQLite store: the conformance suite and the properties of a file.

mod file;

use std::cell::Cell;

use crate::{
    edge::sqlite::{Options, SqliteStore, Synchronous},
    tests::conformance::{self, Flavor},
};

/// For speed; power failures are not tested here.
const QUICK: Options = Options { synchronous: Synchronous::Normal, cache_bytes: 8 << 20 };

#[tokio::test]
async fn conforms() {
    let dir = tempfile::tempdir().unwrap();
    let opened = Cell::new(0);
    conformance::run(Flavor::FULL, async || {
        opened.set(opened.get() + 1);
        SqliteStore::open_with(&dir.path().join(format!("{}.db", opened.get())), QUICK).unwrap()
    })
    .await;
}
