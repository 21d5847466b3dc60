//! Cursors of the producer: jobs go from MongoDB to Faktory while the programs change, and each goes on at
//! the cursor that the one before has written.

use std::{collections::BTreeSet, time::Instant};

use orchestrator_harness::{
    DATABASE, Faktory, FaktoryWorker, Instance, MongoDb, ProducerEnv, STENCILS, Tanglenomicon, eventually,
    former_program,
};

use crate::{
    RELEASE,
    installed::{Installed, Stop, assert_no_pause},
    today,
};

/// Jobs of a chunk, and those that each program pushes at least.
const CHUNK: usize = 25;
const PUSHED: usize = 300;

/// Stencils of 50 * 50 and two times 50 * 40 pairs of tangles.
fn stencils() -> Tanglenomicon {
    Tanglenomicon { tangles: vec![(2, 50), (3, 40)], ..Tanglenomicon::small() }
}

/// Replaces the programs while they push, and lets the last one finish. Returns the number of repeated jobs.
fn there_and_back(stop: Stop) -> usize {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    stencils().fill(&database);
    let _worker = FaktoryWorker::start(&queue, "arborescent");
    let former = former_program(RELEASE);
    let program = Installed::new(&former);
    let site = ProducerEnv::new(program.path(), &database, &queue)
        .set("producer.page_size=1")
        .set(&format!("producer.chunk={CHUNK}"))
        .set("producer.lease_ms=3000")
        // The pace of the load: all programs have a part of it.
        .set("producer.high_water=50")
        .set("producer.low_water=25")
        .set("producer.until_done=true");
    let start = || {
        let (before, started) = (queue.accepted().len(), Instant::now());
        let instance = Instance::spawn(site.command());
        eventually("a job", || queue.accepted().len() > before);
        assert_no_pause(&program.path(), started);
        instance
    };
    let mut instance = start();
    for next in [today(), &former, today()] {
        let before = queue.accepted().len();
        eventually("jobs", || queue.accepted().len() >= before + PUSHED || instance.ended().is_some());
        assert!(instance.ended().is_none(), "all jobs are pushed: there are too few");
        stop.end(instance, site.base());
        program.replace(next);
        instance = start();
    }
    assert_eq!(instance.wait().code(), Some(0), "{}", site.base().log());
    repeated(&database, &queue)
}

/// Checks the documents and the jobs. Returns the number of repeated jobs.
fn repeated(database: &MongoDb, queue: &Faktory) -> usize {
    let accepted = queue.accepted();
    let wanted: BTreeSet<String> = stencils().jobs(1).iter().map(ToString::to_string).collect();
    let pushed: BTreeSet<String> = accepted.iter().map(|job| job["args"].to_string()).collect();
    assert!(pushed == wanted, "{} jobs of {}", pushed.len(), wanted.len());
    let ids: BTreeSet<String> = accepted.iter().map(|job| job["jid"].to_string()).collect();
    assert_eq!(ids.len(), accepted.len(), "a jid was used twice");
    for document in database.documents(DATABASE, STENCILS) {
        let (key, value) = match document["_id"] == "config" {
            true => ("current_completed_tcn", stencils().completed_and_max.1),
            false => ("state", 3),
        };
        assert_eq!(document[key], value, "{document}");
    }
    accepted.len() - wanted.len()
}

#[test]
fn stops_between_0_2_0_and_today_lose_and_repeat_no_job_of_the_producer() {
    assert_eq!(there_and_back(Stop::Signal), 0);
}

/// A kill repeats one chunk at most.
#[test]
fn kills_between_0_2_0_and_today_lose_no_job_of_the_producer() {
    let repeated = there_and_back(Stop::Kill);
    assert!(repeated <= 3 * CHUNK, "{repeated} jobs are repeated");
}
