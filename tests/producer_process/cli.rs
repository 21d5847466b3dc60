//! Commands and terminal output of the producer.

use std::process::Command;

use orchestrator_harness::{
    DATABASE, Faktory, MongoDb, ProducerEnv, PyFaktoryWorker, STENCILS, Tanglenomicon, eventually,
};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

fn filled() -> (Tanglenomicon, MongoDb, Faktory) {
    let (small, database, queue) = (Tanglenomicon::small(), MongoDb::start(), Faktory::start(&[]));
    small.fill(&database);
    (small, database, queue)
}

fn run(site: &ProducerEnv, arguments: &[&str]) -> String {
    let (code, out, err) = site.base().cli(&[&["producer"], arguments].concat());
    assert_eq!(code, 0, "{arguments:?}: {err}");
    out
}

#[test]
fn plan_counts_jobs_and_writes_only_requested_indexes() {
    let (small, database, queue) = filled();
    let site = ProducerEnv::new(BINARY, &database, &queue);
    let uri = format!("producer.mongodb.uri={}", database.uri());
    let plan = ["plan", "--set", &uri, "--set", "producer.page_size=3"];
    let before = database.documents(DATABASE, STENCILS);
    let text = run(&site, &plan);
    let jobs = small.jobs(3).len();
    assert!(text.contains(&format!("3 stencils are left with {jobs} jobs")), "{text}");
    assert!(text.contains("missing index") && text.contains(&Tanglenomicon::stencil_id(2)), "{text}");
    let made: Value =
        serde_json::from_str(&run(&site, &[&plan[..], &["--ensure-indexes", "--json"]].concat()))
            .expect("JSON");
    assert_eq!((&made["plan"]["jobs"], &made["missing_indexes"]), (&json!(jobs), &json!([])), "{made}");
    assert_eq!(database.documents(DATABASE, STENCILS), before);
    assert!(queue.accepted().is_empty());
    let (code, _, err) = site.base().cli(&["producer", "plan", "--set", "producer.page_size=0"]);
    assert!(code == 78 && err.contains("producer.page_size"), "{code}: {err}");
}

#[test]
fn status_pause_and_resume_reach_a_running_instance() {
    let (small, database, queue) = filled();
    let site = ProducerEnv::new(BINARY, &database, &queue).set("producer.page_size=2");
    let instance = site.start();
    // Without workers, the jobs of the first TCN block it.
    let first = small.jobs(2).iter().filter(|job| job[1] == 2 && job[3] == 2).count();
    let blocked = format!("{first} jobs in queue arborescent: wait for workers");
    eventually("it to wait for workers", || run(&site, &["status"]).contains(&blocked));
    let status = run(&site, &["status"]);
    assert!(
        status.contains("blocked for")
            && status.contains(&format!("4: {first} of {first} jobs of 1 started stencils")),
        "{status}"
    );
    assert!(run(&site, &["pause"]).contains("pushing is paused"));
    let mut worker = PyFaktoryWorker::start(&queue, "arborescent", "arbor_job");
    (0..first).for_each(|_| drop(worker.next_args()));
    assert!(run(&site, &["status"]).contains("paused") && site.status()["tcn"] == 4);
    assert_eq!(queue.accepted().len(), first, "nothing leaves");
    assert_eq!(
        serde_json::from_str::<Value>(&run(&site, &["resume", "--json"])).ok(),
        Some(json!({"paused": false}))
    );
    eventually("all to be done", || site.status()["phase"] == "finished");
    assert_eq!(queue.accepted().len(), small.jobs(2).len());
    assert!(instance.terminate().success());
}

/// `script` gives the process a terminal.
#[test]
fn a_terminal_shows_a_progress_line() {
    let (small, database, queue) = filled();
    let _worker = PyFaktoryWorker::start(&queue, "arborescent", "arbor_job");
    let site = ProducerEnv::new(BINARY, &database, &queue).set("producer.until_done=true");
    let command = site.command();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted: Vec<_> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--return", "--command", &quoted.join(" "), "/dev/null"]);
    let output = terminal.current_dir(site.base().path()).output().expect("script is part of every Debian");
    let seen = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{seen}");
    assert_eq!(queue.accepted().len(), small.jobs(500).len());
    assert!(seen.contains("\r\x1b[KTCN "), "{seen}");
    assert!(seen.contains("max_tcn is reached"), "{seen}");
}
