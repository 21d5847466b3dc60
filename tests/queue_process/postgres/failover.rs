//! Loss of the server: its standby, which has confirmed each commit, is promoted.

use orchestrator_harness::{Postgres, load::SeededRng, rounds};

use super::{Load, SharedQueue};

#[test]
fn a_promoted_standby_has_all_that_was_answered() {
    let mut primary = Postgres::start();
    let mut standby = Postgres::standby_of(&primary);
    let mut queue = SharedQueue::new(&primary, "failover", 2);
    queue.dsn = format!(
        "postgresql://postgres@127.0.0.1:{},127.0.0.1:{}/failover?target_session_attrs=read-write",
        primary.port(),
        standby.port()
    );
    let assignment = format!("queue.postgres.dsn={}", queue.dsn);
    let queue = queue.set(&assignment);
    let instances = queue.start();
    let load = Load::start(queue, &mut SeededRng::new(11));
    for _ in 0..rounds("ORCHESTRATOR_QUEUE_POSTGRES_PROMOTIONS", 2) {
        primary.await_standby();
        load.await_answers();
        primary.kill_nine();
        standby.promote();
        load.await_recovery("promotion of the standby");
        primary.follow(&standby);
        std::mem::swap(&mut primary, &mut standby);
    }
    assert_eq!(load.finish(&primary, instances), 0);
}
