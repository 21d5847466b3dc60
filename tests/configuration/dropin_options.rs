//! `--set` and the log variables of a drop-in.

use std::process::Command;

use orchestrator_harness::{Instance, TestEnv, eventually, http};

const NAME: &str = "nixpkgs-update-supervisor";
const CONFIG: i32 = 78;

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

/// Command `as NAME DB DIR SOCKET` with `--set` for each assignment.
fn command(env: &TestEnv, sets: &[&str]) -> Command {
    let mut command = env.bare_command();
    command.args(["as", NAME]).args([env.database_path(), env.input_dir(), env.socket()]);
    command.args(sets.iter().flat_map(|set| ["--set", *set]));
    command.env_remove("RUST_LOG").env_remove("LOG_LEVEL");
    command
}

#[test]
fn set_changes_keys_of_the_section_and_of_the_program() {
    let env = env();
    let socket = format!("admin.unix_socket={}", env.admin_socket().display());
    let instance = Instance::spawn(command(&env, &["queue.hold_secs=7", "telemetry.format=json", &socket]));
    instance.await_service(&env);
    let info = http(&env.admin_socket(), "GET", "/v1/config", &[], "").json();
    assert_eq!(info["queue"]["hold_secs"], 7, "{info}");
    assert_eq!(info["queue"]["socket"], env.socket().display().to_string(), "as on the command line");
    assert_eq!(info["admin"]["listen"], "", "no TCP port");
    eventually("the start to be logged as JSON", || {
        env.log().lines().any(|line| line.starts_with('{') && line.contains("\"started\""))
    });
    assert!(instance.terminate().success());
}

#[test]
fn an_invalid_assignment_is_refused_as_by_the_main_program() {
    for set in ["queue.hold_sec=7", "queue.hold_secs=\"x\"", "queue.hold_secs", "admin.listen=0.0.0.0:1"] {
        let texts = [true, false].map(|as_drop_in| {
            let env = env();
            let mut run = env.bare_command();
            run.args(["check", "--set", "queue.database=a.db", "--set", set]);
            let mut command = if as_drop_in { command(&env, &[set]) } else { run };
            assert_eq!(command.status().expect("it runs").code(), Some(CONFIG), "{set}");
            assert!(!env.database_path().exists(), "{set}: nothing starts");
            env.log()
        });
        assert!(texts[0].contains("the configuration has 1 error\n--set"), "{}", texts[0]);
        assert_eq!(texts[0], texts[1]);
    }
    let env = env();
    assert_eq!(command(&env, &["producer.chunk=7"]).status().expect("it runs").code(), Some(CONFIG));
    assert!(env.log().contains("producer: this command runs queue only"), "{}", env.log());
}

#[test]
fn rust_log_wins_over_log_level() {
    for (variables, is_logged) in [
        (&[][..], true),
        (&[("LOG_LEVEL", "ERROR")], false),
        (&[("LOG_LEVEL", "ERROR"), ("RUST_LOG", "info")], true),
        (&[("LOG_LEVEL", "DEBUG"), ("RUST_LOG", "error")], false),
    ] {
        let env = env();
        let mut command = command(&env, &[]);
        command.envs(variables.iter().copied());
        let instance = Instance::spawn(command);
        instance.await_service(&env);
        if is_logged {
            eventually("the start to be logged", || env.log().contains("started"));
        }
        assert!(instance.terminate().success());
        assert_eq!(env.log().contains("started"), is_logged, "{variables:?}: {}", env.log());
    }
    for (variable, value) in [("LOG_LEVEL", "loud"), ("RUST_LOG", "a=b=c")] {
        let env = env();
        let code = command(&env, &[]).env(variable, value).status().expect("it runs").code();
        assert!(
            code == Some(CONFIG) && env.log().contains(&format!("{variable} = \"{value}\" is not")),
            "{}",
            env.log()
        );
    }
}
