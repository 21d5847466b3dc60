//! `orchestrator config init`: its result is valid and has the values of the replaced program's
//! configuration.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use orchestrator_harness::TestEnv;
use serde_json::{Value, json};

const CONFIG: i32 = 78;
const ALL: [&str; 7] = [
    "nixpkgs-update-supervisor",
    "swh-provenance-server",
    "dranspose-ingester",
    "dranspose-http-ingester",
    "fproducer",
    "deriva-agent",
    "deriva-imaging-server",
];

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

/// Runs `config init --for PROGRAM --from FILE --output out.toml`. Returns the configuration as it is read.
fn init(env: &TestEnv, program: &str, name: &str, text: &str) -> Value {
    let from = env.path().join(name);
    fs::write(&from, text).expect("write a file");
    let (code, out, err) =
        env.cli(&["config", "init", "--for", program, "--from", name, "--output", "out.toml"]);
    assert!(code == 0 && out.is_empty(), "{program}: {err}");
    let (code, tree, err) = env.cli(&["check", "--config", "out.toml"]);
    assert!(code == 0 && !tree.is_empty(), "{program}: {err}");
    read(&env.path().join("out.toml"))
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("a configuration");
    toml::from_str(&text).expect("TOML")
}

#[test]
fn each_program_has_a_commented_configuration_that_is_valid() {
    for program in ALL {
        let env = env();
        let (code, text, err) = env.cli(&["config", "init", "--for", program]);
        assert_eq!(code, 0, "{program}: {err}");
        fs::write(env.path().join("a.toml"), &text).expect("write a file");
        let (code, _, err) = env.cli(&["check", "--config", "a.toml"]);
        assert_eq!(code, 0, "{program}: {err}\n{text}");
        assert!(
            text.starts_with(&format!("# Configuration of orchestrator in place of {program}.\n")),
            "{text}"
        );
        assert!(text.lines().all(|line| !line.starts_with("# ") || line.chars().count() <= 100), "{text}");
        for key in ["#retry_max_ms = 60000", "#filter = ", "[admin]"] {
            assert!(text.contains(&format!("\n{key}")), "{program}: {key}: {text}");
        }
    }
    let (_, text, _) = env().cli(&["config", "init", "--for", "fproducer"]);
    for line in [
        "# Tangles of a page. A stencil that has been started keeps its own.\n#page_size = 500\n",
        "#[producer.on_complete]\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn the_producers_file_is_taken_over_and_its_password_moves_into_a_file() {
    let env = env();
    let yaml = "faktory-connection-info: {port: 7420, domain: ':p@ss@faktory'}\ndb-connection-info: {domain: mongo, port: 27017, user: root, password: 's3cr3t/1', database: t}\ntangle-collections: {stencil_col_name: s, col_name: arborescent_tangles, page_size: 250}\nextra: 1\n";
    let config = init(&env, "fproducer", "config.yaml", yaml);
    let producer = &config["producer"];
    assert_eq!(
        (&producer["page_size"], &producer["faktory"]["url"]),
        (&json!(250), &json!("tcp://faktory:7420"))
    );
    assert_eq!(producer["mongodb"]["stencils"], "s");
    assert!(
        producer["mongodb"].get("uri").is_none() && producer["mongodb"].get("tangles").is_none(),
        "{config}"
    );
    let file = producer["mongodb"]["uri_file"].as_str().expect("a path").to_owned();
    let secret = fs::read_to_string(&file).expect("the secret");
    assert_eq!(secret, "mongodb://root:s3cr3t%2F1@mongo:27017/?authSource=admin\n");
    let mode = |path: &str| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    let password = producer["faktory"]["password_file"].as_str().expect("a path").to_owned();
    assert_eq!(
        (fs::read_to_string(&password).expect("a password").as_str(), mode(&password)),
        ("p@ss\n", 0o600)
    );
    let text = fs::read_to_string(env.path().join("out.toml")).expect("a configuration");
    let is_secret = ["s3cr3t", "p@ss"].iter().any(|secret| text.contains(secret));
    assert!(!is_secret && text.contains("extra: unknown key, ignored"), "{text}");

    // A second run refuses to overwrite either file.
    let again = ["config", "init", "--for", "fproducer", "--from", "config.yaml", "--output", "out.toml"];
    let (code, _, err) = env.cli(&again);
    assert!(code == CONFIG && err.contains("exists already") && err.contains("--force"), "{err}");
    fs::remove_file(env.path().join("out.toml")).expect("it exists");
    let (code, _, err) = env.cli(&again);
    assert!(code == CONFIG && err.contains("producer.faktory.password exists already"), "{err}");
    assert!(!env.path().join("out.toml").exists());
    let (code, _, err) = env.cli(&[&again[..], &["--force"]].concat());
    assert_eq!(code, 0, "{err}");
    assert_eq!(read(&env.path().join("out.toml"))["producer"], config["producer"]);
}

#[test]
fn the_provenance_servers_file_is_taken_over_and_its_password_moves_into_a_file() {
    let yaml = "provenance:\n  rabbitmq:\n    url: amqp://broker:5672/%2f\n    batch_size: 50\n    storage_config: {cls: postgresql, db: 'host=db user=me password=s3cr3t dbname=p'}\n";
    let env = env();
    let config = init(&env, "swh-provenance-server", "p.yml", yaml);
    let provenance = &config["provenance"];
    assert_eq!((&provenance["transport"], &provenance["batch"]), (&json!("amqp"), &json!(50)));
    assert_eq!(provenance["amqp"]["url"], "amqp://broker:5672/%2f");
    assert_eq!(provenance["writer"]["kind"], "postgres");
    let file = provenance["postgres"]["dsn_file"].as_str().expect("a path");
    let secret = fs::read_to_string(file).expect("the secret");
    assert_eq!(secret, "host=db user=me password=s3cr3t dbname=p\n");
    let names =
        fs::read_dir(env.path()).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(".tmp")).collect();
    assert!(left.is_empty(), "{left:?}");

    // A result that is refused leaves neither the secret nor the configuration.
    fs::remove_file(file).expect("it exists");
    fs::remove_file(env.path().join("out.toml")).expect("it exists");
    fs::write(env.path().join("p.yml"), yaml.replace("batch_size: 50", "batch_size: 20000"))
        .expect("write a file");
    let arguments =
        ["config", "init", "--for", "swh-provenance-server", "--from", "p.yml", "--output", "out.toml"];
    let (code, _, err) = env.cli(&arguments);
    assert!(code == CONFIG && err.contains("provenance.batch"), "{err}");
    assert!(!Path::new(file).exists() && !env.path().join("out.toml").exists());
}

