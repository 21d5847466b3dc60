//! Passwords in addresses: refused by every command, through every layer, and seen in no output, log or answer.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use orchestrator_harness::{Instance, Site, eventually, http};
use serde_json::{Value, json};

const SECRET: &str = "S3CR3T";
const PROGRAM: &str = env!("CARGO_BIN_EXE_orchestrator");

/// Sound and malformed.
const ADDRESSES: [&str; 5] = [
    "scheme://user:S3CR3T@host",
    "mongodb://user:S3CR3T?x@host",
    "scheme://user:S3CR3T%2F%40@host:1/x",
    "host=db user=me password=S3CR3T",
    "scheme://host/?x=y&password=S3CR3T",
];

/// Keys whose schema says that they are addresses, with the entries of [`entries`], and whether they are lists.
fn addresses() -> Vec<(Vec<String>, bool)> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("config/schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).expect("the schema")).expect("JSON");
    let mut found = Vec::new();
    gather(&schema, &mut Vec::new(), &mut found);
    assert!(found.len() >= 15, "{found:?}");
    found
}

fn gather(rule: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, bool)>) {
    for (key, inner) in rule["properties"].as_object().into_iter().flatten() {
        path.push(key.clone());
        if inner["format"] == "address" {
            found.push((path.clone(), inner["type"] == "array"));
        }
        gather(inner, path, found);
        if inner["items"]["properties"].is_object() {
            let name = entries().into_iter().find(|(array, _)| array.last() == path.last());
            path.push(name.expect("an entry of every array").1.to_owned());
            gather(&inner["items"], path, found);
            path.pop();
        }
        path.pop();
    }
}

/// Arrays of tables, and what their entry is called here.
fn entries() -> [(Vec<String>, &'static str); 4] {
    [("ingester", "i"), ("stream", "s"), ("catalog", "lab"), ("rule", "convert")]
        .map(|(array, name)| (vec![array.to_owned()], name))
}

/// A configuration with an entry of everything.
fn whole() -> Value {
    json!({
        "ingester": [{ "name": "i", "stream": [{ "name": "s", "source": "stins", "upstream_url": "tcp://detector:9999" }] }],
        "catalog": [{ "name": "lab", "base": "https://h/ermrest/catalog/1",
            "rule": [{ "name": "convert", "table": "T", "claim": { "set": { "state": "claimed" } } }] }],
    })
}

/// Puts `value` at `path`; an entry has one place in its array.
fn put(config: &mut Value, path: &[String], value: Value) {
    let names: Vec<_> = entries().into_iter().map(|(_, name)| name).collect();
    let at = path.iter().fold(config, |at, step| {
        if at.is_array() && names.contains(&step.as_str()) {
            &mut at[0]
        } else {
            if at.is_null() {
                *at = json!({});
            }
            &mut at[step.as_str()]
        }
    });
    *at = value;
}

/// Runs the program: code, and all that it wrote.
fn run(arguments: &[String], environment: &[(String, String)]) -> (Option<i32>, String) {
    let empty = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(PROGRAM);
    command.current_dir(empty.path()).args(arguments).envs(environment.iter().cloned());
    let output = command.output().expect("run the program");
    let wrote = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(wrote).expect("UTF-8"))
}

#[test]
fn a_password_in_an_address_is_refused_and_never_shown() {
    let all = addresses();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let name = file.path().display().to_string();
    let write =
        |config: &Value| fs::write(file.path(), toml::to_string(config).expect("TOML")).expect("write");
    for address in ADDRESSES {
        let value = |list: bool| if list { json!([address]) } else { json!(address) };
        let text = |list: bool| if list { json!([address]).to_string() } else { address.to_owned() };
        let mut config = whole();
        all.iter().for_each(|(path, list)| put(&mut config, path, value(*list)));
        let sets: Vec<_> = all
            .iter()
            .flat_map(|(path, list)| ["--set".to_owned(), format!("{}={}", path.join("."), text(*list))])
            .collect();
        let variable = |path: &[String]| format!("ORCHESTRATOR__{}", path.join("__").to_ascii_uppercase());
        let environment: Vec<_> = all.iter().map(|(path, list)| (variable(path), text(*list))).collect();
        for (config, sets, environment) in
            [(&config, &[][..], &[][..]), (&whole(), &sets, &[]), (&whole(), &[], &environment)]
        {
            write(config);
            for command in [&["check"][..], &["config", "print"], &["run"]] {
                let mut arguments: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
                arguments.extend(["--config".to_owned(), name.clone()]);
                arguments.extend_from_slice(sets);
                let (code, wrote) = run(&arguments, environment);
                assert_eq!(code, Some(78), "{command:?} {address}: {wrote}");
                assert!(!wrote.contains(SECRET), "{command:?} {address}: {wrote}");
                for (path, _) in &all {
                    let key = path.join(".");
                    assert!(wrote.contains(&format!(" {key}: ..: it")), "{command:?} {key}: {wrote}");
                }
            }
        }
    }
}

