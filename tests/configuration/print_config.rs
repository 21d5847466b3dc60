//! `orchestrator as --print-config NAME ..`: a run with the printed configuration is the drop-in.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
    process::{Command, Output, Stdio},
};

use orchestrator_harness::{Instance, TestEnv, eventually, http};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const SECRET: &str = "S3CR3T";
const USAGE: i32 = 2;
const CONFIG: i32 = 78;

/// A start of a replaced program. Nobody listens on port 9.
#[derive(Clone, Copy)]
struct Start {
    program: &'static str,
    arguments: &'static str,
    variables: &'static [(&'static str, &'static str)],
    /// The program's own file, and its text.
    file: Option<(&'static str, &'static str)>,
}

const SUPERVISOR: Start = Start {
    program: "nixpkgs-update-supervisor",
    arguments: "queue.db fetchers worker.sock",
    variables: &[],
    file: None,
};

const SUPERVISOR_WITH_OPTIONS: Start = Start {
    arguments: "queue.db fetchers worker.sock --set queue.hold_secs=7 --log-level=debug",
    variables: &[("LOG_LEVEL", "WARNING")],
    ..SUPERVISOR
};

const SERVER: Start = Start {
    program: "swh-provenance-server",
    arguments: "--set provenance.prefetch=7",
    variables: &[("SWH_CONFIG_FILENAME", "swh.yml"), ("RUST_LOG", "warn,orchestrator=debug")],
    file: Some((
        "swh.yml",
        "provenance:\n  rabbitmq:\n    url: amqp://127.0.0.1:9/%2f\n    batch_size: 50\n    storage_config: {cls: postgresql, db: host=127.0.0.1 port=9 user=me}\n",
    )),
};

const INGESTER: Start = Start {
    program: "dranspose-ingester",
    arguments: "-c my.module:Mine -u tcp://127.0.0.1:9 -n eiger --python /opt/venv/bin/python",
    variables: &[
        ("INGESTER_URL", "tcp://localhost:0"),
        ("REDIS_URL", "redis://127.0.0.1:9/2"),
        ("DUMP_PATH", "dumps/x.cbors"),
    ],
    file: None,
};

const HTTP_INGESTER: Start = Start {
    program: "dranspose-http-ingester",
    arguments: "-c dranspose.ingesters.http_sardana:app --host 127.0.0.1 -p 0 -n sardana",
    variables: &[("INGESTER_URL", "tcp://localhost:0"), ("REDIS_URL", "redis://127.0.0.1:9/0")],
    file: None,
};

const PRODUCER: Start = Start {
    program: "fproducer",
    arguments: "config.yaml --strict",
    variables: &[],
    file: Some((
        "config.yaml",
        "faktory-connection-info: {port: 9, domain: 127.0.0.1}\ndb-connection-info: {domain: 127.0.0.1, port: 9, user: , password: , database: t}\ntangle-collections: {stencil_col_name: s, col_name: c, page_size: 250}\nextra: 1\n",
    )),
};

