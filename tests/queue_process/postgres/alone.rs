//! Outages of the server and kills of instances under load: the reason is shown, nothing answered is lost or
//! handed out again, and work flows again soon after.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    thread::sleep,
    time::{Duration, Instant},
};

use orchestrator_harness::{
    Instance, Postgres, Reply, eventually,
    load::{Disruption, SeededRng},
    psql, rounds, wait_for,
};
use rustix::process::Signal;

use super::{LEASE, Load, RECOVERY_MAX, SharedQueue, stop};

/// Sessions of the program.
const SESSIONS: &str = "FROM pg_stat_activity WHERE application_name = 'orchestrator queue'";
/// Longest time to the end of a process that is asked to stop while the server does not answer.
const STOP_MAX: Duration = Duration::from_secs(2);
/// Time after which systemd would kill a process that is asked to stop.
const STOP_MAX_UNDER_LOAD: Duration = Duration::from_secs(30);

/// Starts two instances under load.
fn started(server: &Postgres) -> (Load, Vec<Instance>) {
    let queue = SharedQueue::new(server, "faults", 2);
    let instances = queue.start();
    let load = Load::start(queue, &mut SeededRng::new(u64::from(server.port())));
    load.await_answers();
    (load, instances)
}

/// Drains the queue after an outage that may repeat no hand-out.
fn finish(load: Load, server: &Postgres, instances: Vec<Instance>) {
    assert_eq!(load.finish(server, instances), 0);
}

/// Waits until each instance gives `reason` as the first cause, of the store and of the lease.
fn await_reason(load: &Load, reason: &str) {
    for site in &load.queue.sites {
        site.first_cause("queue", reason);
        for child in ["queue/queue_store", "queue/lease"] {
            wait_for(reason, || {
                let link = site.link(child);
                (link.state == "down" && link.reason.contains(reason)).then_some(())
            });
        }
    }
}

#[test]
fn work_flows_again_after_a_restart_of_the_server() {
    let mut server = Postgres::start();
    let (load, instances) = started(&server);
    server.stop();
    await_reason(&load, "Connection refused");
    server.start_again();
    load.await_recovery("restart of the server");
    finish(load, &server, instances);
}

#[test]
fn work_flows_again_after_a_crash_of_the_server() {
    let mut server = Postgres::start();
    let (load, instances) = started(&server);
    for _ in 0..2 {
        server.kill_nine();
        await_reason(&load, "Connection refused");
        server.start_again();
        load.await_recovery("kill -9 of the server");
    }
    finish(load, &server, instances);
}

#[test]
fn sessions_ended_five_times_a_second_lose_nothing() {
    let server = Postgres::start();
    let (load, instances) = started(&server);
    let end = Instant::now() + Duration::from_secs(rounds("ORCHESTRATOR_QUEUE_POSTGRES_OUTAGE_SECS", 4));
    let mut ended = 0;
    while Instant::now() < end {
        ended += load.queue.rows(&server, &format!("SELECT pg_terminate_backend(pid) {SESSIONS}")).len();
        sleep(Duration::from_millis(200));
    }
    assert!(ended > 10, "{ended} sessions were ended");
    load.await_recovery(&format!("{ended} ended sessions"));
    finish(load, &server, instances);
}

/// Connects as `user` until the server has no slot left for it.
fn take_slots(server: &Postgres, user: &str, taken: &mut Vec<TcpStream>) {
    loop {
        // The server refuses some connections only after it has accepted the user.
        let open = || -> io::Result<(TcpStream, u8)> {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port()))?;
            let settings = format!("user\0{user}\0database\0faults\0\0");
            let length = u32::try_from(settings.len() + 8).expect("short").to_be_bytes();
            stream.write_all(&[&length[..], &196_608_u32.to_be_bytes(), settings.as_bytes()].concat())?;
            loop {
                let mut header = [0; 5];
                stream.read_exact(&mut header)?;
                let [kind, length @ ..] = header;
                let mut message = vec![0; u32::from_be_bytes(length) as usize - 4];
                stream.read_exact(&mut message)?;
                if kind == b'E' || kind == b'Z' {
                    return Ok((stream, kind));
                }
            }
        };
        match open().expect("the server answers") {
            (stream, b'Z') => taken.push(stream),
            (_, b'E') => return,
            (_, other) => panic!("an answer of the kind {other}"),
        }
    }
}

