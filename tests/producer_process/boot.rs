//! Start, end and configuration of the producer, with a worker of pyfaktory.

use std::{collections::BTreeSet, fs, process::Command, time::UNIX_EPOCH};

use orchestrator_harness::{
    DATABASE, Faktory, Instance, MongoDb, ProducerEnv, PyFaktoryWorker, STENCILS, Tanglenomicon, TestEnv,
    UnitFile, eventually,
};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const PAGE: &str = include_str!("../../actors/producer/README.md");
const CONFIG: i32 = 78;

fn args_of(queue: &Faktory) -> Vec<Value> {
    queue.accepted().iter().map(|job| job["args"].clone()).collect()
}

fn worker(queue: &Faktory) -> PyFaktoryWorker {
    PyFaktoryWorker::start(queue, "arborescent", "arbor_job")
}

/// Checks that each job was pushed once, in any order, and that all documents are complete.
fn assert_complete(small: &Tanglenomicon, page_size: u64, database: &MongoDb, queue: &Faktory) {
    let text = |jobs: Vec<Value>| jobs.iter().map(Value::to_string).collect::<Vec<_>>();
    let (pushed, wanted) = (text(args_of(queue)), text(small.jobs(page_size)));
    assert_eq!(pushed.len(), wanted.len(), "each job once");
    assert_eq!(pushed.iter().collect::<BTreeSet<_>>(), wanted.iter().collect());
    for document in database.documents(DATABASE, STENCILS) {
        if document["_id"] == "config" {
            assert_eq!(document["current_completed_tcn"], small.completed_and_max.1, "{document}");
        } else {
            assert_eq!(document["state"], 3, "{document}");
        }
    }
}

#[test]
fn until_done_pushes_all_jobs_and_exits_with_0() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    let small = Tanglenomicon::small();
    small.fill(&database);
    let _worker = worker(&queue);
    let site = ProducerEnv::new(BINARY, &database, &queue)
        .set("producer.page_size=2")
        .set("producer.chunk=7")
        .set("producer.until_done=true");
    let mut instance = Instance::spawn(site.command());
    assert_eq!(instance.wait().code(), Some(0), "{}", site.base().log());
    assert_complete(&small, 2, &database, &queue);
    assert!(site.base().log().contains("max_tcn is reached"), "{}", site.base().log());
}

#[test]
fn without_until_done_it_runs_until_sigterm() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    let small = Tanglenomicon::small();
    small.fill(&database);
    let _worker = worker(&queue);
    let site = ProducerEnv::new(BINARY, &database, &queue).set("producer.page_size=3");
    let instance = site.start();
    eventually("all to be done", || site.status()["phase"] == "finished");
    assert_complete(&small, 3, &database, &queue);
    let tree = site.base().snapshot().expect("it still runs");
    assert!(tree.runs(), "{tree}");
    assert!(instance.terminate().success(), "{}", site.base().log());
}

/// A stop does not wait for batches that are queued for a connection.
#[test]
fn sigterm_ends_it_at_once_while_faktory_is_down() {
    let (database, mut queue) = (MongoDb::start(), Faktory::start(&[]));
    let many =
        Tanglenomicon { tangles: vec![(2, 300)], completed_and_max: (3, 4), stencils: vec![(4, 2, 2)] };
    many.fill(&database);
    let site =
        ProducerEnv::new(BINARY, &database, &queue).set("producer.page_size=1").set("producer.chunk=1");
    let instance = site.start();
    eventually("some jobs", || !queue.accepted().is_empty());
    queue.kill_nine();
    eventually("the link to be down", || site.base().link("producer/faktory/0").state == "down");
    assert!(site.base().cli(&["producer", "status"]).1.contains("no connection to faktory: "));
    assert!(instance.terminate().success());
    assert!(!site.base().log().contains("did not stop in time"), "{}", site.base().log());
}

/// Servers with stencils and a worker, and the original's file for them.
struct OriginalSite {
    /// Dropped before its server.
    _worker: PyFaktoryWorker,
    env: TestEnv,
    file: String,
    small: Tanglenomicon,
    database: MongoDb,
    queue: Faktory,
}

impl OriginalSite {
    fn new(password: &str) -> Self {
        let (database, queue) = (MongoDb::start_with_password("root", password), Faktory::start(&[]));
        let small = Tanglenomicon::small();
        small.fill(&database);
        let (env, worker) = (TestEnv::new(BINARY), worker(&queue));
        let (faktory, mongo) = (queue.port(), database.port());
        let text = format!(
            "faktory-connection-info: {{port: {faktory}, domain: localhost}}\n\
             db-connection-info: {{domain: 127.0.0.1, port: {mongo}, user: root, password: '{password}', database: {DATABASE}}}\n\
             tangle-collections: {{stencil_col_name: {STENCILS}, col_name: arborescent_tangles, page_size: 2}}\n"
        );
        let file = env.path().join("config.yaml");
        fs::write(&file, text).expect("write a file");
        Self { _worker: worker, file: file.display().to_string(), env, small, database, queue }
    }

