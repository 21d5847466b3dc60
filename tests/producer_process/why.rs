//! `orchestrator why` for the producer subsystem.

use orchestrator_harness::{Faktory, MongoDb, ProducerEnv, PyFaktoryWorker, Tanglenomicon, eventually};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

#[test]
fn a_lease_of_another_producer_is_named() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&["--push-latency-ms", "40"]));
    let all = Tanglenomicon { tangles: vec![(2, 26), (3, 16)], ..Tanglenomicon::small() };
    all.fill(&database);
    let env =
        || ProducerEnv::new(BINARY, &database, &queue).set("producer.page_size=1").set("producer.chunk=10");
    let first = env();
    let working = first.start();
    eventually("the first to push", || {
        first.base().why("producer").contains("nothing holds up work: last job ")
    });
    let second = env();
    let _waiting = second.start();
    let cause = second.base().first_cause("producer", "another producer has the lease");
    assert_eq!(cause.path, "producer/stencil_producer");
    // The holder's name has the number of its process.
    let holder = format!("{}", working.pid());
    assert!(cause.evidence[0].contains(&holder) && cause.evidence[0].contains(" has the lease"), "{cause:?}");
    assert!(cause.evidence[1].starts_with("it ends in "), "{cause:?}");
    assert_eq!(cause.help, "orchestrator producer status; stop the other producer");
    assert!(working.terminate().success());
    eventually("the second to push", || second.base().why("producer").contains("last job "));
}

#[test]
fn a_full_queue_is_named_with_its_length_and_the_marks() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    let many = Tanglenomicon { completed_and_max: (3, 4), stencils: vec![(4, 2, 2)], tangles: vec![(2, 20)] };
    many.fill(&database);
    let site = ProducerEnv::new(BINARY, &database, &queue)
        .set("producer.page_size=1")
        .set("producer.chunk=10")
        .set("producer.high_water=50")
        .set("producer.low_water=40");
    let _instance = site.start();
    let cause = site.base().first_cause("producer", "pushing is stopped by high_water");
    assert_eq!(cause.path, "producer/stencil_producer");
    assert_eq!(cause.evidence[0], format!("{} jobs wait in the producer's queues", queue.accepted().len()));
    assert_eq!(cause.evidence[1], "high_water = 50, and pushing resumes at low_water = 40");
    assert!(cause.help.starts_with("orchestrator producer status; start workers"), "{cause:?}");
    let _worker = PyFaktoryWorker::start(&queue, "arborescent", "arbor_job");
    eventually("all jobs to be pushed", || queue.accepted().len() == 400);
    eventually("no cause", || {
        site.base().causes("producer").iter().all(|cause| !cause.text.contains("high_water"))
    });
}

#[test]
fn between_two_checks_of_a_completion_there_is_no_cause() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    Tanglenomicon::small().fill(&database);
    let site = ProducerEnv::new(BINARY, &database, &queue).set("producer.poll_ms=3000");
    let _instance = site.start();
    // After the pushes, before the next reading of the queue.
    eventually("the wait for the next check", || site.status()["phase"] == "completing");
    let why = site.base().why("producer");
    assert!(why.starts_with("producer: nothing holds up work: last job "), "{why}");
    assert_eq!(site.base().metric("producer/stencil_producer", "blocked"), 0);
    // The next reading finds the job.
    site.base().first_cause("producer", "1 job in queue arborescent");
    assert_eq!(site.status()["phase"], "blocked");
}

/// Nothing is asked of the database for minutes: the driver's heartbeats tell it.
#[test]
fn a_mongodb_that_is_killed_between_two_checks_is_named() {
    let (mut database, queue) = (MongoDb::start(), Faktory::start(&[]));
    Tanglenomicon::small().fill(&database);
    let uri = format!("{}/?heartbeatFrequencyMS=500", database.uri());
    let site = ProducerEnv::new(BINARY, &database, &queue)
        .set("producer.poll_ms=600000")
        .set("producer.lease_ms=600000")
        .set(&format!("producer.mongodb.uri={uri}"));
    let _instance = site.start();
    eventually("the wait for the next check", || site.status()["phase"] == "completing");
    database.kill_nine();
    let cause = site.base().first_cause("producer", "mongodb to ");
    assert!(cause.text.contains(&format!("127.0.0.1:{}", database.port())), "{cause:?}");
    assert!(cause.help.starts_with("mongosh mongodb://127.0.0.1:"), "{cause:?}");
    assert_eq!(site.base().link("producer/stencil_producer").state, "down");
    database.start_again();
    eventually("the heartbeat", || site.base().link("producer/stencil_producer").state == "up");
    assert!(site.base().causes("producer").iter().all(|cause| !cause.text.contains("mongodb to ")));
}

/// The server answers, so its connection is up.
#[test]
fn jobs_that_are_refused_again_and_again_are_a_cause() {
    let (database, mut queue) = (MongoDb::start(), Faktory::start(&["--refuse-job-every", "1"]));
    let many = Tanglenomicon { completed_and_max: (3, 4), stencils: vec![(4, 2, 2)], tangles: vec![(2, 6)] };
    many.fill(&database);
    let site = ProducerEnv::new(BINARY, &database, &queue).set("producer.page_size=1");
    let _instance = site.start();
    site.base().first_cause("producer", "injected refusal");
    assert_eq!(queue.accepted().len(), 0);
    queue.kill_nine();
    queue.start_again(&[]);
    eventually("all jobs to be pushed", || queue.accepted().len() == 36);
    eventually("no refusal", || {
        site.base().causes("producer").iter().all(|cause| !cause.text.contains("injected refusal"))
    });
}

/// The link would go up and down several times a second, as the database answers reads.
#[test]
fn a_database_that_refuses_to_write_the_lease_is_a_link_that_is_down() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    Tanglenomicon::small().fill(&database);
    let site = ProducerEnv::new(BINARY, &database, &queue).set("producer.lease_ms=3000");
    let _instance = site.start();
    let link = || site.base().link("producer/stencil_producer");
    for error in ["10107 not primary", "13 not authorized"] {
        eventually("accepted writes", || link().state == "up");
        database.refuse_writes(Some(error));
        let text = error.split_once(' ').map_or("", |(_, text)| text);
        eventually("the refusal", || link().state == "down" && link().reason.contains(text));
        for _ in 0..20 {
            let link = link();
            assert_eq!(link.state, "down", "{link:?}");
        }
        let cause = site.base().first_cause("producer", text);
        assert_eq!(cause.path, "producer/stencil_producer");
        database.refuse_writes(None);
    }
    eventually("accepted writes", || link().state == "up");
}
