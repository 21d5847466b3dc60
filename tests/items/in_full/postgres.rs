//! Jobs of a queue that several instances share on PostgreSQL.

use orchestrator_harness::{Instance, OpenSession, Postgres, Reply, TestEnv, eventually};

use crate::{BINARY, asks};

/// Starts instances of one queue. The first one has read a file of two jobs.
fn shared(server: &Postgres, database: &str, names: &[&str]) -> (String, Vec<(TestEnv, Instance)>) {
    let dsn = server.create_database(database);
    let start = |name: &&str| {
        let env = TestEnv::new(BINARY).set("queue.store=postgres").set(&format!("queue.postgres.dsn={dsn}"));
        let env = env.set(&format!("queue.postgres.instance={name}"));
        if *name == names[0] {
            env.write("demo.1.txt", "alpha 0\nbravo 0\n");
        }
        let instance = env.start();
        eventually("the queue", || env.link("queue/queue_store").state == "up");
        (env, instance)
    };
    let instances: Vec<_> = names.iter().map(start).collect();
    eventually("the file to be read", || instances[0].0.cli(&["queue", "peek"]).1.contains("bravo"));
    (dsn, instances)
}

#[test]
fn a_job_of_another_instance_names_it_and_tells_whether_it_lives() {
    let server = Postgres::shared();
    let (_, mut instances) = shared(server, "items_of_instances", &["left", "right"]);
    let mut worker = instances[1].0.worker();
    let taken = worker.ready();
    // Its delivery is recorded before the next request.
    assert!(matches!(worker.ready(), Reply::Job { .. }));
    let attr_path = taken.attr_path();
    let live = ["of instance right has the job", "instance right on ", " is live"];
    asks(&instances[0].0, "another instance's worker has the job", attr_path, 0, &live);
    let (_, right) = instances.pop().expect("two instances");
    right.kill_nine();
    let dead =
        ["of instance right has the job", " is dead, its lease ended at ", "orchestrator queue requeue"];
    asks(&instances[0].0, "the instance that has the job is dead", attr_path, 1, &dead);
}

#[test]
fn a_server_that_is_away_and_a_lock_of_others_are_named() {
    let mut server = Postgres::start();
    let (dsn, instances) = shared(&server, "items_away", &["left"]);
    let env = &instances[0].0;
    let first = env.worker().ready();
    let other = if first.attr_path() == "alpha" { "bravo" } else { "alpha" };
    asks(env, "a job waits in order", other, 0, &["waits at position 1"]);
    let sql = "BEGIN; LOCK TABLE orchestrator_queue.ready IN ACCESS EXCLUSIVE MODE";
    let lock = OpenSession::start(&dsn, "migration", sql);
    let mut worker = env.worker();
    let waiting = std::thread::spawn(move || worker.ready());
    let locked = ["migration", "pg_terminate_backend"];
    asks(env, "somebody else locks a table of the queue", other, 1, &locked);
    drop(lock);
    assert!(matches!(waiting.join(), Ok(Reply::Job { .. })), "it goes on");
    server.kill_nine();
    let away = ["no answer about", "queue/queue_console gave no answer", "postgres", "pg_isready"];
    asks(env, "PostgreSQL is away", other, 1, &away);
}
