//! Refused configurations start nothing, and sections select the subsystems that run.

use orchestrator_harness::{Instance, TestEnv};

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

#[test]
fn a_refused_configuration_starts_nothing() {
    let env = env();
    for arguments in [["--set", "queue.nonsense=1"], ["--only", "nonsense"], ["--set", "queue.hold_secs=x"]] {
        let mut command = env.command();
        command.args(arguments);
        assert_eq!(Instance::spawn(command).wait().code(), Some(78), "{arguments:?}");
        assert!(!env.database_path().exists() && !env.socket().exists());
        let (log, value) = (env.log(), arguments[1]);
        let key = value.split(['=', '.']).find(|part| *part != "queue").expect("a key");
        assert!(log.contains(key), "{value}: {log}");
    }
}

/// Children of the root that `check` shows.
fn subsystems(arguments: &[&str]) -> Vec<String> {
    let (code, out, err) = env().cli(&[&["check"], arguments].concat());
    assert_eq!(code, 0, "{arguments:?}: {err}");
    let names = out.lines().filter_map(|line| line.strip_prefix("├─ ").or(line.strip_prefix("└─ ")));
    names.filter_map(|name| name.split("  ").next()).map(str::to_owned).collect()
}

#[test]
fn configured_sections_run_and_the_default_is_queue_and_admin() {
    assert_eq!(subsystems(&[]), ["admin", "queue"]);
    assert_eq!(subsystems(&["--set", "telemetry.filter=warn"]), ["admin", "queue"], "logs are no subsystem");
    assert_eq!(subsystems(&["--set", "admin.chaos=true"]), ["admin", "queue"], "nor is the endpoint");
    assert_eq!(subsystems(&["--set", "queue.hold_secs=1"]), ["admin", "queue"]);
    assert_eq!(subsystems(&["--set", "producer.chunk=1"]), ["admin", "producer"]);
    assert_eq!(subsystems(&["--only", "queue", "--set", "queue.hold_secs=1"]), ["admin", "queue"]);
}

#[test]
fn the_value_of_an_option_may_have_the_name_of_a_command() {
    let env = env();
    let mut command = env.bare_command();
    command.args(["--only", "queue", "--set", "queue.nonsense=1"]);
    assert_eq!(Instance::spawn(command).wait().code(), Some(78), "`queue` is no command here");
    assert!(env.log().contains("queue.nonsense"), "{}", env.log());
}

#[test]
fn options_of_a_command_are_refused_before_it() {
    for arguments in
        [["--only", "queue", "check"], ["--config", "x.toml", "tree"], ["--set", "a.b=1", "demo"]]
    {
        let (code, out, err) = env().cli(&arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains("follow the command"), "{err}");
    }
}