#[test]
fn a_server_without_free_connection_slots_is_waited_for() {
    let mut server = Postgres::start();
    let admin = server.create_database("slots");
    server.script(&admin, "CREATE ROLE guest LOGIN");
    server.script(&admin, "ALTER SYSTEM SET max_connections = 20");
    server.stop();
    server.start_again();
    let mut queue = SharedQueue::new(&server, "faults", 2);
    server.script(&queue.dsn, "GRANT CREATE ON DATABASE faults TO guest");
    let dsn = queue.dsn.replace("postgres@", "guest@");
    queue = queue.set(&format!("queue.postgres.dsn={dsn}"));
    let instances = queue.start();
    let mut load = Load::start(queue, &mut SeededRng::new(3));
    load.await_answers();
    let from = Instant::now();
    let (mut taken, mut without) = (Vec::new(), 0);
    // A session that begins is counted only at the next look.
    eventually("the program to be without a session", || {
        // Connections that are being refused take the reserved slots for a moment.
        let _ = psql(&load.queue.dsn, &format!("SELECT pg_terminate_backend(pid) {SESSIONS}"));
        take_slots(&server, "guest", &mut taken);
        let has_none = psql(&load.queue.dsn, &format!("SELECT count(*) {SESSIONS}")) == Ok("0".to_owned());
        without = if has_none { without + 1 } else { 0 };
        without == 2
    });
    await_reason(&load, "SQLSTATE 53300");
    drop(taken);
    load.await_recovery("all slots taken");
    // The leases may end meanwhile, and the first instance that returns takes back what the other has not
    // delivered.
    let of = |instance| Disruption { instance, from, to: Instant::now() };
    load.disruptions.extend([of(0), of(1)]);
    load.finish(&server, instances);
}

#[test]
fn a_frozen_server_holds_no_stop_up_and_loses_nothing() {
    let server = Postgres::start();
    let (mut load, mut instances) = started(&server);
    let from = Instant::now();
    server.freeze();
    // The lease has the shortest time limit.
    let unanswered = "the database did not answer within";
    for site in &load.queue.sites {
        wait_for("the reason", || site.link("queue/lease").reason.contains(unanswered).then_some(()));
        assert!(site.why("queue").contains(unanswered), "{}", site.why("queue"));
    }
    let stopped = Instant::now();
    assert!(instances.remove(0).terminate().success());
    let took = stopped.elapsed();
    eprintln!("stopped within {took:?} while the server was frozen");
    assert!(took < STOP_MAX, "the stop took {took:?}; log:\n{}", load.queue.sites[0].log());
    instances.insert(0, load.queue.sites[0].spawn());
    // Long enough that requests sent before the freeze are given up; the server sees them after it.
    wait_for("a request to be given up", || {
        load.queue.sites[1].link("queue/queue_store").reason.contains(unanswered).then_some(())
    });
    server.thaw();
    // Sessions from before the freeze may keep a place until its lease is over.
    load.await_recovery_within(LEASE, "freeze of the server");
    // The leases may end meanwhile, and the instance that is first takes back what the other has not
    // delivered.
    let of = |instance| Disruption { instance, from, to: Instant::now() };
    load.disruptions.extend([of(0), of(1)]);
    load.finish(&server, instances);
}

#[test]
fn an_instance_that_is_killed_works_again_after_its_start() {
    let server = Postgres::start();
    let (mut load, mut instances) = started(&server);
    // The other instance has the large files, which it would read before it answers.
    for _ in 0..4 {
        let from = Instant::now();
        instances.remove(1).kill_nine();
        load.disruptions.push(Disruption { instance: 1, from, to: Instant::now() });
        instances.push(load.queue.sites[1].spawn());
        load.await_recovery("kill -9 of an instance");
    }
    load.finish(&server, instances);
}