    fn drop_in(&self, arguments: &[&str]) -> Command {
        drop_in(&self.env, &[&[&*self.file], arguments].concat())
    }

    /// As [`assert_complete`], with pages of 2.
    fn assert_complete(&self) {
        assert_complete(&self.small, 2, &self.database, &self.queue);
    }
}

fn drop_in(site: &TestEnv, arguments: &[&str]) -> Command {
    let mut command = site.bare_command();
    command.env("RUNTIME_DIRECTORY", site.path()).args(["as", "fproducer"]).args(arguments);
    command
}

#[test]
fn the_originals_file_is_accepted() {
    let original = OriginalSite::new("p@ss/1");
    let OriginalSite { env: site, file, .. } = &original;
    let mut instance =
        Instance::spawn(original.drop_in(&["--until-done", "--ensure-indexes", "--set", "producer.chunk=7"]));
    assert_eq!(instance.wait().code(), Some(0), "{}", site.log());
    original.assert_complete();
    let (code, plan, err) = site.cli(&["producer", "plan", "--fproducer", file, "--json"]);
    assert_eq!(code, 0, "{err}");
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    assert_eq!((&plan["plan"]["jobs"], &plan["missing_indexes"]), (&json!(0), &json!([])), "{plan}");
    assert!(!site.log().contains("p@ss") && !site.log().contains("p%40ss"), "{}", site.log());
}

/// The page's change of the unit. After the stop, the documents are as the original needs them.
#[test]
fn a_site_moves_and_can_go_back() {
    let original = OriginalSite::new("p@ss/1");
    let OriginalSite { env: site, file, .. } = &original;
    let [before, after] = UnitFile::before_and_after(PAGE, &[("/etc/tanglenomicon/config.yaml", file)]);
    assert_eq!(before.command()[2], after.command()[3], "the file stays");
    let mut command = site.command_of_unit(&after);
    command.args(["--set", "producer.poll_ms=100"]);
    let instance = Instance::spawn(command);
    eventually("all to be done", || site.cli(&["producer", "status"]).1.contains("finished"));
    assert!(instance.terminate().success(), "{}", site.log());
    original.assert_complete();
    let now = UNIX_EPOCH.elapsed().expect("a clock").as_millis() as u64;
    let documents = original.database.documents(DATABASE, STENCILS);
    let config = documents.iter().find(|document| document["_id"] == "config").expect("a document");
    let lease_ends = config["orchestrator"]["lease"]["until_ms"].as_u64().expect("a time");
    assert!(lease_ends <= now, "the lease is released: {config}");
}

/// The original ignores keys that it does not know.
#[test]
fn unknown_keys_of_the_originals_file_are_ignored_with_one_warning_each() {
    let original = OriginalSite::new("p@ss/1");
    let OriginalSite { env: site, file, .. } = &original;
    let text = fs::read_to_string(file).expect("the file");
    fs::write(file, format!("{text}\nlogging: {{level: S3CR3T}}\nretries: 3\n")).expect("write a file");
    let mut instance = Instance::spawn(original.drop_in(&["--until-done"]));
    assert_eq!(instance.wait().code(), Some(0), "{}", site.log());
    original.assert_complete();
    let log = site.log();
    for key in ["logging", "retries"] {
        let lines = log.lines().filter(|line| line.contains(&format!("{file}: {key}: unknown key, ignored")));
        let lines: Vec<_> = lines.collect();
        assert!(lines.len() == 1 && lines[0].contains("WARN"), "{key}: {log}");
    }
    assert!(!log.contains("S3CR3T"), "{log}");
    let (code, plan, err) = site.cli(&["producer", "plan", "--fproducer", file]);
    assert!(code == 0 && plan.contains("retries: unknown key, ignored"), "{plan}{err}");
}

/// Strict pushes in the original's order and writes the same documents. The start pushes TCN 4, and each tick
/// a TCN.
#[test]
fn strict_pushes_in_the_originals_order_and_writes_its_documents() {
    let original = OriginalSite::new("secret");
    let OriginalSite { env: site, small, database, queue, .. } = &original;
    let instance = Instance::spawn(original.drop_in(&["--strict"]));
    let wanted = small.jobs(2);
    eventually("all jobs", || queue.accepted().len() == wanted.len());
    assert!(instance.terminate().success(), "{}", site.log());
    assert_eq!(args_of(queue), wanted);
    for document in database.documents(DATABASE, STENCILS) {
        assert!(document.get("orchestrator").is_none(), "{document}");
    }
    assert!(queue.accepted().iter().all(|job| job.get("custom").is_none()), "as pyfaktory sends them");
}

