//! The provenance client with the original's configuration file: transport, timeouts, and the errors of an
//! import.

use std::{
    fs,
    net::UdpSocket,
    time::{Duration, Instant},
};

use orchestrator_harness::{
    Faktory, Instance, Postgres, ProvenanceEnv, Rabbit, TestEnv, eventually, http, load::SeededRng, sha1_of,
};
use serde_json::{Value, json};

const CONTENT: &str = "20329687bb9c1231a7e05afe86160343ad49b494";
const REFUSED: i32 = 5;
const TIMED_OUT: i32 = 6;
const CONFIG: i32 = 78;

fn env() -> ProvenanceEnv {
    ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

/// Creates a database with the original's tables.
fn database(postgres: &Postgres, env: &TestEnv) -> String {
    let dsn = postgres.create_database("provenance");
    let (code, _, err) = env.cli(&["provenance", "init", "--dsn", &dsn]);
    assert_eq!(code, 0, "{err}");
    dsn
}

fn write(env: &TestEnv, name: &str, text: &str) -> String {
    let file = env.path().join(name);
    fs::write(&file, text).expect("write a file");
    file.display().to_string()
}

/// Runs `orchestrator provenance ARGUMENTS --json`, which must succeed.
fn ask(env: &TestEnv, arguments: &[&str]) -> Value {
    let (code, out, err) = env.cli(&[&["provenance"], arguments, &["--json"]].concat());
    assert_eq!(code, 0, "{arguments:?}: {err}{}", env.log());
    serde_json::from_str(&out).expect("JSON")
}

/// Incompressible text within the length limit, but too long for an index of PostgreSQL.
fn dense() -> String {
    let mut rng = SeededRng::new(7);
    (0..2_700).map(|_| char::from(33 + rng.below(90) as u8)).collect()
}

#[test]
fn a_tls_broker_is_verified_with_the_configured_ca() {
    let (rabbit, env) = (Rabbit::shared(), env());
    rabbit.create_vhost("secured");
    let url = format!("provenance.amqp.url={}", rabbit.tls_url_of("secured"));
    let missing = ["check", "--set", "provenance.transport=amqp", "--set", &url];
    let missing = [&missing[..], &["--set", "provenance.amqp.ca_file=/none"]].concat();
    let (code, _, err) = env.base().cli(&missing);
    assert_eq!(code, CONFIG);
    assert!(err.contains("provenance.amqp: ca_file = /none: cannot be read"), "{err}");

    let authority = format!("provenance.amqp.ca_file={}", Faktory::ca_file().display());
    let env = env.set("provenance.transport=amqp").set(&url).set(&authority).set("telemetry.filter=debug");
    let instance = env.start();
    eventually("all queues to be consumed", || env.base().metric("provenance/amqp", "consumed") == 160);
    let contents = (0..500).map(|number| json!({"add": "content", "id": sha1_of(0, number)}));
    env.ask(&["import", &env.file(contents)]);
    assert_eq!(env.count("content"), 500);
    // The rows of an import are no commands of an operator: they would fill the list of events.
    let (code, events, _) = env.base().cli(&["tail", "--no-follow", "-n", "1000", "--kind", "commanded"]);
    assert_eq!((code, events.as_str()), (0, ""));
    let log = env.base().log();
    let line = log.lines().find(|line| line.contains("a message is settled")).expect("a debug line");
    assert!(line.contains("content_add.unknown."), "{line}");
    assert!(instance.terminate().success());
}

#[test]
fn rows_of_an_unserved_range_are_refused() {
    let env = env().set("provenance.transport=amqp").set("provenance.ranges=0-7");
    let env = env.set(&format!("provenance.amqp.url={}", Rabbit::shared().create_vhost("half-served")));
    let instance = env.start();
    eventually("its queues to be consumed", || env.base().metric("provenance/amqp", "consumed") == 80);
    let file = env.file([json!({"add": "content", "id": sha1_of(0, 8)})]);
    let (code, _, err) = env.base().cli(&["provenance", "import", &file]);
    assert_eq!(code, REFUSED, "{err}");
    assert!(err.contains("no server has declared the queue content_add.unknown.8"), "{err}");
    assert!(!env.base().log().contains("BasicReturnMessage"), "{}", env.base().log());
    assert!(instance.terminate().success());
}

/// Server and client use the original's files, without an admin endpoint.
#[test]
fn the_original_client_file_reaches_the_store_through_the_broker() {
    let (rabbit, postgres, fixture) = (Rabbit::shared(), Postgres::shared(), env());
    let env = fixture.base();
    let (url, dsn) = (rabbit.create_vhost("original-client"), database(postgres, env));
    let storage = format!("storage_config: {{cls: postgresql, db: '{dsn}'}}");
    let client = |more: &str| {
        format!("provenance:\n  storage:\n    cls: rabbitmq\n    url: {url}\n    {storage}\n{more}")
    };
    let file = write(env, "client.yml", &client("    batch_size: 2\n    prefetch_count: 7\n"));
    let revision = sha1_of(2, 1);
    let rows = fixture.file([
        json!({"add": "content_in_revision", "src": CONTENT, "dst": revision, "path": "b.c"}),
        json!({"add": "location", "path": "b.c"}),
        json!({"add": "content", "id": CONTENT, "date": "2005-03-18T01:58:31Z"}),
        json!({"add": "revision", "id": revision, "date": "2005-03-18T01:58:31Z"}),
        json!({"add": "location", "path": "x".repeat(3_000)}),
    ]);
    let import = ["provenance", "import", "--swh-config", &file, &rows];

    // Without a server the broker has no queue and returns the rows.
    let (code, _, err) = env.cli(&import);
    assert_eq!(code, REFUSED, "{err}");
    assert!(err.contains("lines 1 to 5 of ") && err.contains("no server has declared the queue"), "{err}");

    let server =
        write(env, "server.yml", &format!("provenance:\n  rabbitmq:\n    url: {url}\n    {storage}\n"));
    let mut command = env.bare_command();
    command.args(["as", "swh-provenance-server"]).env("SWH_CONFIG_FILENAME", &server);
    let instance = Instance::spawn(command);
    let consumers = || {
        let queues = rabbit.queues("original-client", "consumers");
        queues.iter().filter(|(name, consumers)| name.contains(".unknown.") && *consumers == 1).count()
    };
    eventually("the server to consume", || consumers() == 80);
    assert_ne!(env.cli(&["tree"]).0, 0, "an endpoint where there should be none");

    let (code, out, err) = env.cli(&import);
    assert_eq!(code, REFUSED, "{err}");
    assert!(err.contains("line 5: path of 3000 bytes"), "{err}");
    let summary: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&summary["stored"], &summary["bad"]), (&json!(4), &json!(1)));
    let occurrence = json!([{"content": CONTENT, "revision": revision, "date": "2005-03-18T01:58:31Z", "origin": null, "path": "b.c"}]);
    assert_eq!(ask(env, &["find-all", CONTENT, "--swh-config", &file]), occurrence);
    assert_eq!(ask(env, &["find-first", "--swh-config", &file, CONTENT]), occurrence);
    let date = json!({ CONTENT: "2005-03-18T01:58:31Z" });
    assert_eq!(ask(env, &["get", "--swh-config", &file, "content", CONTENT]), date);
    assert_eq!(ask(env, &["stats", "--swh-config", &file])["content"], json!(1));

    // A missing key has the original's error text.
    let short = write(env, "short.yml", &client("").replace(&storage, ""));
    let (code, _, err) = env.cli(&["provenance", "find-all", CONTENT, "--swh-config", &short]);
    assert_eq!(code, CONFIG, "{err}");
    assert!(err.contains("Missing 'provenance.storage.storage_config' configuration"), "{err}");
    let (code, _, err) = env.cli(&["provenance", "import", &rows, "--prefetch", "5"]);
    assert!(code == 2 && err.contains("--swh-config"), "{code}: {err}");
    let (code, _, err) =
        env.cli(&["provenance", "stats", "--swh-config", &file, "--url", "http://127.0.0.1:1"]);
    assert!(code == 2 && err.contains("cannot be used with"), "{code}: {err}");
    assert!(instance.terminate().success(), "{}", env.log());

    // With queues but no server the client times out as configured and reports its position.
    let begun = Instant::now();
    let (code, _, err) =
        env.cli(&[&import[..], &["--wait-min-secs", "1", "--wait-per-batch-secs", "0"]].concat());
    assert_eq!(code, TIMED_OUT, "{err}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    for words in ["lines 1 to 5 of ", "within 1s", "orchestrator.provenance.dead_letter", "--resume"] {
        assert!(err.contains(words), "{words}: {err}");
    }
    check_instance_behind_broker(rabbit, &dsn);
}