#[test]
fn derivas_file_is_taken_over() {
    let text = r#"{"server": {"host": "lab", "catalog_id": 7}, "session": {"timeout": [6, 30]}}"#;
    let config = init(&env(), "deriva-agent", "config.json", text);
    let catalog = &config["catalog"][0];
    assert_eq!(
        (&catalog["base"], &catalog["read_timeout_ms"]),
        (&json!("https://lab/ermrest/catalog/7"), &json!(30_000))
    );
    assert_eq!(catalog["rule"][0]["dry_run"], true, "the example claims nothing");
}

#[test]
fn the_imaging_servers_file_is_taken_over() {
    let text = r#"{"get_claimable_url": "/entity/isa:imaging_data/processing_status=new?limit=1",
        "put_claim_url": "/attributegroup/isa:imaging_data/RID;processing_status", "image_processing_status": "processing_status",
        "deriva_imaging_server": "lab", "catalog_number": 1, "credentials_file": "/home/lab/.deriva/credential.json"}"#;
    let env = env();
    let config = init(&env, "deriva-imaging-server", "deriva_imaging.json", text);
    let (catalog, rule) = (&config["catalog"][0], &config["catalog"][0]["rule"][0]);
    assert_eq!(
        (&catalog["base"], &catalog["poll_secs"]),
        (&json!("https://lab/ermrest/catalog/1"), &json!(300.0))
    );
    let file = env.path().join("deriva_imaging.json");
    let argv = json!(["deriva-imaging-client", "--config", file, "--rid", "$row.RID"]);
    assert_eq!(rule["handler"]["argv"], argv);
    assert_eq!(
        (&rule["claim"]["set"], &rule["fail"]["processing_status"]),
        (&json!({"processing_status": "in progress"}), &json!("error"))
    );
}

#[test]
fn what_cannot_be_taken_over_is_refused_and_nothing_is_written() {
    for (program, name, text, said) in [
        ("cron", "x", "", "replaces no such program; it replaces nixpkgs-update-supervisor"),
        ("fproducer", "x.yaml", "a: 1", "it is missing"),
        (
            "nixpkgs-update-supervisor",
            "x.json",
            "{}",
            "use its command line, `orchestrator as --print-config nixpkgs-update-supervisor ..`",
        ),
        ("deriva-agent", "x.json", "[]", "no configuration of deriva"),
        ("deriva-imaging-server", "x.json", r#"{"server": {}}"#, "no configuration of deriva-imaging-server"),
    ] {
        let env = env();
        fs::write(env.path().join(name), text).expect("write a file");
        let (code, out, err) =
            env.cli(&["config", "init", "--for", program, "--from", name, "--output", "out.toml"]);
        assert!(code == CONFIG && out.is_empty() && err.contains(said), "{program} {text}: {err}");
        assert!(!env.path().join("out.toml").exists());
    }
    let (code, _, err) = env().cli(&["config", "init", "--for", "fproducer", "--from", "/nowhere"]);
    assert!(code == CONFIG && err.contains("--from /nowhere: No such file"), "{err}");
    let (code, _, err) = env().cli(&["config", "init", "--for", "fproducer", "--output", "/nowhere/o.toml"]);
    assert!(code == CONFIG && err.contains("the directory /nowhere is missing: create it first"), "{err}");
}