#[test]
fn an_invalid_originals_file_is_refused_by_key() {
    let site = TestEnv::new(BINARY);
    let run = |arguments: &[&str]| {
        let code = drop_in(&site, arguments).status().expect("run the program").code();
        (code, site.log())
    };
    let (code, log) = run(&["/nowhere.yaml"]);
    assert!(code == Some(CONFIG) && log.contains("cannot read /nowhere.yaml"), "{log}");
    let path = site.path().join("invalid.yaml");
    fs::write(&path, "faktory-connection-info: {port: 7419, domian: x}\n").expect("write a file");
    let file = path.display().to_string();
    let (code, log) = run(&[&file]);
    assert_eq!(code, Some(CONFIG));
    assert!(log.contains(&format!("{file}: db-connection-info: it is missing")), "{log}");
    assert_eq!(run(&[&file, "--strict", "--until-done"]).0, Some(2), "the original has no end");
}

#[test]
fn an_invalid_database_address_ends_the_start() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    let site = ProducerEnv::new(BINARY, &database, &queue).set("producer.mongodb.uri=mongo:27017");
    assert_eq!(Instance::spawn(site.command()).wait().code(), Some(CONFIG));
    let log = site.base().log();
    assert!(log.contains("does not begin with mongodb://"), "{log}");
}

/// Wrong passwords are reported in the links. Faktory's file is read for each connection.
#[test]
fn wrong_passwords_are_reported_and_can_be_corrected() {
    let (database, queue) =
        (MongoDb::start_with_password("me", "right"), Faktory::start(&["--password", "right"]));
    Tanglenomicon::small().fill(&database);
    let site = ProducerEnv::new(BINARY, &database, &queue);
    let (secret, uri) = (site.base().path().join("faktory.password"), site.base().path().join("mongodb.uri"));
    fs::write(&secret, "wrong\n").expect("write a file");
    fs::write(&uri, format!("mongodb://me:wrong@127.0.0.1:{}\n", database.port())).expect("write a file");
    let site = site
        .set(&format!("producer.faktory.password_file={}", secret.display()))
        .set(&format!("producer.mongodb.uri_file={}", uri.display()));
    let instance = site.start();
    let reason = |path: &str| site.base().link(path).reason;
    eventually("Faktory's password to be reported", || {
        reason("producer/faktory/0").contains("Invalid password")
    });
    eventually("MongoDB's password to be reported", || {
        reason("producer/stencil_producer").contains("refuses the credentials")
    });
    fs::write(&secret, "right\n").expect("write a file");
    eventually("Faktory to let it in", || site.base().link("producer/faktory/0").state == "up");
    assert!(!site.base().log().contains("wrong"), "{}", site.base().log());
    assert_eq!(site.base().node("producer/stencil_producer")["restarts"], 0);
    assert!(instance.terminate().success());
}

#[test]
fn missing_and_invalid_documents_are_named() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    let site = ProducerEnv::new(BINARY, &database, &queue);
    let instance = site.start();
    let link = || site.base().link("producer/stencil_producer").reason;
    eventually("the missing configuration document to be reported", || {
        link().contains("arborescent_stencils") && link().contains("config")
    });
    let invalid = json!({"_id": {"$oid": "0badc0de0badc0de0badc0de"}, "TCN": 3.5, "rootstock_tcn": 2, "scion_tcn": 2, "state": 0});
    database.insert(DATABASE, STENCILS, &[invalid]);
    Tanglenomicon::small().fill(&database);
    eventually("the invalid stencil to block", || {
        let by = site.status()["blocked_by"].to_string();
        by.contains("0badc0de0badc0de0badc0de") && by.contains("TCN")
    });
    eventually("the log to name it", || site.base().log().contains("0badc0de0badc0de0badc0de"));
    assert_eq!(site.base().node("producer/stencil_producer")["restarts"], 0);
    assert!(instance.terminate().success());
}

/// A stencil with an empty set is logged, and does not block its TCN.
#[test]
fn a_stencil_with_an_empty_set_is_logged() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    let empty = Tanglenomicon { tangles: vec![(2, 3)], ..Tanglenomicon::small() };
    empty.fill(&database);
    let _worker = worker(&queue);
    let site = ProducerEnv::new(BINARY, &database, &queue);
    let instance = site.start();
    let expected = format!("stencil {} (TCN 5 = 2 + 3) has no jobs", Tanglenomicon::stencil_id(1));
    eventually("the empty set to be logged", || site.base().log().contains(&expected));
    assert!(site.base().log().contains("WARN"), "{}", site.base().log());
    assert!(instance.terminate().success());
}
