//! Troubles of a queue on PostgreSQL that take a server of their own, or seconds.

use std::fs;

use orchestrator_harness::{Instance, Postgres, Reply, TestEnv, eventually, free_port};

use crate::{
    BINARY,
    answer::{Trouble, await_cured, run_help},
};

fn site(dsn: &str) -> TestEnv {
    TestEnv::new(BINARY).set("queue.store=postgres").set(&format!("queue.postgres.dsn={dsn}"))
}

fn start(site: &TestEnv) -> Instance {
    let instance = site.start();
    eventually("the queue", || site.link("queue/queue_store").state == "up");
    instance
}

#[test]
fn a_wrong_port_and_an_unknown_host_are_named_with_their_own_commands() {
    let port = free_port();
    let wrong = site(&format!("postgresql://postgres@127.0.0.1:{port}/queue"));
    let trouble = Trouble::begins("PostgreSQL does not run there: a wrong port");
    let _instance = wrong.start();
    let cause = trouble.shows_first(&wrong, "queue", "Connection refused");
    assert!(cause.help.starts_with(&format!("pg_isready -h 127.0.0.1 -p {port}; ")), "{cause:?}");
    assert!(run_help(&wrong, &cause.help).contains("no response"), "{cause:?}");
    let unknown = site("postgresql://postgres@nowhere.invalid/queue");
    let trouble = Trouble::begins("the name of a server has no address");
    let _instance = unknown.start();
    let cause = trouble.shows_first(&unknown, "queue", "failed to lookup address information");
    assert!(cause.help.starts_with("getent hosts nowhere.invalid; "), "{cause:?}");
}

#[test]
fn a_role_that_is_missing_is_named_with_the_statement() {
    let server = Postgres::shared();
    let admin = server.create_database("of_nobody");
    let site = site(&admin.replace("postgres@", "nobody@"));
    let trouble = Trouble::begins("PostgreSQL: the role is missing");
    let _instance = site.start();
    let cause = trouble.shows_first(&site, "queue", "role \"nobody\" does not exist");
    assert!(cause.text.contains(" refuses: "), "{cause:?}");
    server.script(&admin, "CREATE ROLE nobody LOGIN; GRANT CREATE ON DATABASE of_nobody TO nobody");
    await_cured(&site, "queue", "does not exist");
}

#[test]
fn a_file_with_an_address_that_is_missing_is_read_once_it_is_there() {
    let server = Postgres::shared();
    let dsn = server.create_database("in_a_file");
    let site = TestEnv::new(BINARY);
    let file = site.path().join("dsn");
    let site = site.set("queue.store=postgres").set(&format!("queue.postgres.dsn_file={}", file.display()));
    let trouble = Trouble::begins("a file with an address or a password is missing");
    let _instance = site.start();
    let cause =
        trouble.shows_first(&site, "queue", &format!("{}: cannot be read: No such file", file.display()));
    assert!(run_help(&site, &cause.help).contains("No such file"), "{cause:?}");
    fs::write(&file, dsn).expect("what the help says");
    await_cured(&site, "queue", "cannot be read");
}

#[test]
fn a_frozen_server_is_named_from_the_start() {
    let server = Postgres::start();
    let site = site(&server.create_database("frozen"));
    site.write("f.1.txt", "alpha 0 1\n");
    let _instance = start(&site);
    site.first_cause("queue", "1 job waits, no worker has asked");
    let mut worker = site.worker();
    server.freeze();
    let trouble = Trouble::begins("PostgreSQL, Redis, MongoDB, RabbitMQ, Faktory or ERMrest is frozen");
    worker.send(b"READY\n").expect("it listens");
    let cause = trouble.shows_first(&site, "queue", &format!("127.0.0.1:{}", server.port()));
    assert!(cause.help.starts_with("pg_isready "), "{cause:?}");
    let cause =
        site.first_cause("queue", &format!("PostgreSQL at 127.0.0.1:{} has not answered", server.port()));
    assert!(cause.help.starts_with(&format!("pg_isready -h 127.0.0.1 -p {}; ", server.port())), "{cause:?}");
    assert!(run_help(&site, &cause.help).contains("no response"), "{cause:?}");
    server.thaw();
    await_cured(&site, "queue", "127.0.0.1:");
    assert_eq!(worker.reply().attr_path(), "alpha");
}

#[test]
fn a_second_instance_of_a_name_is_named_with_the_first_one() {
    let server = Postgres::shared();
    let dsn = server.create_database("one_name");
    let [first, second] = [(), ()].map(|()| site(&dsn).set("queue.postgres.instance=n1"));
    let running = start(&first);
    let trouble = Trouble::begins("two instances of a shared queue have one name");
    let _waiting = second.start();
    let cause = trouble.shows_first(&second, "queue", "instance n1 is in use on host");
    assert!(cause.text.contains(&first.socket().display().to_string()), "{cause:?}");
    assert!(cause.help.starts_with("stop the other process, or "), "{cause:?}");
    assert!(running.terminate().success(), "what the help says");
    await_cured(&second, "queue", "is in use");
}

#[test]
fn an_instance_that_was_killed_is_named_at_the_survivor() {
    let server = Postgres::shared();
    let dsn = server.create_database("killed");
    let [left, right] =
        ["left", "right"].map(|name| site(&dsn).set(&format!("queue.postgres.instance={name}")));
    left.write("f.1.txt", "alpha 0 1\nbravo 0 1\n");
    let killed = start(&left);
    let mut worker = left.worker();
    eventually("a job", || matches!(worker.ready(), Reply::Job { .. }));
    // Nobody works at the other one.
    let _survivor = start(&right);
    let trouble = Trouble::begins("another instance of that queue is dead");
    killed.kill_nine();
    let cause = trouble.shows_first(&right, "queue", "the instance `left` on host ");
    assert!(cause.text.contains("is dead"), "{cause:?}");
    assert!(cause.help.starts_with("start `left` on "), "{cause:?}");
    let _again = left.start();
    await_cured(&right, "queue", "is dead");
}