#[test]
fn arguments_and_lines_that_are_not_understood_are_quoted_without_passwords() {
    let lists: [&[&str]; 14] = [
        &["check", "--set", "provenance.amqp.url=amqp://u:S3CR3T@h/"],
        &["check", "--set", "provenance.amqp.ulr=amqp://u:S3CR3T@h/"],
        &["check", "--set", "provenance.postgres.dsn=host=h password='S3CR3T S3CR3T'"],
        &["check", "--set", "provenance.mongodb.uri=mongodb://u:S3CR3T?x@h"],
        &["check", "--set", "provenance.amqp.url", "amqp://u:S3CR3T@h/"],
        &["check", "--set", "amqp://u:S3CR3T@h/"],
        &["check", "--set", "catalog.lab.tokn=S3CR3T"],
        &["check", "--sett", "provenance.amqp.url=amqp://u:S3CR3T S3CR3T@h/"],
        &["check", "--sett=provenance.amqp.url=amqp://u:S3CR3T@h/"],
        &["amqp://u:S3CR3T@h/"],
        &["check", "--only", "amqp://u:S3CR3T@h/"],
        &["tree", "--url", "https://u:S3CR3T@h/"],
        &["as", "dranspose-ingester", "-c", "x", "-n", "s", "tcp://u:S3CR3T@h:1"],
        &["as", "dranspose-http-ingester", "-c", "x", "-p", "tcp://u:S3CR3T@h:1", "-n", "s"],
    ];
    for arguments in lists {
        let arguments: Vec<_> = arguments.iter().map(|text| (*text).to_owned()).collect();
        let (code, wrote) = run(&arguments, &[]);
        assert!(code.is_some_and(|code| [2, 78].contains(&code)), "{arguments:?}: {code:?} {wrote}");
        assert!(!wrote.contains(SECRET) && !wrote.is_empty(), "{arguments:?}: {wrote}");
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    let check = ["check".to_owned(), "--config".to_owned(), file.path().display().to_string()];
    for text in [
        "[provenance.amqp]\nurl = amqp://u:S3CR3T@h/\n",
        "[provenance.amqp]\nurl = \"amqp://u:S3CR3T@h/\n",
        "[provenance.amqp]\nurl = \"amqp://u:S3CR3T@h/\" x\n",
        "[provenance.amqp]\nurl = \"\"\"\namqp://u:S3CR3T@h/\n",
        "[provenance]\namqp.url: amqp://u:S3CR3T@h/\n",
        "[[catalog]]\nname = \"x\"\ntoken = S3CR3T\n",
        "[[catalog]]\nname = \"x\"\ntoken = 'S3CR3T\n",
        "[[catalog]]\nname = \"x\"\ntoken = [\n'S3CR3T'\n",
    ] {
        fs::write(file.path(), text).expect("write");
        let (code, wrote) = run(&check, &[]);
        assert_eq!(code, Some(78), "{text}: {wrote}");
        assert!(!wrote.contains(SECRET) && wrote.contains(&check[2]), "{text}: {wrote}");
    }
}

/// Answers and log of a running instance.
fn shown(site: &Site) -> String {
    let of = |path: &str| http(&site.admin_socket(), "GET", path, &[], "").body;
    let mut text: String =
        ["/v1/config", "/v1/tree", "/v1/tree.txt", "/readyz", "/metrics", "/v1/info"].map(of).concat();
    for arguments in
        [&["tree"][..], &["top", "--once", "--interval", "0.1"], &["tail", "--no-follow", "-n", "100"]]
    {
        let (_, out, err) = site.cli(arguments);
        text.push_str(&(out + &err));
    }
    text + &site.log()
}

/// A drop-in takes what its original takes, passwords included.
#[test]
fn a_drop_in_takes_an_address_with_a_password_and_shows_it_nowhere() {
    let directory = |site: &Site| site.admin_socket().parent().expect("a directory").to_owned();
    let redis = Site::new(PROGRAM);
    let mut ingester = redis.bare_command();
    ingester.args([
        "as",
        "dranspose-ingester",
        "-c",
        "ZmqPullSingleIngester",
        "-u",
        "tcp://127.0.0.1:9",
        "-n",
        "s",
    ]);
    ingester.env("REDIS_URL", "redis://user:S3CR3T@127.0.0.1:9/0").env("INGESTER_URL", "tcp://localhost:0");

    let broker = Site::new(PROGRAM);
    let file = broker.path().join("swh.yml");
    let text = "provenance:\n  rabbitmq:\n    url: amqp://me:S3CR3T@127.0.0.1:9/%2f\n    storage_config:\n      cls: postgresql\n      db: host=127.0.0.1 port=9 user=me password=S3CR3T\n";
    fs::write(&file, text).expect("write");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
    let mut server = broker.bare_command();
    server.args(["as", "swh-provenance-server"]).env("SWH_CONFIG_FILENAME", &file);

    for (site, mut command, link) in [(&redis, ingester, "redis"), (&broker, server, "amqp")] {
        command.env("RUNTIME_DIRECTORY", directory(site));
        let instance = Instance::spawn(command);
        eventually("the broker to be found away", || {
            site.admin_socket().exists() && site.cli(&["tree"]).1.contains(&format!("{link} down"))
        });
        let text = shown(site);
        assert!(text.contains("127.0.0.1:9") && !text.contains(SECRET), "{text}");
        drop(instance);
    }
}

#[test]
fn a_run_without_any_subsystem_says_so_and_ends() {
    for arguments in [["run", "--set", "admin.listen=127.0.0.1:0"], ["check", "--set", "admin.chaos=true"]] {
        let site = Site::new(PROGRAM);
        let mut command = site.bare_command();
        command.args(arguments);
        let ended = Instance::spawn(command).wait();
        let log = site.log();
        assert_eq!(ended.code(), Some(78), "{log}");
        assert!(log.contains("no subsystem is configured") && log.contains("--only queue"), "{log}");
    }
    let (code, wrote) =
        run(&["check", "--set", "admin.chaos=true", "--only", "queue"].map(str::to_owned), &[]);
    assert_eq!(code, Some(0), "{wrote}");
}
