//! Queues, types and options of jobs by configuration, with workers of pyfaktory, and the rate at which they
//! complete jobs.

use orchestrator_harness::{
    Faktory, Instance, MongoDb, ProducerEnv, PyFaktoryWorker, Tanglenomicon, eventually, http,
};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

#[test]
fn a_tcn_has_its_own_queue_and_type_and_is_waited_for() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    let small = Tanglenomicon::small();
    small.fill(&database);
    let site = ProducerEnv::new(BINARY, &database, &queue)
        .set("producer.page_size=4")
        .set("producer.queue=usual")
        .set("producer.queues.5=heavy")
        .set("producer.job_types.5=long_job")
        .set("producer.retry=3")
        .set("producer.reserve_for_secs=7200")
        .set("producer.custom={ site = \"lab\", tags = [1, 2] }")
        .set("producer.until_done=true");
    let _usual = PyFaktoryWorker::start(&queue, "usual", "arbor_job");
    let instance = site.start();
    eventually("the heavy jobs to be waited for", || {
        site.status()["blocked_by"].to_string().contains("jobs in queue heavy: wait for workers")
    });
    assert_eq!(site.status()["tcn"], 5);
    let _heavy = PyFaktoryWorker::start(&queue, "heavy", "long_job");
    let mut instance = instance;
    assert_eq!(instance.wait().code(), Some(0), "{}", site.base().log());
    let accepted = queue.accepted();
    assert_eq!(accepted.len(), small.jobs(4).len());
    for job in &accepted {
        let tcn = job["args"][1].as_i64().expect("a TCN") + job["args"][3].as_i64().expect("a TCN");
        let wanted = if tcn == 5 { ["heavy", "long_job"] } else { ["usual", "arbor_job"] };
        assert_eq!([&job["queue"], &job["jobtype"]], wanted, "{job}");
        assert_eq!((&job["retry"], &job["reserve_for"]), (&json!(3), &json!(7_200)), "{job}");
        assert_eq!(
            (&job["custom"]["site"], &job["custom"]["tags"]),
            (&json!("lab"), &json!([1, 2])),
            "{job}"
        );
        assert!(job["custom"]["key"].is_string(), "{job}");
    }
}

#[test]
fn high_water_counts_all_own_queues() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    let all = Tanglenomicon {
        completed_and_max: (3, 5),
        // 24 jobs of a lower TCN in the usual queue, then 36 in the other one.
        stencils: vec![(3, 1, 2), (4, 2, 2)],
        tangles: vec![(1, 4), (2, 6)],
    };
    all.fill(&database);
    let site = ProducerEnv::new(BINARY, &database, &queue)
        .set("producer.page_size=1")
        .set("producer.chunk=10")
        .set("producer.queues={ 4 = \"heavy\" }")
        .set("producer.high_water=50")
        .set("producer.low_water=49");
    let instance = site.start();
    eventually("the high mark", || site.status()["held"] == true);
    let taken = queue.accepted().len();
    assert!((40..=50).contains(&taken), "{taken} jobs");
    let queues = queue.info()["faktory"]["queues"].clone();
    assert_eq!(queues["arborescent"], 24, "{queues}");
    assert!(queues["heavy"].as_u64().is_some_and(|jobs| (16..=26).contains(&jobs)), "{queues}");
    assert!(instance.terminate().success());
}

