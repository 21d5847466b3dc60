//! Files in `config/`: every profile passes `check`, the schema is current and accepts all of them, and the
//! commented configuration. Also the precedence of files, environment and `--set`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use orchestrator_harness::json_schema_errors;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config")
}

/// Every `config/*.toml`.
fn profiles() -> Vec<PathBuf> {
    let entries =
        fs::read_dir(directory()).expect("the directory").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    files
}

/// Runs the program with environment `variables`. Returns exit code, standard output and standard error.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let empty = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_orchestrator"));
    command.current_dir(empty.path()).args(arguments).envs(variables.iter().copied());
    let output = command.output().expect("run the program");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    assert_eq!(
        fs::read_dir(empty.path()).expect("it is still there").count(),
        0,
        "{arguments:?} created files"
    );
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// `config print`, which must succeed.
fn print(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let (code, out, err) = run(&[&["config", "print"], arguments].concat(), variables);
    assert_eq!(code, 0, "{arguments:?}: {err}");
    out
}

#[test]
fn every_profile_passes_check_without_creating_files() {
    for profile in profiles() {
        let (code, out, err) = run(&["check", "--config", &profile.display().to_string()], &[]);
        assert_eq!(code, 0, "{}: {err}", profile.display());
        assert!(out.starts_with("orchestrator") && err.is_empty(), "{out}{err}");
    }
}

/// Uncomments every key: a key is commented out without a space after `#`.
fn uncommented(text: &str) -> String {
    let plain = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(plain).collect()
}

#[test]
fn the_shipped_schema_is_current_and_accepts_every_profile() {
    let (code, own, err) = run(&["config", "schema"], &[]);
    assert_eq!(code, 0, "{err}");
    let shipped = fs::read_to_string(directory().join("schema.json")).expect("config/schema.json");
    assert!(own == shipped, "config/schema.json is old: cargo run -- config schema > config/schema.json");

    let mut texts: Vec<_> = profiles().iter().map(|file| fs::read_to_string(file).expect("UTF-8")).collect();
    texts.push(uncommented(&fs::read_to_string(directory().join("orchestrator.toml")).expect("UTF-8")));
    let table = |text: &String| toml::from_str::<toml::Table>(text).expect("TOML");
    let documents: Vec<_> =
        texts.iter().map(|text| serde_json::to_value(table(text)).expect("JSON")).collect();
    assert_eq!(json_schema_errors(&directory().join("schema.json"), &documents), "");
}

#[test]
fn set_overrides_environment_which_overrides_files() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(file.path(), "[queue]\nhold_secs = 1\ndatabase = \"a\"\nsocket = \"b\"\n").expect("write");
    let name = file.path().display().to_string();
    let variables = [
        ("ORCHESTRATOR__QUEUE__HOLD_SECS", "2"),
        ("ORCHESTRATOR__QUEUE__DATABASE", "7117"),
        ("ORCHESTRATOR__ADMIN__LISTEN", ""),
    ];
    let text = print(&["--config", &name, "--set", "queue.hold_secs=3"], &variables);
    let expected = format!(
        "[admin]\nallowed_hosts = []  # default\naudit_file = \"\"  # default\nchaos = false  # default\n\
         listen = \"\"  # environment ORCHESTRATOR__ADMIN__LISTEN\nmax_event_clients = 16  # default\n\
         probe_listen = \"\"  # default\ntokens_file = \"\"  # default\nunix_socket_mode = \"0600\"  # default\n\n\
         [links]\nretry_max_ms = 60000  # default\n\n\
         [queue]\nattempts = 200000  # default\ndatabase = \"7117\"  # environment ORCHESTRATOR__QUEUE__DATABASE\n\
         expect = []  # default\n\
         hold_secs = 3  # --set queue.hold_secs=3\ninput_dir = \"var/fetchers\"  # default\n\
         limit = []  # default\n\
         on_corrupt = \"rebuild\"  # default\nredeliver_after_lease = false  # default\n\
         socket = \"b\"  # {name}:4\nstore = \"sqlite\"  # default\nsynchronous = \"full\"  # default\n\n\
         [queue.postgres]\ndsn = \"postgresql:///orchestrator\"  # default\nschema = \"orchestrator_queue\"  # default\n\n\
         [telemetry]\nfilter = \"info\"  # default\nformat = \"text\"  # default\n"
    );
    assert_eq!(text, expected);
    // The output is a valid configuration with the same values.
    fs::write(file.path(), &text).expect("write");
    let values = |text: &str| toml::from_str::<toml::Table>(text).expect("TOML");
    assert_eq!(values(&print(&["--config", &name], &[])), values(&text));
}

