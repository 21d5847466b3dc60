//! PgBouncer between the program and the server.

use orchestrator_harness::{PgBouncer, Postgres, Reply, wait_for};

use super::{SharedQueue, stop};

#[test]
fn a_pooler_of_transactions_is_refused_and_one_of_sessions_works() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "pooled", 1);
    let through = |pool_mode| {
        let pooler = PgBouncer::start(server, pool_mode);
        let site = crate::site().set("queue.store=postgres");
        let site = site.set(&format!("queue.postgres.dsn={}", pooler.address("pooled")));
        (pooler, site)
    };
    let (_pooler, site) = through("transaction");
    let instance = site.start();
    let found = site.first_cause("queue", "a NOTIFY to a session of this program did not arrive");
    assert!(found.text.contains("set pool_mode = session"), "{found:?}");
    assert_eq!(server.script(&queue.dsn, "SELECT to_regnamespace('orchestrator_queue') IS NULL"), "t");
    stop(vec![instance]);

    let (_pooler, site) = through("session");
    site.write("f.1.txt", "a 0\n");
    let instance = site.start();
    let mut worker = site.worker();
    let job = wait_for("the job", || Some(worker.ready()).filter(|reply| matches!(reply, Reply::Job { .. })));
    assert_eq!(job.attr_path(), "a");
    assert_eq!(worker.done("a", 0), Reply::NoJobs);
    stop(vec![instance]);
}
