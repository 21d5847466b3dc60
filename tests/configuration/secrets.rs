//! Passwords in addresses appear in no output, log or response. `src/config/tests/secrets.rs` covers every
//! key and layer.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use orchestrator_harness::{Instance, TestEnv, eventually, http};

const SECRET: &str = "S3CR3T";
const PROGRAM: &str = env!("CARGO_BIN_EXE_orchestrator");

/// Runs the program. Returns its exit code and output.
fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let empty = tempfile::tempdir().expect("a directory");
    let output = Command::new(PROGRAM).current_dir(empty.path()).args(arguments).output();
    let output = output.expect("run the program");
    let wrote = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(wrote).expect("UTF-8"))
}

#[test]
fn invalid_arguments_and_lines_are_quoted_without_passwords() {
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
        &["as", "dranspose-ingester", "--ingesterclass", "x", "--name", "s", "tcp://u:S3CR3T@h:1"],
        &[
            "as",
            "dranspose-http-ingester",
            "--ingesterapp",
            "x",
            "--port",
            "tcp://u:S3CR3T@h:1",
            "--name",
            "s",
        ],
    ];
    for arguments in lists {
        let (code, wrote) = run(arguments);
        assert!(code.is_some_and(|code| [2, 78].contains(&code)), "{arguments:?}: {code:?} {wrote}");
        assert!(!wrote.contains(SECRET) && !wrote.is_empty(), "{arguments:?}: {wrote}");
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    let name = file.path().display().to_string();
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
        let (code, wrote) = run(&["check", "--config", &name]);
        assert_eq!(code, Some(78), "{text}: {wrote}");
        assert!(!wrote.contains(SECRET) && wrote.contains(&name), "{text}: {wrote}");
    }
}

/// Responses, command output and log of a running instance.
fn shown(env: &TestEnv) -> String {
    let of = |path: &str| http(&env.admin_socket(), "GET", path, &[], "").body;
    let mut text: String =
        ["/v1/config", "/v1/tree", "/v1/tree.txt", "/readyz", "/metrics", "/v1/info"].map(of).concat();
    for arguments in
        [&["tree"][..], &["top", "--once", "--interval", "0.1"], &["tail", "--no-follow", "-n", "100"]]
    {
        let (_, out, err) = env.cli(arguments);
        text.push_str(&(out + &err));
    }
    text + &env.log()
}

/// A drop-in accepts addresses with passwords, as its original does.
#[test]
fn a_drop_in_accepts_a_password_and_never_shows_it() {
    let directory = |env: &TestEnv| env.admin_socket().parent().expect("a directory").to_owned();
    let redis = TestEnv::new(PROGRAM);
    let mut ingester = redis.bare_command();
    ingester.args([
        "as",
        "dranspose-ingester",
        "--ingesterclass",
        "ZmqPullSingleIngester",
        "--upstream_url",
        "tcp://127.0.0.1:9",
        "--name",
        "s",
    ]);
    ingester.env("REDIS_URL", "redis://user:S3CR3T@127.0.0.1:9/0").env("INGESTER_URL", "tcp://localhost:0");

    let broker = TestEnv::new(PROGRAM);
    let file = broker.path().join("swh.yml");
    let text = "provenance:\n  rabbitmq:\n    url: amqp://me:S3CR3T@127.0.0.1:9/%2f\n    storage_config:\n      cls: postgresql\n      db: host=127.0.0.1 port=9 user=me password=S3CR3T\n";
    fs::write(&file, text).expect("write");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
    let mut server = broker.bare_command();
    server.args(["as", "swh-provenance-server"]).env("SWH_CONFIG_FILENAME", &file);

    for (env, mut command, link) in [(&redis, ingester, "redis"), (&broker, server, "amqp")] {
        command.env("RUNTIME_DIRECTORY", directory(env));
        let instance = Instance::spawn(command);
        eventually("the link to be down", || {
            env.admin_socket().exists() && env.cli(&["tree"]).1.contains(&format!("{link} down"))
        });
        let text = shown(env);
        assert!(text.contains("127.0.0.1:9") && !text.contains(SECRET), "{text}");
        drop(instance);
    }
}