/// A file for a secret: its name, its text, and the key of the address that is not printed.
type Secret = (&'static str, &'static str, &'static str);

const SECRETS: [(Start, &[Secret]); 3] = [
    (
        Start {
            file: Some((
                "swh.yml",
                "provenance:\n  rabbitmq:\n    url: amqp://me:S3CR3T@127.0.0.1:9/%2f\n    storage_config: {cls: postgresql, db: host=127.0.0.1 port=9 user=me password=S3CR3T}\n",
            )),
            ..SERVER
        },
        &[
            ("provenance.amqp.url", "amqp://me:S3CR3T@127.0.0.1:9/%2f", "/provenance/amqp/url"),
            (
                "provenance.postgres.dsn",
                "host=127.0.0.1 port=9 user=me password=S3CR3T",
                "/provenance/postgres/dsn",
            ),
        ],
    ),
    (
        Start {
            variables: &[("REDIS_URL", "redis://me:S3CR3T@127.0.0.1:9/0"), ("DETECTOR_TOKEN", SECRET)],
            ..INGESTER
        },
        &[("ingester.eiger-ingester.redis_url", "redis://me:S3CR3T@127.0.0.1:9/0", "/ingester/0/redis_url")],
    ),
    (
        Start {
            file: Some((
                "config.yaml",
                "faktory-connection-info: {port: 9, domain: ':S3CR3T@127.0.0.1'}\ndb-connection-info: {domain: 127.0.0.1, port: 9, user: root, password: S3CR3T, database: t}\ntangle-collections: {stencil_col_name: s, col_name: c, page_size: 250}\n",
            )),
            ..PRODUCER
        },
        &[
            ("producer.faktory.password", SECRET, "/producer/faktory/url"),
            (
                "producer.mongodb.uri",
                "mongodb://root:S3CR3T@127.0.0.1:9/?authSource=admin",
                "/producer/mongodb/uri",
            ),
        ],
    ),
];

impl Start {
    /// Environment with the program's own file.
    fn env(&self) -> TestEnv {
        let env = TestEnv::new(BINARY);
        if let Some((name, text)) = self.file {
            fs::write(env.path().join(name), text).expect("write a file");
        }
        env
    }

    /// `orchestrator as OPTIONS NAME ARGUMENTS`.
    fn command(&self, env: &TestEnv, options: &[&str]) -> Command {
        let mut command = env.service_command();
        command.env("RUNTIME_DIRECTORY", env.path()).envs(self.variables.iter().copied());
        command.arg("as").args(options).arg(self.program).args(self.arguments.split(' '));
        command
    }

    /// Configuration of a running drop-in.
    fn running(&self, env: &TestEnv) -> Value {
        let _instance = Instance::spawn(self.command(env, &[]));
        eventually("the endpoint to answer", || env.admin_socket().exists() && env.cli(&["tree"]).0 == 0);
        http(&env.admin_socket(), "GET", "/v1/config", &[], "").json()
    }

    /// Printed configuration, and the notes about it.
    fn print(&self, env: &TestEnv) -> (String, String) {
        let (code, text, notes) = output(&mut self.command(env, &["--print-config"]));
        assert_eq!(code, 0, "{}: {notes}", self.program);
        (text, notes)
    }
}

/// Exit code, output and errors of a command.
fn output(command: &mut Command) -> (i32, String, String) {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let Output { status, stdout, stderr } = output.expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

/// Effective configuration of a run with the file `text`.
fn effective(env: &TestEnv, text: &str) -> Value {
    fs::write(env.path().join("out.toml"), text).expect("write a file");
    let (code, _, err) = env.cli(&["check", "--config", "out.toml"]);
    assert_eq!(code, 0, "{err}");
    let (code, text, err) = env.cli(&["config", "print", "--json", "--config", "out.toml"]);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str::<Value>(&text).expect("JSON")["config"].take()
}

/// Number of files in the environment's directory.
fn files(env: &TestEnv) -> usize {
    fs::read_dir(env.path()).expect("a directory").count()
}

#[test]
fn a_run_with_the_printed_configuration_is_the_drop_in() {
    for start in [SUPERVISOR, SUPERVISOR_WITH_OPTIONS, SERVER, INGESTER, HTTP_INGESTER, PRODUCER] {
        let env = start.env();
        let (mut command, before) = (start.command(&env, &["--print-config"]), files(&env));
        let (code, text, notes) = output(&mut command);
        assert_eq!((code, files(&env)), (0, before), "{}: nothing starts: {notes}", start.program);
        let head = format!(
            "# Configuration of orchestrator in place of {}.\n# Values are from the command line and the environment.\n# Keys that are commented out show their defaults",
            start.program
        );
        assert!(text.starts_with(&head), "{text}");
        assert_eq!(effective(&env, &text), start.running(&env), "{}: {text}", start.program);
    }
}

/// The arguments that the original ignores may be any.
#[test]
fn before_the_name_it_is_no_argument_of_the_original() {
    let start = Start { arguments: "a.db in w.sock more --print-config -x", ..SUPERVISOR };
    let env = start.env();
    let (text, notes) = start.print(&env);
    assert!(text.contains("\ndatabase = \"a.db\"\n"), "{text}");
    for said in [text.replace("\n# ", " "), notes] {
        assert!(said.contains("ignored, as by supervisor.py: more --print-config -x;"), "{said}");
    }
    // Right behind arguments that the original reads, it is known, too.
    let start = Start { arguments: "a.db in w.sock --print-config", ..SUPERVISOR };
    let (code, again, _) = output(&mut start.command(&env, &[]));
    assert_eq!(code, 0);
    assert!(again.contains("\ndatabase = \"a.db\"\n") && !env.path().join("a.db").exists(), "{again}");
}

/// Each secret has a file that the configuration names; with it, the configuration is the drop-in's.
#[test]
fn secrets_are_kept_out_of_the_printed_configuration() {
    for (start, secrets) in SECRETS {
        let env = start.env();
        let (text, notes) = start.print(&env);
        assert!(!text.contains(SECRET) && !notes.contains(SECRET), "{text}{notes}");
        for (file, secret, _) in secrets {
            assert!(notes.contains(&format!("write it into the file {file}, mode 0600")), "{notes}");
            assert!(text.contains(&format!("_file = \"{file}\"\n")), "{text}");
            let path = env.path().join(file);
            fs::write(&path, secret).expect("write a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        }
        let both = [start.running(&env), effective(&env, &text)];
        let [running, printed] = both.map(|mut config| {
            secrets.iter().for_each(|(.., key)| remove_address(&mut config, key));
            config
        });
        assert_eq!(printed, running, "{}: {text}", start.program);
    }
}

/// Removes the address at the JSON pointer `key`, and the files that replace it or its password.
fn remove_address(config: &mut Value, key: &str) {
    let (table, key) = key.rsplit_once('/').expect("a pointer");
    let table = config.pointer_mut(table).and_then(Value::as_object_mut).expect("a table");
    [key, &format!("{key}_file"), "password_file"].into_iter().for_each(|key| drop(table.remove(key)));
}

#[test]
fn what_no_configuration_can_have_is_refused_and_nothing_is_printed() {
    for (start, wanted, said) in [
        (Start { arguments: "a.db in", ..SUPERVISOR }, USAGE, "<WORKER_SOCKET>"),
        (
            Start { arguments: "a.db in w.sock --set queue.hold_sec=7", ..SUPERVISOR },
            CONFIG,
            "queue.hold_sec",
        ),
        (Start { arguments: "missing.yaml", ..PRODUCER }, CONFIG, "missing.yaml"),
        (
            Start { variables: &[("LOG_LEVEL", "loud")], ..SUPERVISOR },
            CONFIG,
            "LOG_LEVEL = \"loud\" is not a log level",
        ),
    ] {
        let env = start.env();
        let (code, text, error) = output(&mut start.command(&env, &["--print-config"]));
        assert!(code == wanted && text.is_empty() && error.contains(said), "{code}: {text}{error}");
    }
    // A file name that is not UTF-8.
    let env = SUPERVISOR.env();
    let mut command = env.service_command();
    command.args(["as", "--print-config", SUPERVISOR.program]);
    command.args([Path::new(OsStr::from_bytes(b"\xff.db")), Path::new("in"), Path::new("w.sock")]);
    let (code, text, error) = output(&mut command);
    assert!(code == CONFIG && text.is_empty() && error.contains("UTF-8"), "{code}: {text}{error}");
}
