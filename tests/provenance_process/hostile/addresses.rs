//! Malformed addresses in files are never shown.

use std::fs;

use orchestrator_harness::{ProvenanceEnv, eventually, http};

const SECRET: &str = "S3CR3T";

/// Store, key of the address file, and content of the file.
const ALL: [(&str, &str, &str); 9] = [
    ("writer.kind=mongodb", "mongodb.uri_file", "mongodb://user:S3CR3T?x@host"),
    ("writer.kind=mongodb", "mongodb.uri_file", "mongodb://user:S3CR3T"),
    ("writer.kind=mongodb", "mongodb.uri_file", "mongodb://u@127.0.0.1:9/?S3CR3T=1"),
    ("writer.kind=mongodb", "mongodb.uri_file", "mongodb://u:x@127.0.0.1:9/?tls=true&tlsCAFile=/S3CR3T"),
    ("writer.kind=postgres", "postgres.dsn_file", "postgresql://user:S3CR3T?x@host/d"),
    ("writer.kind=postgres", "postgres.dsn_file", "host=127.0.0.1 port=9 password=my S3CR3T"),
    ("writer.kind=postgres", "postgres.dsn_file", "host=127.0.0.1 port=9 user=me password=S3CR3T"),
    ("writer.kind=postgres", "postgres.dsn_file", "S3CR3T"),
    ("writer.kind=postgres", "postgres.dsn_file", "postgresql://u@h:S3CR3T/d"),
];

#[test]
fn a_malformed_address_in_a_file_is_never_shown() {
    for (kind, key, address) in ALL {
        let env = ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
        let file = env.base().path().join("address");
        fs::write(&file, address).expect("write a file");
        let env = env.set(&format!("provenance.{kind}")).set(&format!("provenance.{key}={}", file.display()));
        let instance = env.start();
        eventually(address, || env.base().link("provenance/writer").state == "down");
        let reason = env.base().link("provenance/writer").reason;
        assert!(reason.contains("database"), "{address}: {reason}");
        let mut shown = vec![reason];
        for path in ["/readyz", "/v1/tree", "/v1/config", "/metrics"] {
            let reply = http(&env.base().admin_socket(), "GET", path, &["Accept: application/json"], "");
            shown.push(reply.body);
        }
        let (_, out, err) = env.base().cli(&["provenance", "stats"]);
        shown.extend([out, err]);
        assert!(instance.terminate().success());
        shown.push(env.base().log());
        for text in shown {
            assert!(!text.contains(SECRET), "{address}: {text}");
        }
    }
}

/// Malformed addresses prevent the start.
#[test]
fn malformed_addresses_are_refused_without_showing_them() {
    for url in [
        "amqp://user:S3CR3T?x@host",
        "amqp://user:S3CR3T",
        "S3CR3T",
        "amqp://u:x@h/?heartbeat=S3CR3T",
        "amqps://u:x@h/?ssl_options=S3CR3T",
    ] {
        let env = ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("provenance.transport=amqp");
        let file = env.base().path().join("address");
        fs::write(&file, url).expect("write a file");
        let env = env.set(&format!("provenance.amqp.url_file={}", file.display()));
        let mut instance = orchestrator_harness::Instance::spawn(env.command());
        assert!(!instance.wait().success());
        let log = env.base().log();
        assert!(log.contains("provenance.amqp") && log.contains("amqp://USER:PASSWORD"), "{url}: {log}");
        assert!(!log.contains(SECRET), "{url}: {log}");
    }
    let env = ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    for dsn in ["postgresql://me:S3CR3T?x@h/d", "host=h S3CR3T", "host=h sslmode=allow password=S3CR3T"] {
        let file = env.base().path().join("dsn");
        fs::write(&file, dsn).expect("write a file");
        let (code, out, err) =
            env.base().cli(&["provenance", "init", "--dsn-file", &file.display().to_string()]);
        assert!(code != 0 && err.contains("the address of the database"), "{dsn}: {err}");
        assert!(!(out + &err).contains(SECRET), "{dsn}");
    }
}