/// Instance behind a broker: uses the configured prefetch, times open and close, and names the dead-letter
/// queue for a row that the store refuses.
fn check_instance_behind_broker(rabbit: &Rabbit, dsn: &str) {
    let statsd = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    statsd.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    let next_method = || {
        let mut packet = [0; 512];
        let length = statsd.recv(&mut packet).expect("a packet");
        let text = String::from_utf8_lossy(&packet[..length]);
        text.rsplit_once("method:").map(|(_, method)| method.to_owned())
    };
    let fixture = env()
        .set("provenance.transport=amqp")
        .set(&format!("provenance.amqp.url={}", rabbit.create_vhost("prefetch")))
        .set("provenance.client.prefetch=7")
        .set("provenance.client.wait_min_secs=1")
        .set("provenance.writer.kind=postgres")
        .set(&format!("provenance.postgres.dsn={dsn}"));
    let mut command = fixture.command();
    command.env("STATSD_PORT", statsd.local_addr().expect("an address").port().to_string());
    let instance = Instance::spawn(command);
    let of_callbacks = || {
        let consumers = rabbit.ctl(&["list_consumers", "-p", "prefetch", "queue_name", "prefetch_count"]);
        let callbacks = consumers.lines().filter(|line| line.starts_with("amq.gen-"));
        callbacks.map(|line| line.split('\t').next_back().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    eventually("the client's queue", || !of_callbacks().is_empty());
    assert_eq!(of_callbacks(), ["7"]);
    assert_eq!(next_method().as_deref(), Some("open"));
    let metrics = http(&fixture.base().admin_socket(), "GET", "/metrics", &[], "").body;
    let opened = r#"orchestrator_provenance_call_duration_seconds_count{path="orchestrator/provenance/publisher",method="open"} 1"#;
    assert!(metrics.lines().any(|line| line == opened), "{metrics}");
    eventually("all queues to be consumed", || fixture.base().metric("provenance/amqp", "consumed") == 160);
    let rows =
        fixture.file([json!({"add": "location", "path": "a"}), json!({"add": "location", "path": dense()})]);
    let (code, _, err) = fixture.base().cli(&["provenance", "import", &rows]);
    assert_eq!(code, REFUSED, "{err}");
    assert!(err.contains("lines 1 to 2 of ") && err.contains("orchestrator.provenance.dead_letter"), "{err}");
    let dead = || fixture.base().metric("provenance/amqp", "dead_lettered");
    eventually("the dead letter", || dead() == 1);
    assert_eq!(next_method().as_deref(), Some("location_add"));
    assert!(instance.terminate().success(), "{}", fixture.base().log());
    assert_eq!(next_method().as_deref(), Some("close"));
}

#[test]
fn an_import_waits_as_configured_and_names_refused_rows() {
    let mut postgres = Postgres::start();
    let fixture = env();
    let dsn = database(&postgres, fixture.base());
    let fixture =
        fixture.set("provenance.writer.kind=postgres").set(&format!("provenance.postgres.dsn={dsn}"));
    let instance = fixture.start();
    let env = fixture.base();

    let rows = fixture.file([
        json!({"add": "origin", "url": "https://a/1"}),
        json!({"add": "content", "id": CONTENT}),
        json!({"add": "origin", "url": dense()}),
        json!({"add": "location", "path": "a"}),
        json!({"add": "location", "path": dense()}),
    ]);
    let (code, out, err) = env.cli(&["provenance", "import", &rows, "--batch", "2"]);
    assert_eq!(code, REFUSED, "{err}");
    let summary: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&summary["stored"], &summary["bad"]), (&json!(3), &json!(2)), "{err}");
    let named: Vec<_> =
        err.lines().filter_map(|line| line.split(": line ").nth(1)?.split(':').next()).collect();
    assert_eq!(named, ["3", "5"], "{err}");

    postgres.kill_nine();
    let rows = fixture.file((0..9).map(|number| json!({"add": "content", "id": sha1_of(0, number)})));
    std::thread::scope(|scope| {
        // Without an option, it waits as long as the instance answers.
        let import = scope.spawn(|| env.cli(&["provenance", "import", &rows]));
        let begun = Instant::now();
        let (code, _, err) = env.cli(&["provenance", "import", &rows, "--wait-min-secs", "4"]);
        assert_eq!(code, TIMED_OUT, "{err}");
        assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
        assert!(err.contains("lines 1 to 9 of ") && err.contains("not stored in time"), "{err}");
        assert!(!import.is_finished());
        let causes = env.causes("provenance");
        assert!(causes[0].text.starts_with("postgres to "), "the server comes first: {causes:?}");
        postgres.start_again();
        let (code, _, err) = import.join().expect("an import that ends");
        assert_eq!(code, 0, "{err}");
        assert!(err.contains("lines 1 to 9 are not stored yet after "), "{err}");
    });
    assert_eq!(fixture.count("content"), 10);
    assert!(instance.terminate().success(), "{}", env.log());
}
