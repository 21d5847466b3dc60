//! The number of series in `/metrics`, with all five subsystems.

use std::{fs, net::TcpListener};

use orchestrator_harness::{
    Ermrest, Faktory, IngesterEnv, MongoDb, Reply, Tanglenomicon, ZmtpPeer, eventually, http, sha1_of,
};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";
/// Bound of all series.
const SERIES_MAX: usize = 1_500;

#[test]
fn five_subsystems_with_80_range_workers_have_under_1500_series() {
    let (ermrest, faktory, mongodb) = (Ermrest::start(&[]), Faktory::start(&[]), MongoDb::start());
    Tanglenomicon::small().fill(&mongodb);
    let source = TcpListener::bind("127.0.0.1:0").expect("a port");
    let upstream = format!("tcp://{}", source.local_addr().expect("its address"));
    let env = IngesterEnv::new(BINARY, &upstream, "");
    let base = &env.base;
    env.append(&format!(
        "[queue]\ndatabase = {:?}\ninput_dir = {:?}\nsocket = {:?}\n\
         [provenance]\nsqlite.path = \"provenance.db\"\ndead_letters = \"letters.db\"\n\
         [producer]\npage_size = 1\nfaktory.url = {:?}\nmongodb.uri = {:?}\n\
         [[catalog]]\nname = \"lab\"\nbase = {:?}\namqp = \"\"\npoll_without_notices_secs = 0.25\n\
         {}handler = {{ kind = \"command\", argv = [\"/bin/true\"] }}\n",
        base.database_path(),
        base.input_dir(),
        base.socket(),
        faktory.url(),
        mongodb.uri(),
        ermrest.url(),
        orchestrator_harness::LEASED_RULE,
    ));
    base.write("f.1.txt", "alpha 0 1\n");
    let _instance = env.start();
    // Work for each subsystem, so that the histograms of its messages exist.
    assert!(matches!(base.worker().ready(), Reply::Job { .. }));
    let rows = base.path().join("rows.jsonl");
    let contents = (0..500).map(|number| json!({ "add": "content", "id": sha1_of(0, number) }));
    fs::write(&rows, contents.map(|row| format!("{row}\n")).collect::<String>()).expect("a file of rows");
    let (code, out, error) = base.cli(&["provenance", "import", &rows.display().to_string()]);
    assert_eq!(code, 0, "{out}{error}");
    ermrest.insert_foo(3, "actionable");
    env.controller().start_mapping(MAPPING, &["eiger"]);
    let mut worker = ZmtpPeer::connect(env.port, "DEALER", "w1").expect("the ingester listens");
    worker.send(&[&[0x44; 16]]).expect("a ping");
    env.controller().assign_events(MAPPING, &[(0, json!({ "eiger": ["w1"] }))]);
    let mut detector = ZmtpPeer::accept(&source, "PUSH").expect("the ingester connects");
    detector.send(&[br#"{"htype":"header","msg_number":0,"filename":""}"#]).expect("a header");
    worker.receive().expect("the event");
    eventually("rows of the catalog to be done", || ermrest.count("Foo", "complete") == 3);
    eventually("jobs of the producer", || !faktory.accepted().is_empty());

    let metrics = http(&base.admin_socket(), "GET", "/metrics", &[], "").body;
    let series: Vec<_> = metrics.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(series.len() < SERIES_MAX, "{} series:\n{metrics}", series.len());
    let value = |start: &str| -> Option<f64> {
        let line = series.iter().find(|line| line.starts_with(start));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    let pool = "path=\"orchestrator/provenance/range_worker";
    let member = |name: &str| -> Vec<f64> {
        (0..80).filter_map(|at| value(&format!("{name}{{{pool}/{at}\""))).collect()
    };
    // Each worker has its counters.
    for name in ["orchestrator_provenance_batches_total", "orchestrator_child_restarts_total"] {
        assert_eq!(member(name).len(), 80, "{name}");
    }
    assert_eq!(member("orchestrator_provenance_stored_rows_total").iter().sum::<f64>(), 500.0);
    // Gauges and histograms are those of the pool.
    for name in ["orchestrator_mailbox_depth", "orchestrator_message_wait_seconds_count"] {
        assert_eq!(member(name).len(), 0, "{name}");
    }
    let handled = member("orchestrator_mailbox_handled_total").iter().sum::<f64>();
    assert_eq!(value(&format!("orchestrator_message_wait_seconds_count{{{pool}\"")), Some(handled));
    assert_eq!(value(&format!("orchestrator_provenance_waiting_rows{{{pool}\"")), Some(0.0));
}
