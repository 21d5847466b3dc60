//! Mappings that ended whole as jobs of the queue in the same process (CONTRACT IS05, QO12).

use std::{collections::BTreeMap, net::TcpListener, thread::sleep, time::Duration};

use orchestrator_harness::{
    Controller, IngesterEnv, Instance, JobWorkers, ZmtpPeer, eventually,
    load::{SeededRng, for_each_seed},
    wait_for,
};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const KEYS: &str = "on_finished = { payload = \"{name} {dump_path} {events}\" }";

/// Starts queue and ingester in one process.
fn start(env: &IngesterEnv) -> Instance {
    let instance = spawn(env);
    instance.await_service(&env.base);
    eventually("the ingester to connect to Redis", || env.base.cli(&["tree"]).1.contains("redis up"));
    instance
}

fn spawn(env: &IngesterEnv) -> Instance {
    let mut command = env.base.command();
    command.arg("--config").arg(env.base.path().join("ingester.toml"));
    Instance::spawn(command)
}

fn finish(controller: &Controller<'_>, mapping: &str) {
    controller.publish_update(&Controller::update_json(mapping, &["eiger"], true));
    eventually("the ingester to report the end", || controller.is_finished(mapping));
}

fn uuid(number: usize) -> String {
    format!("6277a4d0-975c-4dfe-97be-{number:012}")
}

