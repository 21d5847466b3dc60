//! Provenance with a fake MongoDB server: restarts of both sides, and the original's server configuration
//! behind a real RabbitMQ.

use orchestrator_harness::{Instance, MongoDb, ProvenanceEnv, Rabbit, eventually, sha1_of};
use serde_json::{Value, json};

const ROWS: u32 = 20_000;
const CONTENT: &str = "20329687bb9c1231a7e05afe86160343ad49b494";
const ORIGIN: &str = "6ceea27924608c9ae55f8592999de10cf8e00eb7";

fn env(server: &MongoDb) -> ProvenanceEnv {
    ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
        .set("provenance.writer.kind=mongodb")
        .set(&format!("provenance.mongodb.uri={}", server.uri()))
}

fn contents() -> impl Iterator<Item = Value> {
    (0..ROWS).map(|number| json!({"add": "content", "id": sha1_of(0, number)}))
}

#[test]
fn imported_rows_survive_restarts_of_program_and_database() {
    let mut server = MongoDb::start();
    let env = env(&server);
    let instance = env.start();
    let (revision, directory) = (sha1_of(2, 1), sha1_of(1, 1));
    let rows = env.file([
        json!({"add": "content_in_directory", "src": CONTENT, "dst": directory, "path": "b.c"}),
        json!({"add": "directory_in_revision", "src": directory, "dst": revision, "path": "a"}),
        json!({"add": "content_in_revision", "src": CONTENT, "dst": revision, "path": "b.c"}),
        json!({"add": "location", "path": "b.c"}),
        json!({"add": "content", "id": CONTENT, "date": "2005-03-18T01:58:31Z"}),
        json!({"add": "directory", "id": directory}),
        json!({"add": "revision", "id": revision, "date": "2005-03-18T01:58:31.000001Z", "origin": ORIGIN}),
        json!({"add": "origin", "url": "https://a/b"}),
    ]);
    eventually("an import", || env.base().cli(&["provenance", "import", &rows]).0 == 0);
    let occurrence = |path: &str| json!({"content": CONTENT, "revision": revision, "date": "2005-03-18T01:58:31.000001Z", "origin": "https://a/b", "path": path});
    let everywhere = json!([occurrence("a/b.c"), occurrence("b.c")]);
    assert_eq!(env.ask(&["find-all", CONTENT]), everywhere);
    assert_eq!(
        env.ask(&["stats"]),
        json!({"content": 1, "directory": 1, "origin": 1, "revision": 1}),
        "stats must count the collections"
    );
    instance.kill_nine();
    server.kill_nine();
    // The program starts while its store is down.
    let instance = env.start();
    eventually("the link to be down", || env.base().link("provenance/writer").state == "down");
    server.start_again();
    eventually("the link to be up", || env.base().link("provenance/writer").state == "up");
    assert_eq!(env.ask(&["find-all", CONTENT, "--limit", "1"]), json!([occurrence("a/b.c")]));
    assert_eq!(env.ask(&["find-first", CONTENT]), json!([occurrence("b.c")]));
    assert!(instance.terminate().success(), "{}", env.base().log());
}

/// Repeats an import until it is complete, because a restarted server may exceed the call timeout.
fn complete(env: &ProvenanceEnv, rows: &str) {
    eventually("an import that goes on to its end", || {
        env.base().cli(&["provenance", "import", "--resume", rows]).0 == 0
    });
    assert_eq!(env.count("content"), u64::from(ROWS));
}

#[test]
fn killing_the_database_during_an_import_loses_nothing() {
    let mut server = MongoDb::start();
    let env = env(&server);
    let instance = env.start();
    let rows = env.file(contents());
    let written = || env.base().metric("provenance/writer", "written");
    std::thread::scope(|scope| {
        let import = scope
            .spawn(|| env.base().cli(&["provenance", "import", "--resume", &rows, "--wait-min-secs", "1"]));
        eventually("some rows to be stored", || written() > 300 || import.is_finished());
        server.kill_nine();
        import.join().expect("an import that ends");
    });
    let confirmed = env.confirmed(&rows);
    server.start_again();
    eventually("the store to answer", || env.base().cli(&["provenance", "stats"]).0 == 0);
    let there = env.count("content");
    assert!(there >= confirmed, "{there} of {confirmed} rows");
    assert!(confirmed < u64::from(ROWS), "it was killed too late");
    complete(&env, &rows);
    assert!(instance.terminate().success(), "{}", env.base().log());
}

/// Another program has stored `revision: null`, to which no path can be added.
#[test]
fn a_document_of_another_shape_costs_only_its_row() {
    let server = MongoDb::start();
    let env = env(&server);
    let (key, revision) = ("64b7f0c0ffee64b7f0c0ffee", sha1_of(2, 1));
    let base64 = "IDKWh7ucEjGn4Fr+hhYDQ61JtJQ=";
    let sha1 = json!({"$binary": {"base64": base64, "subType": "00"}});
    let odd = json!({"_id": {"$oid": key}, "sha1": sha1, "ts": null, "revision": null, "directory": {}});
    server.insert("provenance", "content", &[odd]);
    let instance = env.start();
    let row =
        |content: &str| json!({"add": "content_in_revision", "src": content, "dst": revision, "path": "a"});
    let other = sha1_of(0, 1);
    let lines = [
        json!({"add": "revision", "id": revision}),
        json!({"add": "content", "id": other}),
        json!({"add": "location", "path": "a"}),
        row(CONTENT),
        row(&other),
    ];
    let rows = env.file(lines.clone());
    eventually("an import that names the row", || {
        let (code, _, error) = env.base().cli(&["provenance", "import", &rows, "--json"]);
        code == 5 && error.contains("line 4: ")
    });
    let kept = env.ask(&["dead-letters"]);
    assert_eq!((kept.as_array().map(Vec::len), &kept[0]["line"]), (Some(1), &lines[3]), "{kept}");
    let reason = kept[0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains(&format!("_id {key}")) && reason.contains("(code 28)"), "{kept}");
    assert_eq!(env.ask(&["find-first", &other])[0]["revision"], revision, "other rows are stored");
    assert_eq!(env.base().link("provenance/writer").state, "up");
    assert!(instance.terminate().success(), "{}", env.base().log());
}

/// The original's environment variable and configuration file start the replacement.
#[test]
fn the_original_configuration_file_suffices() {
    let (url, server) = (Rabbit::shared().create_vhost("mongodb"), MongoDb::start());
    let behind = env(&server);
    let env = behind.base();
    let file = env.path().join("swh.yml");
    let port = server.port();
    let text = format!(
        "provenance:\n  rabbitmq:\n    url: {url}\n    storage_config:\n      cls: mongodb\n      db: {{dbname: swh, host: 127.0.0.1, port: {port}}}\n"
    );
    std::fs::write(&file, text).expect("write a file");
    let mut command = env.bare_command();
    command.args(["as", "swh-provenance-server"]);
    command.env("SWH_CONFIG_FILENAME", &file).env("RUNTIME_DIRECTORY", env.path());
    let instance = Instance::spawn(command);
    eventually("all queues to be consumed", || {
        env.cli(&["tree"]).0 == 0 && env.metric("provenance/amqp", "consumed") == 160
    });
    let rows = behind.file(contents());
    complete(&behind, &rows);
    assert!(instance.terminate().success(), "{}", env.log());
}