#[test]
fn a_stop_under_a_backlog_ends_in_time() {
    const LINES: usize = 100_000;
    let server = Postgres::start();
    let (load, mut instances) = started(&server);
    let text: String = (0..LINES).map(|i| format!("backlog{i} backlog@1 1\n")).collect();
    load.queue.sites[0].write("backlog.1.txt", text);
    let listed = "SELECT count(*) FROM listing WHERE attr_path LIKE 'backlog%'";
    let rows = || load.queue.rows(&server, listed)[0].parse::<usize>().expect("a number");
    wait_for("some rows", || (rows() > 0).then_some(()));
    let stopped = Instant::now();
    let instance = instances.remove(0);
    instance.signal(Signal::TERM);
    assert!(instance.terminate().success());
    let took = stopped.elapsed();
    let left = LINES - rows();
    eprintln!("stopped within {took:?} with {left} rows to read");
    assert!(left > 0, "all rows were read before the stop");
    assert!(took < STOP_MAX_UNDER_LOAD && took < RECOVERY_MAX, "the stop took {took:?}");
    instances.push(load.queue.sites[0].spawn());
    // It reads the rest first.
    load.await_answers();
    stop(instances);
}

/// A process that is suspended for longer than its lease loses its place, and takes it again.
#[test]
fn a_suspended_instance_loses_what_it_has_not_delivered() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "suspended", 2);
    let instances = queue.start();
    let mut load = Load::start(queue, &mut SeededRng::new(7));
    load.await_answers();
    let from = Instant::now();
    instances[0].signal(Signal::STOP);
    let over = "SELECT count(*) FROM instance WHERE incarnation < 0";
    wait_for("the end of the lease", || (load.queue.rows(server, over) == ["1"]).then_some(()));
    let took = from.elapsed();
    eprintln!("the lease was over after {took:?}");
    assert!(took > Duration::from_secs(12) && took < LEASE + Duration::from_secs(2), "{took:?}");
    let undelivered = "SELECT count(*) FROM in_flight AS f WHERE f.delivered = 0
        AND f.handout_id >> 32 IN (SELECT -incarnation FROM instance WHERE incarnation < 0)";
    assert_eq!(load.queue.rows(server, undelivered), ["0"]);
    instances[0].signal(Signal::CONT);
    load.disruptions.push(Disruption { instance: 0, from, to: Instant::now() });
    load.await_recovery("suspended for longer than the lease");
    assert_eq!(load.queue.rows(server, over), ["0"]);
    load.finish(server, instances);
}

/// The server sends notifications to a session that nobody reads until its buffers are full, and holds a
/// snapshot from then on.
#[test]
fn a_listener_that_is_not_read_holds_no_snapshot() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "unread", 3);
    let mut instances = queue.start();
    let unread = instances.pop().expect("the third");
    // It has no job, so the others notify it.
    assert_eq!(queue.sites[2].worker().ready(), Reply::NoJobs);
    assert_eq!(queue.sites[2].worker().ready(), Reply::NoJobs);
    let waits = format!(
        "{}; SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'
         AND (classid::bigint << 32 | objid::bigint) = waiting_lock()",
        queue.functions(server)
    );
    eventually("the third to wait", || queue.rows(server, &waits) == ["1"]);
    unread.signal(Signal::STOP);
    let from = Instant::now();
    let mut load = Load::start(queue, &mut SeededRng::new(5));
    let end = from + Duration::from_secs(rounds("ORCHESTRATOR_QUEUE_POSTGRES_OUTAGE_SECS", 4) * 2);
    let listens = format!(
        "SELECT pid, state, xact_start, wait_event, query {SESSIONS} AND (query LIKE 'LISTEN%' OR query = 'SELECT 1')"
    );
    assert_eq!(load.queue.rows(server, &listens).len(), 3);
    let holds = format!("{listens} AND xact_start < clock_timestamp() - interval '1 s'");
    while Instant::now() < end {
        let found = load.queue.rows(server, &holds);
        assert!(found.is_empty(), "a session holds a snapshot: {found:?}");
        sleep(Duration::from_millis(100));
    }
    unread.signal(Signal::CONT);
    instances.push(unread);
    load.disruptions.push(Disruption { instance: 2, from, to: Instant::now() });
    load.finish(server, instances);
}
