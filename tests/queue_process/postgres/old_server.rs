//! A server older than the queue needs. `tests/plan.toml` runs this with such a server only.

use orchestrator_harness::Postgres;

use super::{SharedQueue, stop};

#[test]
fn a_server_that_is_too_old_is_named_and_not_changed() {
    let server = Postgres::shared();
    let mut queue = SharedQueue::new(server, "old", 1);
    let site = queue.sites.remove(0);
    let instance = site.start();
    site.first_cause("queue", "the server is PostgreSQL 13");
    stop(vec![instance]);
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'orchestrator%'";
    assert_eq!(server.script(&queue.dsn, schemas).trim(), "0");
}
