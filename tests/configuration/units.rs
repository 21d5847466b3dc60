//! Unit files and command lines of users: `config init` understands each, and its result starts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use orchestrator_harness::{Instance, Reply, TestEnv};
use serde_json::Value;

const SUPERVISOR: &str = "nixpkgs-update-supervisor";
const CONFIG: i32 = 78;
/// Paths of the known site.
const SITE: [&str; 3] = [
    "/var/log/nixpkgs-update/~supervisor/state.db",
    "/var/log/nixpkgs-update/~fetchers",
    "/run/nixpkgs-update-supervisor/work.sock",
];

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configuration/units").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Writes a unit file whose Nix store is below the environment's directory.
fn unit(env: &TestEnv, name: &str) {
    let store = format!("{}/nix/store", env.path().display());
    fs::write(env.path().join("n.service"), fixture(name).replace("/nix/store", &store))
        .expect("write a file");
}

/// Writes the start script of the known site's unit.
fn script(env: &TestEnv) {
    let directory =
        "nix/store/0w4wbw5q30dknz2zg1hn92dp2gqm6jbq-unit-script-nixpkgs-update-supervisor-start/bin";
    let directory = env.path().join(directory);
    fs::create_dir_all(&directory).expect("a store");
    fs::write(directory.join("nixpkgs-update-supervisor-start"), fixture("nixpkgs-update-supervisor-start"))
        .expect("write a file");
}

fn init(env: &TestEnv, arguments: &[&str]) -> (i32, String) {
    let base = ["config", "init", "--for", SUPERVISOR, "--output", "out.toml"];
    let (code, _, err) = env.cli(&[&base[..], arguments].concat());
    (code, err)
}

/// Checks the three paths of the configuration, and starts it with these paths below the environment's
/// directory.
fn starts_with(env: &TestEnv, paths: [&str; 3]) {
    let text = fs::read_to_string(env.path().join("out.toml")).expect("a configuration");
    let config: Value = toml::from_str(&text).expect("TOML");
    let queue = &config["queue"];
    let found = ["database", "input_dir", "socket"].map(|key| queue[key].as_str().unwrap_or_default());
    assert_eq!(found, paths, "{text}");
    let below = |path: &str| PathBuf::from(format!("{}{path}", env.path().display()));
    let mut command = env.bare_command();
    command.args(["run", "--config", "out.toml", "--set", "admin.listen="]);
    for (key, path) in ["database", "input_dir", "socket"].iter().zip(paths) {
        command.arg("--set").arg(format!("queue.{key}={}", below(path).display()));
    }
    let instance = Instance::spawn(command);
    let mut worker = orchestrator_harness::wait_for("the worker socket", || {
        orchestrator_harness::Worker::connect(&below(paths[2])).ok()
    });
    assert_eq!(worker.ready(), Reply::NoJobs);
    assert!(below(paths[0]).exists() && below(paths[1]).is_dir());
    assert!(instance.terminate().success());
}

#[test]
fn the_unit_of_the_known_site_starts() {
    let env = env();
    unit(&env, "nixpkgs-update-supervisor.service");
    // The script is on another machine: its path is named, and what to do.
    let (code, err) = init(&env, &["--from", "n.service"]);
    assert!(code == CONFIG && err.contains("-start: No such file") && err.contains("--command"), "{err}");
    let line = fixture("nixpkgs-update-supervisor-start").lines().last().expect("a command").to_owned();
    assert_eq!(init(&env, &["--from", "n.service", "--command", &line]).0, 0);
    starts_with(&env, SITE);
    fs::remove_file(env.path().join("out.toml")).expect("it exists");

    script(&env);
    let (code, err) = init(&env, &["--from", "n.service"]);
    assert_eq!(code, 0, "{err}");
    starts_with(&env, SITE);
}

#[test]
fn a_unit_with_a_shell_command_starts() {
    let env = env();
    unit(&env, "shell.service");
    let (code, err) = init(&env, &["--from", "n.service"]);
    assert_eq!(code, 0, "{err}");
    let state = "/var/lib/nixpkgs-update";
    starts_with(
        &env,
        [&format!("{state}/queue.db"), &format!("{state}/fetchers"), "/run/nixpkgs-update/work.sock"],
    );
}

#[test]
fn a_unit_with_specifiers_starts() {
    let env = env();
    unit(&env, "specifiers.service");
    let (code, err) = init(&env, &["--from", "n.service"]);
    assert!(code == 0 && err.contains("ignored, as by supervisor.py: --log-level=debug"), "{err}");
    let paths = [
        "/var/lib/nixpkgs-update/queue.db",
        "/var/log/nixpkgs-update/~fetchers",
        "/run/nixpkgs-update/work.sock",
    ];
    starts_with(&env, paths);
}

#[test]
fn a_command_line_starts() {
    let env = env();
    let (code, err) =
        init(&env, &["--command", "python3 ./supervisor.py '/srv/my queue.db' /srv/in /srv/w.sock"]);
    assert_eq!(code, 0, "{err}");
    starts_with(&env, ["/srv/my queue.db", "/srv/in", "/srv/w.sock"]);
}

#[test]
fn arguments_that_only_a_shell_knows_are_refused() {
    for (command, said) in [
        ("supervisor.py $HOME/a b c", "$HOME, which the unit file does not set"),
        ("supervisor.py \"$(pwd)/a\" b c", "an expansion of the shell"),
        ("python3 other.py a b c", "none of its words is supervisor.py or supervisor"),
    ] {
        let env = env();
        let (code, err) = init(&env, &["--command", command]);
        assert!(code == CONFIG && err.contains(said) && err.contains("--command"), "{command}: {err}");
        assert!(!env.path().join("out.toml").exists());
    }
    let env = env();
    unit(&env, "specifiers.service");
    let broken = fixture("specifiers.service").replace("${FETCHERS}", "${NONE}/in");
    fs::write(env.path().join("n.service"), broken).expect("write a file");
    let (code, err) = init(&env, &["--from", "n.service"]);
    assert!(code == CONFIG && err.contains("${NONE}, which the unit file does not set"), "{err}");
}