/// The workers complete about ten jobs a second, and the producer has pushed all of them.
#[test]
fn status_has_an_eta_from_the_rate_of_completion() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    let many = Tanglenomicon { completed_and_max: (3, 4), stencils: vec![(4, 2, 2)], tangles: vec![(2, 20)] };
    many.fill(&database);
    let site = ProducerEnv::new(BINARY, &database, &queue).set("producer.page_size=1");
    let instance = site.start();
    eventually("all jobs to wait", || site.status()["jobs_left"] == 400);
    assert_eq!(site.status()["eta_secs"], Value::Null, "nothing is completed");
    let _worker = PyFaktoryWorker::start(&queue, "arborescent", "arbor_job");
    eventually("an estimate", || site.status()["eta_secs"].is_u64());
    let status = site.status();
    let number = |key: &str| status[key].as_u64().expect(key);
    let (left, rate, eta) = (number("jobs_left"), number("completed_per_hour"), number("eta_secs"));
    assert!((1..400).contains(&left), "{status:#}");
    let expected = left * 3_600 / rate;
    assert!(eta.abs_diff(expected) <= 1 + expected / 100, "{status:#}");
    let (code, out, err) = site.base().cli(&["producer", "status"]);
    assert!(code == 0 && out.contains("eta") && out.contains("are completed per hour"), "{out}{err}");
    assert!(instance.terminate().success());
}

/// A start with invalid options names the key.
#[test]
fn invalid_options_are_refused_by_key() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    for (set, said) in [
        ("producer.queues.six=heavy", "producer.queues.six: "),
        ("producer.queues.6=a b", "producer.queues.6: "),
        ("producer.custom._at=1", "producer.custom._at: "),
        ("producer.retry=-2", "producer.retry: "),
    ] {
        let site = ProducerEnv::new(BINARY, &database, &queue).set(set);
        assert_eq!(Instance::spawn(site.command()).wait().code(), Some(78), "{set}");
        assert!(site.base().log().contains(said), "{set}: {}", site.base().log());
    }
}

/// What the separate exporter of Faktory shows: the server's other queues, and its sets.
#[test]
fn the_queues_and_sets_of_the_server_are_metrics() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    Tanglenomicon::small().fill(&database);
    let job = |number: u32, queue: &str, at: &str| {
        let mut job =
            json!({ "jid": format!("job-number-{number}"), "jobtype": "t", "args": [], "queue": queue });
        if !at.is_empty() {
            job["at"] = json!(at);
        }
        job
    };
    queue.push(&job(1, "mail", ""));
    queue.push(&job(2, "mail", ""));
    queue.push(&job(3, "later", "2999-01-01T00:00:00Z"));
    let site =
        ProducerEnv::new(BINARY, &database, &queue).set("producer.page_size=4").set("telemetry.filter=debug");
    let instance = site.start();
    let metrics = || http(&site.base().admin_socket(), "GET", "/metrics", &[], "").body;
    let of_server = |end: &str| {
        let metrics = metrics();
        let path = "path=\"orchestrator/producer/faktory\"";
        let line = metrics.lines().find(|line| {
            line.starts_with("orchestrator_producer_server_") && line.contains(path) && line.ends_with(end)
        });
        line.map(str::to_owned)
    };
    eventually("the queue of another program", || of_server("queue=\"mail\"} 2").is_some());
    eventually("the own queue", || {
        let jobs = queue.info()["faktory"]["queues"]["arborescent"].clone();
        of_server(&format!("queue=\"arborescent\"}} {jobs}")).is_some()
    });
    eventually("debug lines", || {
        let log = site.base().log();
        log.contains("the lease is taken") && log.contains("a chunk of jobs is acknowledged")
    });
    for (name, value) in [("retries", 0), ("scheduled", 1), ("dead", 0), ("working", 0)] {
        let path = "path=\"orchestrator/producer/stencil_producer\"";
        let line = format!("orchestrator_producer_server_{name}_jobs{{{path}}} {value}");
        eventually(&line, || metrics().lines().any(|shown| shown == line));
    }
    assert!(instance.terminate().success());
    let instance = site.set("producer.queue_gauges=false");
    let running = instance.start();
    eventually("jobs to be pushed", || instance.status()["phase"] == "blocked");
    let text = http(&instance.base().admin_socket(), "GET", "/metrics", &[], "").body;
    assert!(!text.contains("orchestrator_producer_server_queue_jobs"), "{text}");
    assert!(running.terminate().success());
}