/// Sends a series of `frames` to the ingester.
fn send_series(listener: &TcpListener, frames: u64) -> ZmtpPeer {
    let mut source = ZmtpPeer::accept(listener, "PUSH").expect("the ingester connects");
    source.send(&[br#"{"htype":"header","msg_number":0,"filename":""}"#]).expect("a header");
    for frame in 0..frames {
        let number = frame + 1;
        let head = format!(
            r#"{{"htype":"image","frame":{frame},"shape":[1,4],"type":"uint8","compression":"none","msg_number":{number}}}"#
        );
        source.send(&[head.as_bytes(), &[7; 4]]).expect("a frame");
    }
    source
}

#[test]
fn a_mapping_that_ended_whole_is_one_job() {
    let source = TcpListener::bind("127.0.0.1:0").expect("a port");
    let upstream = format!("tcp://{}", source.local_addr().expect("its address"));
    let env = IngesterEnv::new(BINARY, &upstream, KEYS);
    let (controller, workers) = (env.controller(), JobWorkers::start(env.base.socket(), 1, |_, _| 0));
    let instance = start(&env);
    controller.start_mapping(&uuid(1), &["eiger"]);
    let mut worker = ZmtpPeer::connect(env.port, "DEALER", "w1").expect("the ingester listens");
    worker.send(&[&[0x44; 16]]).expect("a ping");
    let events: Vec<_> = (0..3).map(|event| (event, json!({ "eiger": ["w1"] }))).collect();
    controller.assign_events(&uuid(1), &events);
    let _source = send_series(&source, 3);
    for _ in 0..3 {
        worker.receive().expect("an event");
    }
    finish(&controller, &uuid(1));
    eventually("the job", || workers.taken().contains_key(&uuid(1)));
    assert_eq!(workers.taken()[&uuid(1)], ["eiger-ingester  3"]);
    eventually("its end to be recorded", || env.metric("jobs", "open_jobs") == 0);
    let why = env.base.cli(&["why", "--json", &uuid(1)]).1;
    let told: serde_json::Value = serde_json::from_str(&why).expect("JSON");
    let text = "ended whole, finished by the controller: 3 of 3 assigned events were sent";
    assert_eq!(told["found"][0]["text"], text, "{why}");
    assert_eq!(told["found"][0]["continues_as"], json!([format!("queue/{}", uuid(1))]));
    let progress = || {
        ["scan/assign mapping_assigned", "scan/work mapping_sent", "scan/work events"].map(|metric| {
            let (path, name) = metric.split_once(' ').expect("path and name");
            env.metric(path, name)
        })
    };
    assert_eq!(progress(), [3, 3, 3]);
    controller.start_mapping(&uuid(4), &[]);
    eventually("the progress of the next mapping", || progress() == [0, 0, 3]);
    // Each update names the controller's current mapping, also to a new process.
    assert!(instance.terminate().success());
    let _instance = start(&env);
    finish(&controller, &uuid(1));
    finish(&controller, &uuid(2));
    controller.start_mapping(&uuid(3), &["eiger"]);
    finish(&controller, &uuid(3));
    eventually("the job of the third mapping", || workers.taken().contains_key(&uuid(3)));
    let counts: BTreeMap<_, _> = workers.taken().into_iter().map(|(uuid, jobs)| (uuid, jobs.len())).collect();
    assert_eq!(
        counts,
        BTreeMap::from([(uuid(1), 1), (uuid(3), 1)]),
        "a mapping that began with its end has no job, and the first one no second job"
    );
}

#[test]
fn an_interrupted_mapping_is_no_job() {
    let env = IngesterEnv::new(BINARY, "tcp://127.0.0.1:9", KEYS);
    let (controller, workers) = (env.controller(), JobWorkers::start(env.base.socket(), 1, |_, _| 0));
    let instance = start(&env);
    controller.start_mapping(&uuid(1), &["eiger"]);
    instance.kill_nine();
    let _instance = start(&env);
    finish(&controller, &uuid(1));
    controller.start_mapping(&uuid(2), &["eiger"]);
    finish(&controller, &uuid(2));
    eventually("the job of the second mapping", || workers.taken().contains_key(&uuid(2)));
    assert_eq!(workers.taken().len(), 1);
}

#[test]
fn sigkill_at_any_point_loses_no_finished_mapping_and_makes_no_second_job() {
    let env = IngesterEnv::new(BINARY, "tcp://127.0.0.1:9", KEYS);
    let workers = JobWorkers::start(env.base.socket(), 2, |_, _| {
        sleep(Duration::from_millis(2));
        0
    });
    let (mut reported, mut kills) = (Vec::new(), 0);
    for_each_seed("ORCHESTRATOR_PIPELINE_KILL_ROUNDS", 20, |seed| {
        let mut random = SeededRng::new(seed);
        kills += 1;
        let mapping = uuid(kills);
        let instance = start(&env);
        let controller = env.controller();
        controller.start_mapping(&mapping, &["eiger"]);
        controller.publish_update(&Controller::update_json(&mapping, &["eiger"], true));
        // On a busy machine, no mapping might end within the time.
        if seed.is_multiple_of(4) {
            eventually("the end of the mapping", || controller.is_finished(&mapping));
        }
        sleep(Duration::from_micros(random.below(40_000) as u64));
        let was_reported = controller.is_finished(&mapping);
        instance.kill_nine();
        reported.extend(was_reported.then_some(mapping));
    });
    let _instance = start(&env);
    eventually("a job of each mapping whose end was reported", || {
        let taken = workers.taken();
        reported.iter().all(|mapping| taken.contains_key(mapping))
    });
    eventually("all jobs to end", || env.metric("jobs", "open_jobs") == 0);
    let again: usize = workers.taken().values().map(|jobs| jobs.len() - 1).sum();
    assert!(!reported.is_empty(), "no kill came after the end of a mapping");
    // A job whose delivery was not recorded before a kill is handed out again (CONTRACT QS02).
    assert!(again <= kills, "{:?}", workers.taken());
    env.base.database().expect("SELECT count(*) FROM orchestrator_offer WHERE state < 2", &["0"]);
}

#[test]
fn a_queue_that_is_paused_stopped_or_given_up_is_named_and_loses_no_job() {
    let env = IngesterEnv::new(BINARY, "tcp://127.0.0.1:9", KEYS);
    let (controller, workers) = (env.controller(), JobWorkers::start(env.base.socket(), 1, |_, _| 0));
    let _instance = start(&env);
    let steer = |arguments: &[&str]| {
        let (code, _, error) = env.base.cli(arguments);
        assert_eq!(code, 0, "{arguments:?}: {error}");
    };
    let one = |number: usize| {
        controller.start_mapping(&uuid(number), &["eiger"]);
        finish(&controller, &uuid(number));
    };
    steer(&["queue", "pause", "--reason", "maintenance"]);
    one(1);
    let waits = |why: &str| {
        wait_for("the reason", || {
            let causes = env.base.causes("ingester");
            causes.into_iter().find(|cause| cause.text.starts_with(&format!("waits for {why}")))
        })
    };
    assert_eq!(waits("queue/queue_console: ").path, "ingester/eiger-ingester/jobs");
    steer(&["queue", "resume"]);
    eventually("the job after the pause", || workers.taken().contains_key(&uuid(1)));
    steer(&["stop", "queue"]);
    one(2);
    waits("queue: stopped by an operator");
    steer(&["start", "queue"]);
    eventually("the job after the stop", || workers.taken().contains_key(&uuid(2)));
    env.base.exceed_restarts("queue");
    one(3);
    waits("queue: given up: panicked: injected panic");
    steer(&["start", "queue"]);
    eventually("the job after the failures", || workers.taken().contains_key(&uuid(3)));
    eventually("all jobs to end", || env.metric("jobs", "open_jobs") == 0);
}
