//! Records of an ingester and offers in `queue.db`: mappings that ended are jobs of the queue in the same
//! process, one each, whichever program works then.

use std::{
    path::Path,
    sync::{Mutex, mpsc},
    time::Instant,
};

use orchestrator_harness::{Controller, IngesterEnv, Instance, JobWorkers, eventually, former_program};

use crate::{
    LATER,
    installed::{Installed, Stop, assert_no_pause},
    today,
};

/// Starts queue and ingester in one process.
fn start(env: &IngesterEnv, program: &Path) -> Instance {
    let started = Instant::now();
    let mut command = env.base.command();
    command.args(["--config", "ingester.toml"]);
    let instance = Instance::spawn(command);
    instance.await_service(&env.base);
    eventually("the ingester to connect to Redis", || env.base.cli(&["tree"]).1.contains("redis up"));
    assert_no_pause(program, started);
    instance
}

/// Runs a mapping to its end and returns its UUID.
fn map(env: &IngesterEnv, number: usize) -> String {
    let (controller, mapping) = (env.controller(), format!("6277a4d0-975c-4dfe-97be-{number:012}"));
    controller.start_mapping(&mapping, &["eiger"]);
    controller.publish_update(&Controller::update_json(&mapping, &["eiger"], true));
    eventually("the end of the mapping", || controller.is_finished(&mapping));
    mapping
}

/// The worker has the job of the first mapping until the last program runs.
fn there_and_back(stop: Stop) {
    let former = former_program(LATER);
    let program = Installed::new(&former);
    let env = IngesterEnv::new(program.path(), "tcp://127.0.0.1:9", "on_finished = { payload = \"{name}\" }");
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let workers = JobWorkers::start(env.base.socket(), 1, move |_, _| {
        // An error, once the sender is gone.
        let _ = gate.lock().expect("no panic").recv();
        0
    });
    let mut instance = start(&env, &former);
    let mut mappings = vec![map(&env, 0)];
    env.base.database().expect("SELECT delivered FROM orchestrator_handout", &["1"]);
    for (number, next) in [today(), &former, today()].into_iter().enumerate() {
        stop.end(instance, &env.base);
        program.replace(next);
        instance = start(&env, next);
        mappings.push(map(&env, number + 1));
    }
    assert_eq!(workers.taken().keys().collect::<Vec<_>>(), [&mappings[0]]);
    drop(open);
    env.base.database().expect("SELECT count(*) FROM log WHERE exit_code = 0", &["4"]);
    eventually("the ends to be recorded", || env.metric("jobs", "open_jobs") == 0);
    let taken = workers.taken();
    assert!(mappings.iter().all(|mapping| taken[mapping] == ["eiger-ingester"]), "{taken:?}");
    assert_eq!(taken.len(), mappings.len());
    Stop::Signal.end(instance, &env.base);
}

#[test]
fn stops_between_a_later_commit_and_today_make_one_job_of_each_mapping() {
    there_and_back(Stop::Signal);
}

#[test]
fn kills_between_a_later_commit_and_today_make_one_job_of_each_mapping() {
    there_and_back(Stop::Kill);
}