#[test]
fn errors_of_all_sources_are_reported_together() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(file.path(), "[queue]\nhold_secs = \"1\"\n\n[admin]\nlisten = \"[::]:1\"\n").expect("write");
    let name = file.path().display().to_string();
    let arguments = [
        "check",
        "--config",
        &name,
        "--config",
        "/nowhere.toml",
        "--set",
        "queue.socket=[]",
        "--set",
        "x",
        "--only",
        "y",
    ];
    let variables = [
        ("ORCHESTRATOR__QUEUE__HOLDSECS", "2"),
        ("ORCHESTRATOR__TELEMETRY__FORMAT", "xml"),
        ("ORCHESTRATOR_ONE_UNDERSCORE", "is another program's"),
    ];
    let (code, out, err) = run(&arguments, &variables);
    assert_eq!((code, out.as_str()), (78, ""));
    let lines: Vec<_> = err.lines().collect();
    let expected = [
        "orchestrator: the configuration has 8 errors".to_owned(),
        format!("{name}:2: queue.hold_secs: \"1\" is a string, expected an integer"),
        format!("{name}:5: admin.listen: \"[::]:1\" is not a loopback address"),
        "/nowhere.toml: cannot read this file: No such file or directory".to_owned(),
        "environment ORCHESTRATOR__QUEUE__HOLDSECS: queue.holdsecs: unknown key; did you mean hold_secs?"
            .to_owned(),
        "environment ORCHESTRATOR__TELEMETRY__FORMAT: telemetry.format: \"xml\" is not one of text, json"
            .to_owned(),
        "--set queue.socket=[]: queue.socket: this is an array, expected a string".to_owned(),
        "--set x: write it as section.key=value".to_owned(),
        "--only y: there is no such subsystem in this build; it has: queue".to_owned(),
    ];
    assert_eq!(lines.len(), expected.len(), "{err}");
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(line.starts_with(expected), "{line} does not begin with {expected}");
    }
}

/// Each key that names a file with a secret or a certificate.
const FILES: &str = r#"
[queue]
store = "postgres"
[queue.postgres]
dsn_file = "/nowhere/queue-dsn"
[provenance.amqp]
url_file = "/nowhere/amqp.url"
ca_file = "/nowhere/ca.pem"
[provenance.postgres]
dsn_file = "/nowhere/dsn"
[[ingester]]
name = "eiger"
redis_url_file = "/nowhere/redis.url"
redis_ca_file = "/nowhere/ca.pem"
build_meta_file = "/nowhere/git.json"
[[ingester.stream]]
name = "eiger"
source = "stins"
upstream_url = "tcp://detector:9999"
[producer.mongodb]
uri_file = "/nowhere/uri"
[producer.faktory]
password_file = "/nowhere/password"
ca_file = "/nowhere/ca.pem"
[producer.on_complete]
url = "https://receiver/done"
headers_file = "/nowhere/headers"
ca_file = "/nowhere/ca.pem"
[[catalog]]
name = "lab"
base = "https://catalog/ermrest/catalog/1"
credential_file = "/nowhere/credential.json"
ca_file = "/nowhere/ca.pem"
amqp_file = "/nowhere/amqp.url"
[[catalog]]
name = "other"
base = "https://catalog/ermrest/catalog/2"
token_file = "/nowhere/token"
[[catalog.rule]]
name = "images"
table = "Image"
handler = { kind = "http", url = "https://receiver/row", headers_file = "/nowhere/headers", ca_file = "/nowhere/ca.pem" }
claim.set = { state = "claimed", claimed_by = "$token", lease_until = "$now+1m" }
[[hook]]
name = "operator"
on = "queue.failed"
url = "https://receiver/failed"
headers_file = "/nowhere/headers"
ca_file = "/nowhere/ca.pem"
[admin]
listen = "0.0.0.0:7117"
tokens_file = "/nowhere/tokens"
audit_file = "/nowhere/audit"
"#;

#[test]
fn files_of_another_machine_can_be_left_out_of_a_check() {
    let all = fs::read_to_string(directory().join("orchestrator.toml")).expect("UTF-8");
    let key = |line: &str| {
        line.split_once("_file = ").map(|(key, _)| format!("{}_file", key.trim_start_matches('#')))
    };
    for key in all.lines().filter_map(key) {
        assert!(FILES.contains(&format!("{key} = ")), "{key}");
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("site.toml");
    fs::write(&file, FILES).expect("write the configuration");
    let file = file.display().to_string();
    let check = ["check", "--config", &file];
    let (code, _, err) = run(&check, &[]);
    assert!(code == 78 && err.contains("/nowhere/"), "{err}");
    let without = [&check[..], &["--ignore-missing-files"]].concat();
    let (code, out, err) = run(&without, &[]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("catalog"), "{out}");
    let left_out = err.lines().filter(|line| line.ends_with("the file does not exist here: not checked"));
    assert_eq!(left_out.count(), FILES.matches("_file = ").count(), "{err}");
    assert!(err.contains("site.toml:5: queue.postgres.dsn_file: "), "{err}");
    // The rest is checked.
    let wrong = [&without[..], &["--set", "queue.hold_secs=0"]].concat();
    let (code, _, err) = run(&wrong, &[]);
    assert!(code == 78 && err.contains("queue.hold_secs"), "{err}");
    // A file that exists is read.
    let redis = folder.path().join("redis.url");
    fs::write(&redis, "nonsense://").expect("write the file");
    let set = format!("ingester.eiger.redis_url_file={}", redis.display());
    let (code, _, err) = run(&[&without[..], &["--set", &set]].concat(), &[]);
    assert!(code == 78 && err.contains("redis"), "{err}");
}
