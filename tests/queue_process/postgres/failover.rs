//! Loss of the server: its standby is promoted, or its disk is full.

use orchestrator_harness::{Postgres, SmallDisk, load::SeededRng, rounds, wait_for};

use super::{Load, SharedQueue, stop};

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
    assert_eq!(load.finish(&primary), 0);
    stop(instances);
}

#[test]
fn a_full_disk_of_the_server_is_waited_for() {
    SmallDisk::with(512, "postgres::failover::a_full_disk_of_the_server_is_waited_for", |disk| {
        let mut server = Postgres::start_in(disk.path());
        let queue = SharedQueue::new(&server, "full", 2);
        let instances = queue.start();
        let load = Load::start(queue, &mut SeededRng::new(12));
        load.await_answers();
        disk.fill();
        for site in &load.queue.sites {
            wait_for("the reason", || {
                let link = site.link("queue/queue_store");
                (link.state == "down" && link.reason.contains("No space left on device")).then_some(())
            });
        }
        disk.free();
        if !server.is_running() {
            server.start_again();
        }
        load.await_recovery("full disk of the server");
        assert_eq!(load.finish(&server), 0);
        stop(instances);
    });
}
